"""The error frontier: the few elements that decide whether any (atol, rtol) is kept.

An element is |reference| and |got - reference|. One that is both nearer to zero and further off
than another breaks every tolerance the other breaks, so only the others' betters are kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import Array

CHUNK = 1 << 20  # elements at a time: bounds the memory beyond the arrays themselves
MANY = 64  # points above which only the corners are kept
FLOOR = -1100  # below every exponent of a double


class Frontier:
    """Grows chunk by chunk; the points stand by rising `ref` and strictly rising `diff`."""

    def __init__(self) -> None:
        self.ref: Array = np.empty(0)
        self.diff: Array = np.empty(0)
        self.at: Array = np.empty(0, np.int64)

    def add(self, ref: Array, diff: Array, at: Array) -> None:
        """Take in elements: |reference| and |difference| as float64, `at` their positions."""
        near = _candidates(ref, diff)
        ref, diff, at = (
            np.concatenate((mine, its[near])) for mine, its in ((self.ref, ref), (self.diff, diff), (self.at, at))
        )
        keep = _stairs(ref, diff)
        self.ref, self.diff, self.at = ref[keep], diff[keep], at[keep]

    def points(self) -> list[tuple[float, float, int]]:
        """(ref, diff, position), by rising ref."""
        keep: Any = slice(None) if self.ref.size <= MANY else _corners(self.ref, self.diff)
        columns = (self.ref[keep].tolist(), self.diff[keep].tolist(), self.at[keep].tolist())
        return list(zip(*columns, strict=True))


def _candidates(ref: Array, diff: Array) -> Array:
    """A mask that spares the sort: what a whole octave of smaller references does not dominate."""
    octave = np.where(ref > 0, np.frexp(ref)[1], FLOOR) - FLOOR
    top = np.zeros(int(octave.max(initial=0)) + 2)
    np.maximum.at(top, octave + 1, diff)
    below = np.maximum.accumulate(top)[octave]
    mask: Array = diff > below
    return mask


def _stairs(ref: Array, diff: Array) -> Array:
    order = np.lexsort((-diff, ref))
    if not order.size:
        return order
    highest = np.maximum.accumulate(np.concatenate(([0.0], diff[order])))
    keep: Array = order[diff[order] > highest[:-1]]
    return keep


def _corners(ref: Array, diff: Array) -> Array:
    """The corners of the concave hull over the stairs.

    diff - rtol * ref is greatest at a corner whatever rtol is, so the corners decide every
    (atol, rtol) as well, up to the last bit of the comparison.
    """
    kept = {0, ref.size - 1}
    spans = [(0, ref.size - 1)]
    while spans:
        first, last = spans.pop()
        slope = (diff[last] - diff[first]) / (ref[last] - ref[first])
        inner = slice(first + 1, last)
        above = diff[inner] - diff[first] - slope * (ref[inner] - ref[first])
        if above.size and above.max() > 0:
            corner = first + 1 + int(above.argmax())
            kept.add(corner)
            spans += [(first, corner), (corner, last)]
    return np.array(sorted(kept))
