"""The module as it is captured: a copy in eval mode, fused paths off, and proof that a call leaves nothing behind."""

from __future__ import annotations

import contextlib
import copy
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from dspec.compiler.capture.usercode import UserCode, check_arguments
from dspec.spec.errors import Diagnostic, DspecError, ExportError
from dspec.spec.models import Spec

_DEPTH = 3  # how deep containers on a module are searched for tensors
_LIVE_IN_TRAINING = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._NormBase)


def build_module(spec: Spec, code: UserCode) -> nn.Module:
    """What the factory returns, deep-copied: the user's own object is never touched.

    Random initialisation is seeded, so a module without weights is the same every time. Raises SpecError or ExportError.
    """
    callee, config = spec.model.factory, dict(spec.model.config)
    factory = code.load(callee, "model.factory")
    if isinstance(factory, nn.Module):
        raise _no_module(callee, f"is a {type(factory).__name__} itself, not a function that returns one", code)
    check_arguments(factory, config, callee, code.spec_file)
    _seed()
    with code.guard(f"calling {callee}"), torch.no_grad():
        made = factory(**config)
    module = _unwrap(made)
    if isinstance(module, torch.jit.ScriptModule | torch.jit.ScriptFunction):
        raise _no_module(callee, "returned TorchScript, which can't be exported", code)
    if not isinstance(module, nn.Module):
        raise _no_module(callee, f"returned {type(made).__name__}", code)
    with code.guard(f"copying what {callee} returned"):
        return copy.deepcopy(module)


def _seed() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


def _unwrap(made: Any) -> Any:
    """The module inside torch.compile and data-parallel wrappers."""
    while isinstance(made, nn.DataParallel | nn.parallel.DistributedDataParallel) or hasattr(made, "_orig_mod"):
        made = made._orig_mod if hasattr(made, "_orig_mod") else made.module
    return made


def _no_module(callee: str, what: str, code: UserCode) -> DspecError:
    return ExportError.of(
        "E0404",
        f"{callee} {what}",
        file=code.spec_file,
        key="model.factory",
        expected="a function that returns a torch.nn.Module",
        hint="return the module built from its class; weights are loaded from model.weights",
    )


def set_eval(module: nn.Module) -> tuple[Diagnostic, ...]:
    """Put the module in eval mode; warn where that changes what it computes, refuse where it won't go."""
    live = _live(module)
    module.eval()
    module.requires_grad_(False)
    stuck = _live(module)
    if stuck:
        message = f"{', '.join(stuck[:5])} stay in training mode after eval()"
        hint = "let train(False) reach every submodule"
        raise ExportError.of("E0430", message, hint=hint, key="model.factory")
    if not live:
        return ()
    more = f" and {len(live) - 3} more" if len(live) > 3 else ""
    message = f"the factory left the module in training mode ({', '.join(live[:3])}{more}); captured in eval mode"
    return (
        Diagnostic(code="E0434", message=message, key="model.factory", severity="warning", hint="call .eval() in it"),
    )


def _live(module: nn.Module) -> list[str]:
    """Submodules that compute something else in training mode."""
    return [
        f"{type(inner).__name__} at {name or 'the top'}"
        for name, inner in module.named_modules()
        if inner.training and isinstance(inner, _LIVE_IN_TRAINING) and getattr(inner, "p", 1) != 0
    ]


@contextlib.contextmanager
def quiet_machine() -> Iterator[None]:
    """One thread, no fused attention path: the reference is the plain arithmetic. Everything is put back."""
    threads, fused = torch.get_num_threads(), torch.backends.mha.get_fastpath_enabled()
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)
        torch.set_num_threads(threads)


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """What hangs on a module at one moment: buffers by value, every other tensor by identity."""

    buffers: Mapping[str, torch.Tensor]
    kept: Mapping[str, torch.Tensor]

    @classmethod
    def of(cls, module: nn.Module) -> State:
        return cls(
            buffers={name: value.clone() for name, value in module.named_buffers() if not value.is_meta},
            kept=dict(_tensors_on(module)),
        )

    def check(self, module: nn.Module) -> None:
        """Raise ExportError naming what a call changed or left behind on the module."""
        for name, value in module.named_buffers():
            if name not in self.buffers or not _same(value, self.buffers[name]):
                raise mutated_buffer(name, module)
        for name, value in _tensors_on(module):
            if self.kept.get(name) is not value:
                raise _kept(name)


def mutated_buffer(name: str, module: nn.Module | None = None, **details: Any) -> DspecError:
    """The error about a buffer that a call changes."""
    owner = dict(module.named_modules()).get(name.rpartition(".")[0]) if module else None
    of = f" of {type(owner).__name__}" if owner is not None else ""
    return ExportError.of(
        "E0431",
        f"forward changes the buffer `{name}`{of}: an answer would depend on the requests before it",
        hint="compute it in the factory, or take the state as an input and return the new one as an output",
        **details,
    )


def _kept(name: str) -> DspecError:
    return ExportError.of(
        "E0432",
        f"forward keeps a tensor on `self.{name}` between calls",
        hint="return it, or compute it in the factory and register it as a buffer",
    )


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return (
        torch.equal(torch.nan_to_num(one), torch.nan_to_num(other))
        if one.is_floating_point()
        else torch.equal(one, other)
    )


def _tensors_on(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor reachable from attributes of the module and its submodules, buffers left out."""
    for path, inner in module.named_modules():
        prefix = f"{path}." if path else ""
        for name, value in vars(inner).items():
            if name not in ("_buffers", "_modules"):
                label = prefix if name == "_parameters" else f"{prefix}{name}"
                yield from _within(value, label, 0)


def _within(value: Any, path: str, depth: int) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, Mapping) and depth < _DEPTH:
        for key, inner in list(value.items()):
            yield from _within(inner, f"{path}.{key}" if path and not path.endswith(".") else f"{path}{key}", depth + 1)
    elif isinstance(value, list | tuple | set | frozenset) and depth < _DEPTH:
        for number, inner in enumerate(value):
            yield from _within(inner, f"{path}[{number}]", depth + 1)
    elif (
        depth < _DEPTH
        and hasattr(value, "__dict__")
        and not isinstance(value, nn.Module | type)
        and not callable(value)
    ):
        yield from _within(vars(value), path, depth + 1)
