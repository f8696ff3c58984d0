"""The module as it is captured: a copy in eval mode, fused paths off, and proof that a call leaves nothing behind."""

from __future__ import annotations

import contextlib
import copy
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]

from dspec.compiler.capture.usercode import UserCode, check_arguments
from dspec.spec.errors import Diagnostic, DspecError, ExportError
from dspec.spec.models import Spec


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
    for parameter in module.parameters():
        if not isinstance(parameter, UninitializedTensorMixin):
            parameter.requires_grad_(False)
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
        if inner.training and _changes_with_mode(inner)
    ]


def _changes_with_mode(inner: nn.Module) -> bool:
    """Whether eval() makes a difference to it: none for a norm without running statistics, as InstanceNorm's default."""
    if isinstance(inner, nn.modules.batchnorm._NormBase):
        return inner.track_running_stats
    return isinstance(inner, nn.modules.dropout._DropoutNd) and inner.p != 0


def check_filled(module: nn.Module, spec_file: str) -> None:
    """Raise ExportError where a tensor of the module has no values: on `meta`, or of a lazy layer."""
    every = [*module.named_parameters(), *module.named_buffers()]
    bare = [name for name, value in every if value.is_meta or isinstance(value, UninitializedTensorMixin)]
    if bare:
        more = f" and {len(bare) - 3} more" if len(bare) > 3 else ""
        raise ExportError.of(
            "E0404",
            f"the factory left {', '.join(bare[:3])}{more} without values (on `meta`, or in a lazy layer)",
            file=spec_file,
            key="model.factory",
            expected="a module whose every tensor has values",
            hint="give model.weights, build it on the CPU, or call a lazy layer once in the factory",
        )


@contextlib.contextmanager
def quiet_machine() -> Iterator[None]:
    """One thread, no fused attention path, no kernel of torch.compile: plain arithmetic. Everything is put back."""
    threads, fused = torch.get_num_threads(), torch.backends.mha.get_fastpath_enabled()
    default = torch.get_default_dtype()  # user code may set another
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.compiler.set_stance("force_eager"):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)
        torch.set_num_threads(threads)
        torch.set_default_dtype(default)
