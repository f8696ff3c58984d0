"""Sounds: CREPE's frames, Whisper's log-mel spectrogram, and the MFCCs of a keyword spotter."""

from __future__ import annotations

import functools
import io
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.fft
import soundfile
import soxr
from transformers.audio_utils import mel_filter_bank

from dspec.targets.shipped.pipeline import Pipeline

RATE = 16_000
HANN = np.hanning(401)[:-1].astype(np.float32)
SLANEY = mel_filter_bank(201, 80, 0.0, 8000.0, RATE, "slaney", "slaney").astype(np.float32)
HTK = mel_filter_bank(201, 40, 20.0, 7600.0, RATE, None, "htk").astype(np.float32)
Tensors = Mapping[str, Any]


def cases() -> Iterator[tuple[str, Callable[[], Tensors], Callable[[], Tensors]]]:
    sounds = {
        "wav, 1 s of 16 kHz mono": _encoded(1, RATE, 1, "WAV"),
        "wav, 1 s of 44.1 kHz stereo": _encoded(1, 44_100, 2, "WAV"),
        "FLAC, 1 s of 44.1 kHz stereo": _encoded(1, 44_100, 2, "FLAC"),
        "FLAC, 10 s of 48 kHz stereo": _encoded(10, 48_000, 2, "FLAC"),
    }
    for kind, (steps, shape, by_hand) in KINDS.items():
        pipeline = _pipeline(steps, shape)
        for name, data in sounds.items():
            request = {"sound": data}
            yield f"{kind}, {name}", functools.partial(pipeline.before, request), functools.partial(by_hand, data)


def _samples(data: bytes) -> Any:
    samples, rate = soundfile.read(io.BytesIO(data), dtype="float32")
    if samples.ndim == 2:
        samples = samples.mean(axis=1)
    return samples if rate == RATE else soxr.resample(samples, rate, RATE, quality="HQ")


def _frames(padded: Any, length: int) -> Any:
    return np.lib.stride_tricks.sliding_window_view(padded, length)[::160]


def _crepe(data: bytes) -> Tensors:
    frames = _frames(np.pad(_samples(data), 512), 1024)
    frames = frames - frames.mean(axis=1, keepdims=True)
    frames /= np.clip(frames.std(axis=1, keepdims=True), 1e-8, None)
    return {"x": frames}


def _power(data: bytes) -> Any:
    return np.abs(np.fft.rfft(_frames(np.pad(_samples(data), 200, mode="reflect"), 400) * HANN)) ** 2


def _whisper(data: bytes) -> Tensors:
    mel = np.log10(np.maximum(_power(data) @ SLANEY, np.float32(1e-10)))
    return {"x": np.ascontiguousarray(((np.maximum(mel, mel.max() - 8) + 4) / 4).T)[np.newaxis]}


def _keywords(data: bytes) -> Tensors:
    mel = np.log(np.maximum(_power(data) @ HTK, np.float32(1e-6)))
    return {"x": np.ascontiguousarray(scipy.fft.dct(mel, norm="ortho", axis=1)[:, :13])[np.newaxis]}


Chain = list[dict[str, Any]]
START: Chain = [{"use": "decode_audio"}, {"use": "mono", "rule": "mean"}, {"use": "resample", "rate": RATE}]
SPECTRUM = {"use": "log_mel", "rate": RATE, "n_fft": 400, "hop": 160}
KINDS: dict[str, tuple[Chain, list[int | str], Callable[[bytes], Tensors]]] = {
    "CREPE": (
        [*START, {"use": "frame", "length": 1024, "hop": 160, "center": True}, {"use": "unit_variance"}],
        ["time", 1024],
        _crepe,
    ),
    "Whisper": (
        [
            *START,
            SPECTRUM
            | {"mels": 80, "scale": "slaney", "norm": "slaney", "log": "log10"}
            | {"dynamic_range": 8.0, "layout": "mels_first"},
            {"use": "scale", "factor": 0.25, "offset": 1.0},
        ],
        ["batch", 80, "time"],
        _whisper,
    ),
    "keywords": (
        [
            *START,
            SPECTRUM
            | {"mels": 40, "low": 20.0, "high": 7600.0, "floor": 1e-6}
            | {"scale": "htk", "norm": "none", "log": "natural"},
            {"use": "mfcc", "coefficients": 13},
        ],
        ["batch", "time", 13],
        _keywords,
    ),
}


def _pipeline(steps: Chain, shape: list[int | str]) -> Pipeline:
    """The pipeline folder that a build would write, loaded as a bundle loads it."""
    names = ["sound", *(f"v{at}" for at in range(1, len(steps))), "x"]
    before = [
        {
            "id": f"s{at}",
            "use": step["use"],
            "params": {k: v for k, v in step.items() if k != "use"},
            "in": [names[at]],
            "out": [names[at + 1]],
        }
        for at, step in enumerate(steps)
    ]
    declared = {
        "request": {"sound": {"type": "audio", "max_bytes": 20_000_000}},
        "before": before,
        "inputs": {"x": {"dtype": "float32", "shape": shape, "range": None}},
        "outputs": {},
        "dims": {name: {"min": 1, "max": 2000, "multiple_of": 1} for name in ("batch", "time")},
        "batch": "batch",
        "after": [],
        "response": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "pipeline.json").write_text(json.dumps(declared))
        return Pipeline.load(Path(folder))


def _encoded(seconds: int, rate: int, channels: int, form: str) -> bytes:
    """A tone with overtones and some noise, as hard to compress as music."""
    time = np.arange(seconds * rate) / rate
    tone: Any = sum(np.sin(2 * np.pi * 220 * n * time) / n for n in range(1, 8)) / 5
    noise = np.random.default_rng(7).normal(scale=0.02, size=(len(time), channels))
    stream = io.BytesIO()
    soundfile.write(stream, np.clip(tone[:, None] + noise, -1, 1), rate, format=form, subtype="PCM_16")
    return stream.getvalue()
