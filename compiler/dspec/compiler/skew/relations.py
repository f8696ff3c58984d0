"""What one tensor may be to another, whatever made them: fitted on one fixture, to be tested on more."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dspec.compiler.skew.changes import channel_axis, reversed_channels
from dspec.targets.shipped.arrays import Array

PERMUTED = 4  # axes at most
ENOUGH = 4  # elements that a fit needs
ROUND = (255.0, 256.0, 127.5, 128.0, 32768.0, 32767.0, 100.0, 2.0)  # factors people scale by
SNAP = 1e-4  # relative


@dataclass(frozen=True, kw_only=True, slots=True)
class Relation:
    """`what` the training-time tensor would be, and how to make that of ours."""

    what: str
    make: Callable[[Array], Array]


def relations(theirs: Array, ours: Array) -> Iterator[Relation]:
    """Everything that could turn ours into theirs; whether it does is for the caller to see."""
    if theirs.shape == ours.shape:
        if channel_axis(ours.shape) is not None:
            yield Relation(what="ours with the channels in reverse order (RGB ↔ BGR)", make=reversed_channels)
        yield from _scaled(theirs, ours)
    yield from _turned(theirs, ours)
    if theirs.ndim == ours.ndim == 1 or _one_axis_differs(theirs, ours):
        yield from _cut(theirs, ours)


def _turned(theirs: Array, ours: Array) -> Iterator[Relation]:
    if not 2 <= ours.ndim <= PERMUTED or theirs.ndim != ours.ndim:
        return
    for order in itertools.permutations(range(ours.ndim)):
        fits = theirs.shape == tuple(ours.shape[axis] for axis in order)
        if fits and order != tuple(range(ours.ndim)):
            yield Relation(what=f"ours with its axes in the order {list(order)} (another layout)",
                           make=lambda array, order=order: array.transpose(order))  # type: ignore[misc]  # fmt: skip


def _scaled(theirs: Array, ours: Array) -> Iterator[Relation]:
    """The line theirs = k · ours + b, over all or per channel."""
    if ours.size < ENOUGH or "f" not in (theirs.dtype.kind, ours.dtype.kind):
        return
    k, b = _line(theirs, ours)
    if np.isfinite(k) and k != 0:
        yield Relation(what=_line_words(k, b), make=lambda array: array * k + b)
    axis = channel_axis(ours.shape)
    if axis is not None:
        lines = [_line(theirs.take(c, axis), ours.take(c, axis)) for c in range(ours.shape[axis])]
        shape = [-1 if at == axis % ours.ndim else 1 for at in range(ours.ndim)]
        ks, bs = (np.reshape(column, shape) for column in zip(*lines, strict=True))
        words = ", ".join(f"{k:.4g}·x {'+' if b >= 0 else '−'} {abs(b):.4g}" for k, b in lines)
        yield Relation(
            what=f"ours scaled per channel ({words}): another mean and std", make=lambda array: array * ks + bs
        )


def _line(theirs: Array, ours: Array) -> tuple[float, float]:
    x, y = ours.astype(np.float64).reshape(-1), theirs.astype(np.float64).reshape(-1)
    spread = x - x.mean()
    power = float(spread @ spread)
    k = float(spread @ (y - y.mean())) / power if power > 0 else float("nan")
    known = (*ROUND, *(1 / factor for factor in ROUND), 1.0, -1.0)
    k = next((factor for factor in known if abs(k - factor) <= SNAP * abs(factor)), k)
    b = float(y.mean() - k * x.mean())
    return k, 0.0 if abs(b) <= SNAP * max(float(np.abs(y).max(initial=0.0)), 1e-30) else b


def _line_words(k: float, b: float) -> str:
    factor = next((f"1/{known:g}" for known in ROUND if k == 1 / known), f"{k:.6g}")
    scaled = "ours" if k == 1 else f"{factor} × ours"
    return scaled if b == 0 else f"{scaled} {'+' if b > 0 else '−'} {abs(b):.4g}"


def _one_axis_differs(theirs: Array, ours: Array) -> bool:
    pairs = zip(theirs.shape, ours.shape, strict=False)
    return theirs.ndim == ours.ndim and sum(a != b for a, b in pairs) == 1


def _cut(theirs: Array, ours: Array) -> Iterator[Relation]:
    """One is the beginning or the end of the other, the rest being cut off or filled up."""
    axis = next((at for at in range(ours.ndim) if theirs.shape[at] != ours.shape[at]), None)
    if axis is None:
        return
    length, own = theirs.shape[axis], ours.shape[axis]
    if length < own:
        yield Relation(what=f"the first {length} of ours: cut at another length",
                       make=lambda array: array.take(range(min(length, array.shape[axis])), axis))  # fmt: skip
        yield Relation(what=f"the last {length} of ours: cut at another length, from the other end",
                       make=lambda array: array.take(range(max(0, array.shape[axis] - length), array.shape[axis]), axis))  # fmt: skip
        return
    for side, at in (("right", -1), ("left", 0)):
        fill = theirs.take(at, axis).reshape(-1)
        if fill.size and bool((fill == fill[0]).all()):
            value = fill[0]
            yield Relation(what=f"ours padded on the {side} with {value:g} to {length}",
                           make=lambda array, side=side, value=value: _padded(array, axis, length, side, value))  # type: ignore[misc]  # fmt: skip


def _padded(array: Array, axis: int, length: int, side: str, value: float) -> Array:
    more = length - array.shape[axis]
    if more < 0:
        raise ValueError("longer already")
    widths = [((0, more) if side == "right" else (more, 0)) if at == axis else (0, 0) for at in range(array.ndim)]
    return np.pad(array, widths, constant_values=value)
