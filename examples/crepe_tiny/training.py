"""How the training job made model inputs, written without the shipped steps.

After marl/crepe, crepe/core.py (get_activation, with centred frames): mean of the channels, 16 kHz, frames of 1,024
samples, mean 0 and deviation 1. There a frame is taken every 10 ms and resampy resamples; this job took one every
20 ms, and loaded its sounds as librosa does, with soxr's HQ recipe.
"""

from __future__ import annotations

import io
from collections.abc import Mapping

import numpy as np
import soundfile
import soxr

RATE, LENGTH, HOP = 16_000, 1024, 320


def preprocess(request: Mapping[str, bytes]) -> dict[str, np.ndarray]:
    """`{"sound": encoded bytes}` → `frames`: float32 [1 + samples // 320, 1024]."""
    sound, rate = soundfile.read(io.BytesIO(request["sound"]))  # float64
    if sound.ndim == 2:
        sound = sound.mean(1)
    if rate != RATE:
        sound = soxr.resample(sound, rate, RATE, "HQ")
    sound = np.pad(sound, LENGTH // 2)
    starts = range(0, len(sound) - LENGTH + 1, HOP)
    frames = np.stack([sound[start : start + LENGTH] for start in starts])
    frames -= np.mean(frames, axis=1)[:, np.newaxis]
    frames /= np.clip(np.std(frames, axis=1)[:, np.newaxis], 1e-8, None)
    return {"frames": frames.astype(np.float32)}
