"""Inputs bound by name to forward's parameters, nested ones rebuilt."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from dspec.spec.errors import DspecError, SpecError

Tensors = Sequence[torch.Tensor]
Build = Callable[[Tensors], Any]
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)


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
        hint = "name every position of the list, from 0 and without a gap"
        raise SpecError.of("E0420", message, file=spec_file, key="model.inputs", expected=expected, hint=hint)
    kind = tuple if hint is tuple or typing.get_origin(hint) is tuple else list
    return lambda tensors: kind(parts[key](tensors) for key in ordered)
