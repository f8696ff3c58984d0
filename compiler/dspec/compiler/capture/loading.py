"""Puts a checkpoint into a module: exact keys, shapes and dtypes, or an error that lists them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]

from dspec.compiler.capture.keys import Match, Names, match
from dspec.compiler.capture.weights import read_checkpoint
from dspec.spec.errors import Diagnostic, ExportError
from dspec.spec.models import Weights

Tensors = Mapping[str, torch.Tensor]


def load_weights(module: nn.Module, wanted: Weights, path: Path) -> tuple[Diagnostic, ...]:
    """Fill `module` from `path`; gives warnings: what was resolved, left out or cast, and non-finite values.

    Raises ExportError where keys, shapes or dtypes do not fit exactly.
    """
    checkpoint = read_checkpoint(path)
    names = Names.of(module)
    found = match(checkpoint, names, wanted, path.name, partial(_accepts, module))
    _check_tied(found, names, path.name)
    state = {**dict(module.named_buffers(remove_duplicate=False)), **module.state_dict()}
    known = {key: value for key, value in found.tensors.items() if key in state}
    _check_shapes(known, state, path.name)
    said = [*found.resolved, *_check_dtypes(known, state, wanted, path.name)]
    said += _check_transient(known, state, names, path.name)
    beside = checkpoint.beside(found.path)
    said += [f"left out {', '.join(beside[:8])}"] if beside else []
    _fill(
        module,
        {key: value for key, value in found.tensors.items() if key not in names.transient},
        path.name,
    )
    return (*(_note(path.name, text) for text in said), *_non_finite(found.tensors, path.name))


def _accepts(module: nn.Module, tensors: Tensors) -> bool:
    """Whether the module takes these names through hooks of its own, with nothing missing and nothing left over."""
    hooked = any(inner._load_state_dict_pre_hooks for inner in module.modules())
    if not hooked or {value.dtype for value in tensors.values()} - {value.dtype for _, value in _every(module)}:
        return False
    try:
        result = module.load_state_dict(dict(tensors), strict=False)
    except RuntimeError:
        return False
    return not result.missing_keys and not result.unexpected_keys


def _note(file: str, text: str) -> Diagnostic:
    return Diagnostic(code="E0416", message=f"{file}: {text}", key="model.weights", severity="note")


def _error(code: str, message: str, hint: str, notes: Iterable[str]) -> ExportError:
    return ExportError(Diagnostic(code=code, message=message, key="model.weights", hint=hint, notes=tuple(notes)))


def _some(lines: list[str]) -> list[str]:
    return lines[:5] + ([f"… and {len(lines) - 5} more"] if len(lines) > 5 else [])


def _check_tied(found: Match, names: Names, file: str) -> None:
    """Tied names of the module may be stored twice, with one value."""
    for group in {keys for keys in names.aliases.values() if len(keys) > 1}:
        stored = [key for key in sorted(group) if key in found.tensors]
        values = [found.tensors[key] for key in stored]
        if any(value.shape != values[0].shape or not torch.equal(value, values[0]) for value in values[1:]):
            both = " and ".join(stored)
            message = f"{file}: the module ties {both}, the file holds different values for them"
            raise _error(
                "E0415",
                message,
                "untie them in the module, or name the stale one in model.weights.ignore",
                (),
            )


def _check_shapes(stored: Tensors, state: Tensors, file: str) -> None:
    wrong = [
        f"{key}: {list(value.shape)} in the file, {list(state[key].shape)} in the module"
        for key, value in stored.items()
        if not isinstance(state[key], UninitializedTensorMixin) and value.shape != state[key].shape
    ]
    if wrong:
        hint = "check model.config: the module was built in other sizes"
        raise _error("E0413", f"{file}: {len(wrong)} tensors have another shape", hint, _some(wrong))


def _check_dtypes(stored: Tensors, state: Tensors, wanted: Weights, file: str) -> list[str]:
    wrong = [
        f"{key}: {_dtype(value)} in the file, {_dtype(state[key])} in the module"
        for key, value in stored.items()
        if value.dtype != state[key].dtype
    ]
    if wrong and not wanted.cast:
        hint = "set model.weights.cast: true if that is meant, or build the module in the stored dtype"
        raise _error("E0414", f"{file}: {len(wrong)} tensors have another dtype", hint, _some(wrong))
    kinds = sorted({f"{_dtype(v)} → {_dtype(state[k])}" for k, v in stored.items() if v.dtype != state[k].dtype})
    return [f"cast {len(wrong)} tensors ({', '.join(kinds)})"] if wrong else []


def _dtype(value: torch.Tensor) -> str:
    return str(value.dtype).removeprefix("torch.")


def _check_transient(stored: Tensors, state: Tensors, names: Names, file: str) -> list[str]:
    """A buffer that the module computes itself: what the file says of it must agree."""
    extra = sorted(names.transient & set(stored))
    wrong = [key for key in extra if not torch.equal(stored[key], state[key])]
    if wrong:
        message = f"{file}: the module computes other values for {', '.join(wrong[:5])} than the file holds"
        raise _error(
            "E0415",
            message,
            "make the buffer persistent, or name the key in model.weights.ignore",
            (),
        )
    return [f"left out {', '.join(extra[:5])}, which the module computes itself"] if extra else []


def _fill(module: nn.Module, tensors: Tensors, file: str) -> None:
    try:
        result = module.load_state_dict(dict(tensors), strict=False, assign=_on_meta(module))
    except Exception as error:
        raise _error("E0412", f"{file}: the module refused the weights: {error}", "see the message", ()) from error
    aliases = Names.of(module)
    left = sorted(key for key in result.missing_keys if not aliases.tied(key, tensors))
    bare = sorted(name for name, value in _every(module) if value.is_meta)
    if left or bare:
        names = ", ".join([*left, *bare][:5])
        raise _error(
            "E0412",
            f"{file}: no values for {names}",
            "build the module on the CPU, not on `meta`",
            (),
        )


def _every(module: nn.Module) -> list[tuple[str, torch.Tensor]]:
    return [*module.named_parameters(), *module.named_buffers()]


def _on_meta(module: nn.Module) -> bool:
    return any(value.is_meta for _, value in _every(module))


def _non_finite(stored: Tensors, file: str) -> list[Diagnostic]:
    floats = ((key, value) for key, value in stored.items() if value.is_floating_point())
    bad = [key for key, value in floats if not _finite(value)]
    if not bad:
        return []
    message = f"{file}: {len(bad)} tensors hold NaN or infinity: {', '.join(bad[:5])}"
    hint = "look at the training run that wrote them"
    return [Diagnostic(code="E0417", message=message, key="model.weights", severity="warning", hint=hint)]


def _finite(value: torch.Tensor) -> bool:
    return bool(torch.isfinite(value.float() if value.element_size() == 1 else value).all())
