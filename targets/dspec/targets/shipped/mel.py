"""Mel filters: two scales, triangles between their bands, as matrices for `log_mel`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import Array

# Slaney's Auditory Toolbox: linear up to 1 kHz, 15 mel; from there a factor of 6.4 every 27 mel.
HZ_PER_MEL = 200.0 / 3
CORNER_HZ, CORNER_MEL = 1000.0, 15.0
STEP = np.log(6.4) / 27


def to_mel(hertz: Any, scale: str) -> Any:
    """Hertz → mel; `scale`: htk (2595 log10(1 + f / 700)) or slaney."""
    hertz = np.asarray(hertz, np.float64)
    if scale == "htk":
        return 2595 * np.log10(1 + hertz / 700)
    above = CORNER_MEL + np.log(np.maximum(hertz, CORNER_HZ) / CORNER_HZ) / STEP
    return np.where(hertz < CORNER_HZ, hertz / HZ_PER_MEL, above)


def to_hertz(mel: Any, scale: str) -> Any:
    """The inverse of `to_mel`."""
    mel = np.asarray(mel, np.float64)
    if scale == "htk":
        return 700 * (10 ** (mel / 2595) - 1)
    above = CORNER_HZ * np.exp(STEP * (np.maximum(mel, CORNER_MEL) - CORNER_MEL))
    return np.where(mel < CORNER_MEL, mel * HZ_PER_MEL, above)


def filters(*, rate: int, n_fft: int, bands: int, low: float, high: float, scale: str, area: bool) -> Array:
    """Triangular filters, float64 [n_fft // 2 + 1, bands].

    Corners lie evenly on the mel scale from `low` to `high` hertz; the triangles are straight in
    hertz, 1 at their peak, and taken at the FFT's own frequencies. `area` divides each by half its
    width in hertz (Slaney), which makes the areas equal.
    """
    corners = to_hertz(np.linspace(to_mel(low, scale), to_mel(high, scale), bands + 2), scale)
    left, peak, right = corners[:-2], corners[1:-1], corners[2:]
    bins = np.linspace(0, rate / 2, n_fft // 2 + 1) if n_fft % 2 == 0 else np.arange(n_fft // 2 + 1) * rate / n_fft
    rising = (bins[:, None] - left) / (peak - left)
    falling = (right - bins[:, None]) / (right - peak)
    triangles = np.maximum(0, np.minimum(rising, falling))
    found: Array = triangles * (2 / (right - left)) if area else triangles
    return found


def window(name: str, length: int) -> Array:
    """The periodic window of that name, float64: one period of the cosine, its last point left out."""
    turn = 2 * np.pi * np.arange(length) / length
    shapes: dict[str, Array] = {
        "hann": 0.5 - 0.5 * np.cos(turn),
        "hamming": 0.54 - 0.46 * np.cos(turn),
        "rectangular": np.ones(length),
    }
    return shapes[name]
