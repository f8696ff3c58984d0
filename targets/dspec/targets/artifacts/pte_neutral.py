"""Lowering to ExecuTorch without this machine's kernel choice in the program, and without a narrower range."""

from __future__ import annotations

import itertools
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from dspec.spec.errors import ExportError
from dspec.targets.artifacts.dim_text import renamed

LEAST = 2  # torch takes sizes 0 and 1 as special everywhere; that 1 runs is proved by running it
_POINTS = 4096  # per guard
_PER_SYMBOL = 64


@contextmanager
def neutral() -> Iterator[None]:
    """No guard and no stride of this machine's kernels.

    oneDNN and NNPACK: choosing a convolution's kernel asks `batch < 16` (torch/_subclasses/fake_impls.py), which becomes a
    bound of the program. Fused attention: its output has other strides than its decomposition, and a recorded view
    breaks on them.
    """
    kernels = (torch.backends.mkldnn.flags(enabled=False), torch.backends.nnpack.flags(enabled=False))
    with quiet(), kernels[0], kernels[1], sdpa_kernel(SDPBackend.MATH):
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """ExecuTorch logs and warns about its own internals; what matters is checked on the written file."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@contextmanager
def no_new_guards(exported: torch.export.ExportedProgram, symbols: Mapping[str, str]) -> Iterator[None]:
    """Raises ExportError E0532 when lowering assumed something of a size that a declared one breaks.

    `symbols`: exported symbol → declared dim.
    """
    environment = _shape_environment(exported)
    before = len(environment.guards) if environment is not None else 0
    ranges = {
        str(symbol): (max(LEAST, int(found.lower)), int(found.upper))
        for symbol, found in exported.range_constraints.items()
    }
    yield
    if environment is None:
        return
    for guard in environment.guards[before:]:
        broken = _broken_at(guard.expr, ranges)
        if broken:
            raise _narrowed(str(guard.expr), broken, symbols)


def _shape_environment(exported: torch.export.ExportedProgram) -> Any:
    for node in exported.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and hasattr(value, "fake_mode"):
            return value.fake_mode.shape_env
    return None


def _broken_at(expression: Any, ranges: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    """Declared sizes that the guard does not hold for; empty where it always does, or speaks of no declared size."""
    names = sorted(expression.free_symbols, key=str)
    if any(str(name) not in ranges for name in names):
        return {}
    sizes = [_sizes(*ranges[str(name)], share=len(names)) for name in names]
    for point in itertools.islice(itertools.product(*sizes), _POINTS):
        if expression.subs(dict(zip(names, point, strict=True))) != True:  # noqa: E712  (sympy's true is no bool)
            return {str(name): size for name, size in zip(names, point, strict=True)}
    return {}


def _sizes(least: int, greatest: int, *, share: int) -> list[int]:
    """Both ends and what fits between them: a guard of lowering cuts an end off, or everything but the example."""
    count = max(3, int(min(_PER_SYMBOL * 16, _POINTS ** (1 / share))))
    if greatest - least < count:
        return list(range(least, greatest + 1))
    step = (greatest - least) / (count - 1)
    return sorted({least, greatest, *(round(least + step * number) for number in range(count))})


def _narrowed(guard: str, broken: Mapping[str, int], symbols: Mapping[str, str]) -> ExportError:
    at = ", ".join(f"{symbols.get(name, name)} = {size}" for name, size in broken.items())
    return ExportError.of(
        "E0532",
        f"lowering to ExecuTorch assumed {renamed(guard, dict(symbols))}, which {at} breaks",
        expected="a program for every declared size",
        hint="declare the smaller range in model.dims, or report it with the model: it is lowering's own rule, not the model's",
    )
