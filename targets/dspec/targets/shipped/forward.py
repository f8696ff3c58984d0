"""A module's forward called by names: arguments from the declared inputs, the declared outputs out of whatever it returns.

Capture and the service share this file, so that both mean the same by a name.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Build = Callable[[Sequence[Any]], Any]


class StructureError(Exception):
    """forward returned another structure than it did for the example."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """How tensors in spec order become forward's arguments. `constants`: parameters that stay at their default."""

    positional: tuple[Build, ...]
    spread: tuple[Build, ...]
    keywords: Mapping[str, Build]
    constants: Mapping[str, Any]

    def arguments(self, tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args = tuple(build(tensors) for build in self.positional)
        for build in self.spread:
            args += tuple(build(tensors))
        return args, {name: build(tensors) for name, build in self.keywords.items()}


def bind(forward: Callable[..., Any], names: Sequence[str]) -> Call:
    """Bind `names`, which fit, to forward's parameters: dots address dict keys, list positions or fields of an argument."""
    parameters = inspect.signature(forward).parameters
    hints = _hints(forward)
    builds = {name: _build(name, names, hints.get(name)) for name in dict.fromkeys(n.partition(".")[0] for n in names)}
    wanted = {name: p for name, p in parameters.items() if p.kind is not inspect.Parameter.VAR_KEYWORD}
    kinds = {name: p.kind for name, p in wanted.items()}
    positional = [name for name, kind in kinds.items() if kind is inspect.Parameter.POSITIONAL_ONLY and name in builds]
    spread = [name for name, kind in kinds.items() if kind is inspect.Parameter.VAR_POSITIONAL and name in builds]
    if spread:  # what stands before *args can only be filled by position
        before = list(kinds)[: list(kinds).index(spread[0])]
        positional = [name for name in before if name in builds]
    return Call(
        positional=tuple(builds[name] for name in positional),
        spread=tuple(builds[name] for name in spread),
        keywords={name: build for name, build in builds.items() if name not in (*positional, *spread)},
        constants={name: p.default for name, p in wanted.items() if name not in builds and p.default is not p.empty},
    )


def _hints(forward: Callable[..., Any]) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(forward)
    except Exception:  # an annotation that can't be evaluated says nothing; the argument is then a dict or a list
        return {}


def inner_keys(path: str, names: Sequence[str]) -> list[str]:
    """The keys that `names` address right inside `path`, in order."""
    inside = [name[len(path) + 1 :].partition(".")[0] for name in names if name.startswith(f"{path}.")]
    return list(dict.fromkeys(inside))


def _build(path: str, names: Sequence[str], hint: Any) -> Build:
    """The function that picks or rebuilds the argument at `path` from all tensors."""
    if path in names:
        position = list(names).index(path)
        return lambda tensors: tensors[position]
    keys = inner_keys(path, names)
    parts = {key: _build(f"{path}.{key}", names, None) for key in keys}
    if all(key.isdigit() for key in keys):
        ordered = sorted(parts, key=int)
        kind = tuple if hint is tuple or typing.get_origin(hint) is tuple else list
        return lambda tensors: kind(parts[key](tensors) for key in ordered)
    if isinstance(hint, type) and (dataclasses.is_dataclass(hint) or hasattr(hint, "_fields")):
        return lambda tensors: hint(**{key: build(tensors) for key, build in parts.items()})
    return lambda tensors: {key: build(tensors) for key, build in parts.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Answers:
    """Where in forward's result each output is: `paths` in spec order; `count`: leaves of a result known by position."""

    names: tuple[str, ...]
    paths: tuple[str, ...]
    count: int | None

    def select(self, result: Any) -> tuple[Any, ...]:
        """The outputs, tensors in spec order; raises StructureError where the result has another structure."""
        found = dict(leaves(result))
        if self.count is not None and len(found) != self.count:
            raise StructureError(f"{len(found)} values instead of {self.count}")
        lost = [name for name, path in zip(self.names, self.paths, strict=True) if not is_tensor(found.get(path))]
        if lost:
            raise StructureError(f"no tensor {', '.join(lost)}")
        return tuple(found[path] for path in self.paths)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Everything in a result that is no container, by dotted path."""
    parts = _parts(value)
    if parts is None:
        yield path, value
    else:
        for key, inner in parts:
            yield from leaves(inner, f"{path}.{key}" if path else str(key))


def _parts(value: Any) -> list[tuple[Any, Any]] | None:
    if isinstance(value, Mapping):
        return list(value.items())
    if fields(value):
        return [(name, getattr(value, name)) for name in fields(value)]
    if isinstance(value, (list, tuple)):
        return list(enumerate(value))
    return None


def fields(value: Any) -> tuple[str, ...]:
    """Field names of a NamedTuple, a dataclass, or one of torch's own result tuples (torch.max)."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return tuple(field.name for field in dataclasses.fields(value))
    if isinstance(value, tuple):
        return tuple(getattr(value, "_fields", ()) or getattr(type(value), "__match_args__", ()))
    return ()


def is_tensor(value: Any) -> bool:
    """Whether it is a torch.Tensor. Bundles without torch hold this file too: where there is a tensor, torch is loaded."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)
