"""Runtimes: how a captured program becomes a bundle. `RUNTIMES` is the one list of them."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dspec.spec.catalogue import Catalogue, RuntimeEntry, StepEntry
from dspec.targets.shipped import steps
from dspec.targets.shipped.step import Value

if TYPE_CHECKING:  # `check` needs the catalogue at once, and the records behind the protocol not at all
    from dspec.targets.protocol import Builder, Runtime

RUNTIMES = ("executorch", "fastapi", "onnxruntime", "triton")
BUILDERS = ("onnx", "pte")
ENTRY_POINTS = "dspec.runtimes"  # name → package laid out as those here: options.ENTRY and runtime.RUNTIME


def _package(name: str) -> str:
    if name in RUNTIMES:
        return f"dspec.targets.{name}"
    return _added()[name]


@cache
def _added() -> dict[str, str]:
    """The runtimes that installed distributions add: name → package. Asked only where ours do not answer: it is slow."""
    from importlib.metadata import entry_points

    return {found.name: found.value for found in entry_points(group=ENTRY_POINTS)}


def runtime_names() -> tuple[str, ...]:
    """Our runtimes and those that installed distributions add, sorted."""
    return tuple(sorted({*RUNTIMES, *_added()}))


def package_folders(name: str) -> list[Path]:
    """Where the sources of a runtime lie, found without importing it."""
    found = importlib.util.find_spec(_package(name))
    return [Path(folder) for folder in (found.submodule_search_locations or ())] if found else []


def runtime(name: str) -> Runtime:
    """The runtime of that name; its heavy libraries load only when it is used."""
    found: Runtime = importlib.import_module(f"{_package(name)}.runtime").RUNTIME
    return found


def builder(name: str) -> Builder:
    """The builder of one kind of artifact."""
    found: Builder = importlib.import_module(f"dspec.targets.artifacts.{name}").BUILDER
    return found


@cache
def catalogue() -> Catalogue:
    """Every step and runtime that a spec may name; imports nothing heavy."""
    return Catalogue(
        steps=_Steps(),
        runtimes=_Runtimes(),
        value=Value,
    )


def _step_entry(name: str, step: type[Any]) -> StepEntry:
    return StepEntry(
        name=name,
        params=step,
        takes=step.takes,
        gives=step.gives,
        places=step.places,
        requires=step.requires,
        summary=(step.__doc__ or "").partition("\n")[0],
    )


class _Steps(Mapping[str, StepEntry]):
    """The steps by name, each read when it is asked for: a `check` pays for those of its spec alone."""

    def __getitem__(self, name: str) -> StepEntry:
        if name not in steps.NAMES:
            raise KeyError(name)
        return _step_entry(name, steps.load(name))

    def __iter__(self) -> Iterator[str]:
        return iter(steps.NAMES)

    def __len__(self) -> int:
        return len(steps.NAMES)


class _Runtimes(Mapping[str, RuntimeEntry]):
    """The runtimes by name, each read when it is asked for."""

    def __getitem__(self, name: str) -> RuntimeEntry:
        entry: RuntimeEntry = importlib.import_module(f"{_package(name)}.options").ENTRY
        return entry

    def __iter__(self) -> Iterator[str]:
        return iter(runtime_names())

    def __len__(self) -> int:
        return len(runtime_names())
