"""Pillow's resampling weights, as libImaging/Resample.c and Geometry.c compute them for 8 bits per channel."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

ONE = float(1 << 22)  # PRECISION_BITS: 32 - 8 - 2
Array = np.ndarray[Any, Any]


def _sinc(x: float) -> float:
    return 1.0 if x == 0 else math.sin(x * math.pi) / (x * math.pi)


def _bilinear(x: float) -> float:
    return max(0.0, 1.0 - abs(x))


def _bicubic(x: float) -> float:
    x, a = abs(x), -0.5
    if x < 1:
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1
    return (((x - 5) * x + 8) * x - 4) * a if x < 2 else 0.0


def _lanczos(x: float) -> float:
    return _sinc(x) * _sinc(x / 3) if -3 <= x < 3 else 0.0


FILTERS: dict[str, tuple[Callable[[float], float], float]] = {
    "bilinear": (_bilinear, 1.0),
    "bicubic": (_bicubic, 2.0),
    "lanczos": (_lanczos, 3.0),
}


def weights(old: int, new: int, rule: str) -> Array:
    """float64 [new, old]: whole numbers, in units of 1/ONE."""
    kernel, support = FILTERS[rule]
    found = np.zeros((new, old))
    for at in range(new):
        first, row = _row(at, old, new, kernel, support)
        found[at, first : first + len(row)] = row
    return found


def _row(at: int, old: int, new: int, kernel: Callable[[float], float], support: float) -> tuple[int, list[int]]:
    """precompute_coeffs and normalize_coeffs_8bpc, of one target pixel: its first source pixel, and the weights from there."""
    scale = old / new
    stretch = max(scale, 1.0)
    center, reach = (at + 0.5) * scale, support * stretch
    first = max(int(center - reach + 0.5), 0)
    last = min(int(center + reach + 0.5), old)
    shares = [kernel((x + first - center + 0.5) * (1.0 / stretch)) for x in range(last - first)]
    total = 0.0
    for share in shares:  # in this order; sum() compensates
        total += share
    exact = [share / total * ONE if total else share * ONE for share in shares]
    return first, [int(weight - 0.5) if weight < 0 else int(weight + 0.5) for weight in exact]


def nearest(old: int, new: int) -> Array:
    """int64 [new]: ImagingScaleAffine's source pixel of each target pixel."""
    step, at = old / new, 0.0 + old / new * 0.5
    found = []
    for _ in range(new):
        found.append(min(int(at), old - 1))
        at += step
    return np.array(found, np.int64)
