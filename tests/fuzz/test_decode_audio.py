"""decode_audio against sounds that were damaged, cut, or made to lie about their length."""

from __future__ import annotations

import io
import struct
import time
import tracemalloc
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from dspec.targets.shipped.errors import RequestError
from dspec.targets.shipped.step import Sound
from dspec.targets.shipped.steps.decode_audio import DecodeAudio
from dspec.targets.shipped.steps.mono import Mono
from dspec.targets.shipped.steps.resample import Resample

FUZZ = settings.get_profile("dspec-fuzz")
MAX_SAMPLES = 20_000
# What is read at once beside the samples: the file's bytes twice, and the decoder's own buffers.
ALLOWED = MAX_SAMPLES * 4 * 4 + 500_000
SECONDS = 2.0
DECODE = DecodeAudio(max_seconds=2.0, max_channels=2, max_samples=MAX_SAMPLES).open()
MONO, RESAMPLE = Mono(rule="mean").open(), Resample(rate=16000).open()


def _encoded(kind: str, subtype: str, channels: int, rate: int) -> bytes:
    draw = np.random.default_rng(3)
    samples = 0.3 * np.sin(np.arange(4000)[:, None] * 0.05) + draw.uniform(-0.1, 0.1, (4000, channels))
    stream = io.BytesIO()
    soundfile.write(stream, samples, rate, format=kind, subtype=subtype)
    return stream.getvalue()


SOUNDS = [
    _encoded(kind, subtype, channels, rate)
    for kind, subtype, channels, rate in (
        ("WAV", "PCM_16", 1, 16000),
        ("WAV", "PCM_24", 2, 44100),
        ("WAV", "FLOAT", 1, 8000),
        ("WAV", "ULAW", 1, 8000),
        ("WAV", "IMA_ADPCM", 1, 8000),
        ("WAVEX", "PCM_U8", 2, 22050),
        ("FLAC", "PCM_16", 1, 16000),
        ("FLAC", "PCM_24", 2, 96000),
    )
]
NUMBERS = st.sampled_from([0, 1, 2, 7, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1]) | st.integers(0, 2**32 - 1)


def _spoiled(data: st.DataObject) -> bytes:
    """A real sound, with numbers of its header or bytes anywhere exchanged, cut out or put in, or its end cut off."""
    sound = data.draw(st.sampled_from(SOUNDS))
    for _ in range(data.draw(st.integers(1, 4))):
        # Twice in three, near the beginning: that is where a file lies.
        end = data.draw(st.sampled_from([64, 256, len(sound)]))
        at = data.draw(st.integers(0, max(0, min(end, len(sound)) - 1)))
        match data.draw(st.sampled_from(["number", "number", "short", "bytes", "cut out", "cut off", "doubled"])):
            case "number":
                order = data.draw(st.sampled_from("<>"))
                sound = _put(sound, at, struct.pack(f"{order}I", data.draw(NUMBERS)))
            case "short":
                sound = _put(sound, at, struct.pack("<H", data.draw(NUMBERS) & 0xFFFF))
            case "bytes":
                sound = _put(sound, at, data.draw(st.binary(min_size=1, max_size=8)))
            case "cut out":
                sound = sound[:at] + sound[at + data.draw(st.integers(1, 50)) :]
            case "cut off":
                sound = sound[:at]
            case "doubled":
                sound = sound[:at] + sound[at : at + 100] + sound[at:]
    return sound


def _put(sound: bytes, at: int, new: bytes) -> bytes:
    return sound[:at] + new + sound[at + len(new) :]


def _held(sound: bytes) -> Sound | None:
    """What is decoded of it, if anything; it took no longer and no more memory than declared."""
    tracemalloc.start()
    start = time.perf_counter()
    found = None
    try:
        with suppress(RequestError):
            found = DECODE(sound)
        assert time.perf_counter() - start < SECONDS
        assert tracemalloc.get_traced_memory()[1] < ALLOWED
    finally:
        tracemalloc.stop()
    return found


def _check(found: Sound) -> None:
    frames, channels = found.samples.shape
    assert found.samples.dtype == np.float32
    assert 0 < frames * channels <= MAX_SAMPLES
    assert channels <= 2
    assert frames / found.rate <= 2
    assert np.isfinite(found.samples).all()
    with suppress(RequestError):  # too short for a sample
        resampled: Any = RESAMPLE(MONO(found))
        assert len(resampled) <= 2 * 16000
        assert np.isfinite(resampled).all()


@pytest.mark.parametrize("number", range(len(SOUNDS)))
def test_the_right_ones_are_read(number: int) -> None:
    found = _held(SOUNDS[number])
    if b"\x11\x00" in SOUNDS[number][20:22]:  # ADPCM
        assert found is None
        return
    assert found is not None
    assert len(found.samples) == 4000
    _check(found)


@given(data=st.data())
@FUZZ
def test_any_sound(data: st.DataObject) -> None:
    found = _held(_spoiled(data))
    if found is not None:
        _check(found)


@given(
    head=st.sampled_from([b"", b"fLaC", b"RIFF\xff\xff\xff\xffWAVE", b"RIFF\x00\x00\x00\x00WAVEfmt "]), tail=st.binary()
)
@FUZZ
def test_any_bytes(head: bytes, tail: bytes) -> None:
    found = _held(head + tail)
    if found is not None:
        _check(found)


def test_chunks_without_end_are_not_walked() -> None:
    """A wav may hold chunks of no bytes: ten megabytes of them are a million."""
    chunks = b"LIST\0\0\0\0" * 1_250_000
    start = time.perf_counter()
    with pytest.raises(RequestError, match="a wav file without samples"):
        DECODE(b"RIFF\xff\xff\xff\xffWAVE" + chunks)
    assert time.perf_counter() - start < 0.1
