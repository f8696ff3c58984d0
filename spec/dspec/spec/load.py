"""Reading a `deploy.yaml`: text → tree → typed draft → pipelines → checks → Spec, with every default filled in."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from dspec.spec import checks
from dspec.spec.catalogue import Catalogue
from dspec.spec.checks_targets import validated_options
from dspec.spec.context import Context
from dspec.spec.draft import draft
from dspec.spec.errors import Diagnostic, MachineError, SpecError
from dspec.spec.models import Dim, Spec, Target
from dspec.spec.pipes import Pipes, assemble
from dspec.spec.sources import SourceMap
from dspec.spec.written import plain_options
from dspec.spec.yamltext import MAX_BYTES, in_order, read

MAX_FINDINGS = 200
MACHINE_CODES = frozenset(("E0336",))  # nothing is wrong with the spec; this machine lacks something


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A spec that is valid, and where everything in it stands."""

    spec: Spec
    path: Path
    folder: Path
    sources: SourceMap
    warnings: tuple[Diagnostic, ...]

    def diagnostic(self, code: str, key_path: Sequence[str | int], message: str, **details: Any) -> Diagnostic:
        """A later finding about a key path such as `("targets", "fleet", "slo")`, with place and excerpt.

        `details`: expected, hint, severity, notes; `on="key"` underlines the key instead of the value.
        """
        return self.sources.diagnostic(code, tuple(key_path), message, **details)


def load(path: Path, catalogue: Catalogue, *, today: datetime.date | None = None) -> Loaded:
    """Read and check a spec. Nothing of the user's is imported or executed.

    Every path in it is relative to its folder. Waivers are held against `today`; absent: the clock's day.

    Raises:
        SpecError: all findings of the file, by line (exit 2).
        MachineError: the spec is right, and a package it names is not installed here (exit 4).
    """
    data = _read(path)
    parsed = read(data, str(path))
    sources = SourceMap(str(path), parsed.text, parsed.root)
    drafted = draft(sources)
    pipes = assemble(drafted, sources, catalogue)
    context = Context(
        draft=drafted,
        pipes=pipes,
        sources=sources,
        catalogue=catalogue,
        folder=path.parent,
        today=today or datetime.date.today(),
    )
    later = [*drafted.problems, *pipes.problems, *islice(checks.run(context), MAX_FINDINGS + 1)]
    found = in_order([*parsed.faults, *(one for one in later if (one.line, one.col) not in parsed.guessed)])
    found = _told(found)
    _refuse(found)
    spec = _finished(drafted.spec, pipes, sources, catalogue)
    return Loaded(spec=spec, path=path, folder=path.parent, sources=sources, warnings=tuple(found))


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise SpecError.of("E0101", f"can't read the spec: {reason}", file=str(path), expected="a deploy.yaml",
                           hint="name the file, or write one with `dspec init`") from error  # fmt: skip


def _told(found: list[Diagnostic]) -> list[Diagnostic]:
    """What people can read: beyond MAX_FINDINGS, errors come first and the rest is counted."""
    if len(found) <= MAX_FINDINGS:
        return found
    first = sorted(found, key=lambda one: one.severity != "error")[:MAX_FINDINGS]
    last = replace(first[-1], code="E0901", message=f"more than {MAX_FINDINGS} findings: the rest is not shown",
                   expected="", hint="correct these, then check again", notes=())  # fmt: skip
    return [*in_order(first), last]


def _refuse(found: list[Diagnostic]) -> None:
    errors = [one for one in found if one.severity == "error"]
    if not errors:
        return
    machine = all(one.code in MACHINE_CODES for one in errors)
    raise (MachineError if machine else SpecError)(found)


def _finished(spec: Spec, pipes: Pipes, sources: SourceMap, catalogue: Catalogue) -> Spec:
    targets = {name: _with_options(target, catalogue) for name, target in spec.targets.items()}
    dims = {name: _with_min(name, dim, sources) for name, dim in spec.model.dims.items()}
    explicit = {
        "targets": targets,
        "model": spec.model.model_copy(update={"dims": dims}),
        "request": pipes.request,
        "preprocess": pipes.preprocess,
        "postprocess": pipes.postprocess,
        "response": pipes.response,
    }
    return spec.model_copy(update=explicit)


def _with_options(target: Target, catalogue: Catalogue) -> Target:
    found = validated_options(target, catalogue.runtimes[target.runtime])
    return target.model_copy(update={"options": plain_options(found)})


def _with_min(name: str, dim: Dim, sources: SourceMap) -> Dim:
    """A min that nobody wrote is the first size that can occur."""
    if sources.node(("model", "dims", name, "min")) is not None:
        return dim
    return dim.model_copy(update={"min": max(dim.min, dim.multiple_of)})
