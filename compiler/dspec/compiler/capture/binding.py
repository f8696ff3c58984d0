"""Names ↔ forward: spec inputs become its arguments, what it returns becomes the spec's outputs."""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from dspec.spec.errors import DspecError, ExportError, SpecError

Tensors = Sequence[torch.Tensor]
Build = Callable[[Tensors], Any]
_NAME = re.compile(r"^[A-Za-z][A-Za-z0-9_.]*$")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)


class StructureError(Exception):
    """forward returned another structure than it did for the example."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """How tensors in spec order become forward's arguments. `constants`: parameters that stay at their default."""

    positional: tuple[Build, ...]
    spread: tuple[Build, ...]
    keywords: Mapping[str, Build]
    constants: Mapping[str, Any]

    def arguments(self, tensors: Tensors) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args = tuple(build(tensors) for build in self.positional)
        for build in self.spread:
            args += tuple(build(tensors))
        return args, {name: build(tensors) for name, build in self.keywords.items()}


def bind_inputs(module: nn.Module, names: Sequence[str], spec_file: str) -> Call:
    """Bind `names` (dots address dict keys, list positions or fields inside an argument) to forward's parameters.

    Raises SpecError with every unknown and missing name, and forward's parameters.
    """
    parameters = inspect.signature(module.forward).parameters
    hints = _hints(module)
    top = list(dict.fromkeys(name.partition(".")[0] for name in names))
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    wanted = {name: p for name, p in parameters.items() if p.kind is not inspect.Parameter.VAR_KEYWORD}
    unknown = [name for name in top if name not in wanted and not takes_any]
    missing = [
        name
        for name, p in wanted.items()
        if p.default is p.empty and p.kind is not inspect.Parameter.VAR_POSITIONAL and name not in top
    ]
    if unknown or missing:
        raise _misnamed(unknown, missing, parameters, module, spec_file)
    builds = {name: _build(name, names, hints.get(name), spec_file) for name in top}
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


def _hints(module: nn.Module) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(module.forward)
    except Exception:  # an annotation that can't be evaluated says nothing; the argument is then a dict or a list
        return {}


def _misnamed(
    unknown: list[str], missing: list[str], parameters: Mapping[str, Any], module: nn.Module, spec_file: str
) -> DspecError:
    parts = [f"forward has no parameter {', '.join(unknown)}"] if unknown else []
    parts += [f"forward needs {', '.join(missing)}, which model.inputs does not name"] if missing else []
    offered = ", ".join(str(parameter) for parameter in parameters.values())
    return SpecError.of(
        "E0420",
        "; ".join(parts),
        file=spec_file,
        key="model.inputs",
        expected=f"names of {type(module).__name__}.forward({offered})",
        hint="inputs are bound by name; give a parameter that is no input a default value",
    )


def _build(path: str, names: Sequence[str], hint: Any, spec_file: str) -> Build:
    """The function that picks or rebuilds the argument at `path` from all tensors."""
    if path in names:
        if any(name.startswith(f"{path}.") for name in names):
            message = f"{path} is named as a tensor and as a container"
            raise SpecError.of("E0420", message, file=spec_file, key="model.inputs", hint="name only its parts")
        position = list(names).index(path)
        return lambda tensors: tensors[position]
    inside = [name[len(path) + 1 :].partition(".")[0] for name in names if name.startswith(f"{path}.")]
    keys = list(dict.fromkeys(inside))
    parts = {key: _build(f"{path}.{key}", names, None, spec_file) for key in keys}
    if all(key.isdigit() for key in keys):
        return _sequence(path, parts, hint, spec_file)
    if isinstance(hint, type) and (dataclasses.is_dataclass(hint) or hasattr(hint, "_fields")):
        return lambda tensors: hint(**{key: build(tensors) for key, build in parts.items()})
    return lambda tensors: {key: build(tensors) for key, build in parts.items()}


def _sequence(path: str, parts: Mapping[str, Build], hint: Any, spec_file: str) -> Build:
    ordered = sorted(parts, key=int)
    if [int(key) for key in ordered] != list(range(len(ordered))):
        message = f"{path} is a list with positions {', '.join(ordered)}"
        expected = f"{path}.0 to {path}.{len(ordered) - 1}, one after the other"
        raise SpecError.of("E0420", message, file=spec_file, key="model.inputs", expected=expected)
    kind = tuple if hint is tuple or typing.get_origin(hint) is tuple else list
    return lambda tensors: kind(parts[key](tensors) for key in ordered)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answers:
    """Where in forward's result each output is: `paths` in spec order; `count`: leaves of a result known by position."""

    names: tuple[str, ...]
    paths: tuple[str, ...]
    count: int | None

    def select(self, result: Any) -> tuple[torch.Tensor, ...]:
        """The outputs in spec order; raises StructureError where the result has another structure."""
        found = dict(leaves(result))
        if self.count is not None and len(found) != self.count:
            raise StructureError(f"{len(found)} values instead of {self.count}")
        lost = [name for name, path in zip(self.names, self.paths, strict=True) if not _is_tensor(found.get(path))]
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
    if _fields(value):
        return [(name, getattr(value, name)) for name in _fields(value)]
    if isinstance(value, list | tuple):
        return list(enumerate(value))
    return None


def _fields(value: Any) -> tuple[str, ...]:
    """Field names of a NamedTuple, a dataclass, or one of torch's own result tuples (torch.max)."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return tuple(field.name for field in dataclasses.fields(value))
    if isinstance(value, tuple):
        return tuple(getattr(value, "_fields", ()) or getattr(type(value), "__match_args__", ()))
    return ()


def bind_outputs(result: Any, declared: Sequence[str], spec_file: str, where: Mapping[str, Any]) -> Answers:
    """Match what forward returned with the declared names: by key or field, or by position in tuples and lists.

    Without declared names all of it is taken, under its own names. Raises SpecError for names and counts that do not
    fit, ExportError for values that are no tensors.
    """
    found = dict(leaves(result))
    named = not isinstance(result, torch.Tensor) and (isinstance(result, Mapping) or bool(_fields(result)))
    by_field = named and (not declared or bool(set(declared) & set(found)) or not _is_torch_tuple(result))
    if by_field:
        return _by_name(result, found, declared, spec_file, where)
    _check_tensors(found, where)
    if declared and len(declared) != len(found):
        raise SpecError.of(
            "E0421",
            f"forward returns {len(found)} tensor{'s' * (len(found) != 1)}, model.outputs names {len(declared)}",
            file=spec_file,
            key="model.outputs",
            hint="name every position of the tuple, in order",
        )
    single = list(found) == [""]
    names = tuple(declared) or (("output",) if single else tuple(f"output_{path.replace('.', '_')}" for path in found))
    return Answers(names=names, paths=tuple(found), count=len(found))


def _by_name(
    result: Any, found: Mapping[str, Any], declared: Sequence[str], spec_file: str, where: Mapping[str, Any]
) -> Answers:
    present = {path: value for path, value in found.items() if value is not None}
    unknown = [name for name in declared if name not in present]
    if unknown:
        raise SpecError.of(
            "E0421",
            f"forward returns no {', '.join(unknown)}",
            file=spec_file,
            key="model.outputs",
            expected=f"names of what {type(result).__name__} holds: {', '.join(present)}",
            hint="outputs are matched by name",
        )
    chosen = tuple(declared) or tuple(present)
    _check_tensors({path: present[path] for path in chosen}, where)
    odd = [path for path in chosen if not _NAME.match(path)]
    if odd:
        message = f"forward returns {', '.join(odd)}, which can't be a name in a spec"
        raise ExportError.of("E0421", message, key="model.outputs", hint="return a dict with plain keys", **where)
    return Answers(names=chosen, paths=chosen, count=None)


def _check_tensors(found: Mapping[str, Any], where: Mapping[str, Any]) -> None:
    if not found:
        raise ExportError.of("E0422", "forward returns nothing", hint="return tensors", **where)
    if list(found) == [""] and not _is_tensor(found[""]):
        message = f"forward returns a {type(found['']).__name__}"
        expected = "a tensor, or a dict, tuple, NamedTuple or dataclass of tensors"
        raise ExportError.of("E0422", message, expected=expected, hint="return tensors", **where)
    odd = [f"{path} is {_words(value)}" for path, value in found.items() if not _is_tensor(value)]
    if odd:
        message = f"forward returns values that are no tensors: {', '.join(odd)}"
        hint = "leave them out, or return a dict and name in model.outputs only what is a tensor"
        raise ExportError.of("E0422", message, expected="tensors only", hint=hint, **where)


def _words(value: Any) -> str:
    plain = value is None or isinstance(value, bool | int | float | str)
    return repr(value) if plain else f"a {type(value).__name__}"


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _is_torch_tuple(value: Any) -> bool:
    return type(value).__module__ == "torch.return_types"
