"""Inputs bound by name to forward's parameters, nested ones rebuilt: whether the names fit, and what is wrong where not."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from dspec.spec.errors import DspecError, SpecError
from dspec.targets.shipped.forward import Call, bind, inner_keys


def bind_inputs(module: nn.Module, names: Sequence[str], spec_file: str) -> Call:
    """Bind `names` (dots address dict keys, list positions or fields inside an argument) to forward's parameters.

    Raises SpecError with every unknown and missing name, and forward's parameters.
    """
    parameters = inspect.signature(module.forward).parameters
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
    for name in top:
        _check_parts(name, names, spec_file)
    return bind(module.forward, names)


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


def _check_parts(path: str, names: Sequence[str], spec_file: str) -> None:
    """Raise SpecError for a tensor that is a container too, and for a list with a hole."""
    keys = inner_keys(path, names)
    if path in names:
        if keys:
            message = f"{path} is named as a tensor and as a container"
            raise SpecError.of("E0420", message, file=spec_file, key="model.inputs", hint="name only its parts")
        return
    for key in keys:
        _check_parts(f"{path}.{key}", names, spec_file)
    ordered = sorted(keys, key=int) if all(key.isdigit() for key in keys) else []
    if [int(key) for key in ordered] != list(range(len(ordered))):
        message = f"{path} is a list with positions {', '.join(ordered)}"
        expected = f"{path}.0 to {path}.{len(ordered) - 1}, one after the other"
        hint = "name every position of the list, from 0 and without a gap"
        raise SpecError.of("E0420", message, file=spec_file, key="model.inputs", expected=expected, hint=hint)
