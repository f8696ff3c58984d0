"""Least and greatest values through float32 arithmetic: what steps promise of the range that they give.

Rounding is monotonic, so the ends of an interval bound everything in between. A double holds the product and the
quotient of two float32 to more than twice their digits: rounding to double first changes no float32.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

Interval = tuple[float, float]
_WIDEST = 3.4028235e38


def single(number: float) -> float:
    """The nearest float32, as a double; infinite beyond its range."""
    if abs(number) > _WIDEST:
        return float("inf") if number > 0 else float("-inf")
    found: float = struct.unpack("f", struct.pack("f", number))[0]
    return found


def mapped(interval: Interval, function: Callable[[float], float]) -> Interval:
    """The interval that a monotonic function gives; the function rounds to float32 itself."""
    ends = [function(single(end)) for end in interval]
    return min(ends), max(ends)


def words(interval: Interval) -> str:
    """`0 to 255`."""
    return f"{interval[0]:.4g} to {interval[1]:.4g}"
