"""Sound steps: against scipy, torch, transformers and formulas by hand, on sounds of every odd kind."""

from __future__ import annotations

import io
import struct
import time
import tracemalloc
import wave
from typing import Any

import numpy as np
import pytest
import scipy.fft
import scipy.signal
import soundfile
import torch

from dspec.targets.shipped import steps
from dspec.targets.shipped.errors import RequestError
from dspec.targets.shipped.parts import parts
from dspec.targets.shipped.step import AUDIO_BYTES, SOUND, TENSOR, TEXT, Sound, Value

SAMPLES = Value(TENSOR, "float32", (None,))
SPEECH = {"rate": 16000, "n_fft": 512, "window_length": 400, "hop": 160, "mels": 40}
SLANEY = {"scale": "slaney", "norm": "slaney", "log": "natural"}


def step(name: str, **params: Any) -> Any:
    return steps.load(name)(**params)


def run(name: str, value: Any, **params: Any) -> Any:
    return step(name, **params).open()(value)


def noise(count: int, *more: int) -> Any:
    return np.random.default_rng(5).uniform(-0.5, 0.5, (count, *more)).astype(np.float32)


def sine(hertz: float, rate: int, seconds: float = 1.0) -> Any:
    """Faded at both ends: a sound cut off sharply has every frequency."""
    count = round(rate * seconds)
    return (np.sin(2 * np.pi * hertz * np.arange(count) / rate) * scipy.signal.windows.tukey(count, 0.2)).astype(
        np.float32
    )


def encoded(samples: Any, rate: int = 16000, kind: str = "WAV", subtype: str = "PCM_16") -> bytes:
    stream = io.BytesIO()
    soundfile.write(stream, samples, rate, format=kind, subtype=subtype)
    return stream.getvalue()


def put(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def wav(body: bytes, bits: int, code: int = 1, rate: int = 8000, more: bytes = b"") -> bytes:
    """A wav of one channel made by hand; `more`: chunks before the samples."""
    block = bits // 8
    head = struct.pack("<4sIHHIIHH", b"fmt ", 16, code, 1, rate, rate * block, block, bits)
    content = b"WAVE" + head + more + b"data" + struct.pack("<I", len(body)) + body
    return b"RIFF" + struct.pack("<I", len(content)) + content


# -- decode_audio

BY_HAND = [
    (wav(bytes([0, 128, 255]), 8), [-1, 0, 127 / 128]),
    (wav(struct.pack("<3h", -32768, 1, 32767), 16), [-1, 1 / 32768, 32767 / 32768]),
    (wav(b"\0\0\x80\xff\xff\x7f", 24), [-1, (2**23 - 1) / 2**23]),
    (wav(struct.pack("<2i", -(2**31), 2**30), 32), [-1, 0.5]),
    (wav(struct.pack("<3f", -0.25, 3.5, 1e-40), 32, code=3), [-0.25, 3.5, 1e-40]),
    (wav(struct.pack("<2d", 0.1, -2.0), 64, code=3), [0.1, -2]),
    (wav(bytes([0xFF, 0x80]), 8, code=7), [0, 32124 / 32768]),
    (wav(struct.pack("<h", 5), 16, more=b"LIST\x03\0\0\0abc\0"), [5 / 32768]),
]


@pytest.mark.parametrize(("data", "samples"), BY_HAND)
def test_every_encoding_of_wav(data: bytes, samples: list[float]) -> None:
    found = run("decode_audio", data)
    assert (found.rate, found.samples.dtype, found.samples.shape) == (8000, np.float32, (len(samples), 1))
    np.testing.assert_array_equal(found.samples[:, 0], np.array(samples, np.float32))


@pytest.mark.parametrize("channels", [1, 2, 6])
def test_wav_against_the_standard_library(channels: int) -> None:
    data = encoded(noise(1000, channels), 22050)
    with wave.open(io.BytesIO(data)) as file:
        by_hand = np.frombuffer(file.readframes(1000), "<i2").reshape(-1, channels) / np.float32(32768)
    found = run("decode_audio", data)
    assert found.rate == 22050
    np.testing.assert_array_equal(found.samples, by_hand)


@pytest.mark.parametrize(("subtype", "bits"), [("PCM_S8", 8), ("PCM_16", 16), ("PCM_24", 24)])
def test_flac_loses_nothing(subtype: str, bits: int) -> None:
    whole = np.round(noise(5000, 2).astype(np.float64) * 2 ** (bits - 1)) / 2 ** (bits - 1)
    found = run("decode_audio", encoded(whole, 48000, "FLAC", subtype))
    assert found.rate == 48000
    np.testing.assert_array_equal(found.samples, whole.astype(np.float32))


WAV, FLAC = encoded(noise(4000)), encoded(noise(4000), kind="FLAC")
LENGTH = 18  # of a FLAC file: 28 bits of other facts, then 36 bits of length
HUGE = put(FLAC, LENGTH + 3, bytes([FLAC[LENGTH + 3] | 15]) + b"\xff" * 4)
REFUSED = [
    (b"", "no bytes; expected a wav or FLAC file"),
    (b"<html></html>", r"13 bytes that begin with b'<html></'; expected a wav or FLAC file"),
    (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer instead of the file"),
    (b"ID3\x04" + b"\0" * 500, r"504 bytes that begin with b'ID3"),
    (encoded(noise(500), kind="OGG", subtype="VORBIS"), r"begin with b'OggS"),
    (encoded(noise(500), kind="AIFF"), r"begin with b'FORM"),
    (encoded(noise(500), subtype="IMA_ADPCM"), "a WAV file of IMA_ADPCM samples; expected .* PCM, float"),
    (WAV[:4000], "a sound cut off: 3956 bytes of samples where its header says 8000; expected .* that is whole"),
    (WAV[:44], "a sound cut off: 0 bytes of samples where its header says 8000"),
    (WAV[:40], "a damaged sound .a wav file without samples.; expected a wav or FLAC file that is whole"),
    (WAV[:12], "a wav file without samples"),
    (FLAC[:3000], "a damaged sound .flac decoder lost sync"),
    (FLAC[:30], "a damaged sound"),
    (put(FLAC, 2000, b"\x55" * 50), "a damaged sound"),
    (put(FLAC, LENGTH + 4, struct.pack(">I", 4100)), "a damaged sound"),
    (put(FLAC, LENGTH + 4, bytes(4)), "a FLAC file whose header does not tell its length"),
    (HUGE, r"a sound of 4\.29\d*e\+06 seconds; expected at most 600 seconds"),
    (wav(b"", 16), "a sound without samples; expected at least one sample"),
    (encoded(noise(10), 500), "a rate of 500 Hz; expected from 1000 to 768000 Hz"),
    (put(WAV, 24, struct.pack("<I", 0)), "a damaged sound"),
    (put(WAV, 22, struct.pack("<H", 0)), "a damaged sound .*Channel count is zero"),
    (encoded(noise(10, 9)), "a sound of 9 channels; expected at most 8"),
    (wav(struct.pack("<3f", 0, np.nan, 1), 32, 3), r"not finite .NaN or infinity. in frame 1; expected finite samples"),
    (wav(struct.pack("<2f", 0, -np.inf), 32, 3), "not finite .* in frame 1"),
    (wav(struct.pack("<2d", 0, 1e300), 64, 3), "not finite .* in frame 1"),
    (wav(struct.pack("<2f", 0, -2e6), 32, 3), r"a sample of -2e\+06; expected samples from -1e\+06 to 1e\+06"),
]


@pytest.mark.parametrize(("data", "message"), REFUSED)
def test_what_is_no_whole_sound_is_refused_in_words(data: bytes, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        run("decode_audio", data)


LIMITS = [
    ({"max_seconds": 0.2}, "a sound of 0.25 seconds; expected at most 0.2 seconds"),
    ({"max_samples": 3999}, "a sound of 4000 frames x 1 channels; expected at most 3999 samples"),
]


@pytest.mark.parametrize(("params", "message"), LIMITS)
@pytest.mark.parametrize("data", [WAV, FLAC])
def test_limits(data: bytes, params: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        run("decode_audio", data, **params)
    assert len(run("decode_audio", data, max_seconds=0.25, max_samples=4000).samples) == 4000


def test_length_is_checked_before_anything_is_decoded() -> None:
    """A minute of silence is 8 kB of FLAC and 12 MB of samples; both limits and lies cost nothing."""
    silence = encoded(np.zeros(48000 * 60, np.int16), 48000, "FLAC")
    assert len(silence) < 20_000
    decode = step("decode_audio", max_seconds=30).open()
    tracemalloc.start()
    start = time.perf_counter()
    for data in (silence, HUGE):
        with pytest.raises(RequestError):
            decode(data)
    assert time.perf_counter() - start < 0.2
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


def test_a_wav_of_a_pipe_has_no_length_and_is_read_to_its_end() -> None:
    piped = put(WAV, 40, b"\xff" * 4)
    np.testing.assert_array_equal(run("decode_audio", piped).samples, run("decode_audio", WAV).samples)


def test_beyond_full_scale() -> None:
    data = wav(struct.pack("<3f", 0.5, -1.5, 1.25), 32, 3)
    assert run("decode_audio", data).samples[:, 0].tolist() == [0.5, -1.5, 1.25]
    assert run("decode_audio", data, beyond="clip").samples[:, 0].tolist() == [0.5, -1, 1]
    with pytest.raises(RequestError, match=r"a sample of -1\.5; expected samples from -1 to 1"):
        run("decode_audio", data, beyond="refuse")


# -- mono and resample

STEREO = Sound(np.array([[1, 0.5], [-1, 0]], np.float32), 8000)


def test_mono() -> None:
    assert run("mono", STEREO, rule="mean").samples.tolist() == [[0.75], [-0.5]]
    assert run("mono", STEREO, rule="left").samples.tolist() == [[1], [-1]]
    with pytest.raises(RequestError, match="a sound of 2 channels; expected one channel"):
        run("mono", STEREO, rule="refuse")
    for rule in ("mean", "left", "refuse"):
        one = Sound(STEREO.samples[:, 1:], 8000)
        assert run("mono", one, rule=rule) is one
        assert run("mono", STEREO if rule != "refuse" else one, rule=rule).rate == 8000


@pytest.mark.parametrize("channels", [2, 3, 6])
def test_the_mean_of_channels_is_numpys(channels: int) -> None:
    samples = noise(1000, channels)
    found = run("mono", Sound(samples, 8000), rule="mean").samples
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, samples.mean(axis=1, keepdims=True, dtype=float), atol=1e-7)


def test_the_stereo_rule_is_declared() -> None:
    with pytest.raises(TypeError, match="rule"):
        step("mono")


def test_a_rate_that_is_right_is_not_touched() -> None:
    samples = noise(100, 1)
    np.testing.assert_array_equal(run("resample", Sound(samples, 16000), rate=16000), samples[:, 0])


def test_another_rate_is_refused_with_both() -> None:
    with pytest.raises(RequestError, match="a sound of 44100 Hz; expected 16000 Hz"):
        run("resample", Sound(noise(100, 1), 44100), rate=16000, other="refuse")


def test_several_channels_are_not_resampled() -> None:
    with pytest.raises(RequestError, match="a sound of 2 channels; expected one channel"):
        run("resample", STEREO, rate=16000)


def test_a_sound_too_short_for_a_sample() -> None:
    with pytest.raises(
        RequestError, match="a sound of 1 frames at 44100 Hz; expected one that has a sample at 16000 Hz"
    ):
        run("resample", Sound(noise(1, 1), 44100), rate=16000)


@pytest.mark.parametrize("quality", ["lq", "mq", "hq", "vhq"])
@pytest.mark.parametrize("rate", [22050, 44100, 48000])
def test_what_can_not_be_there_is_removed(rate: int, quality: str) -> None:
    """9.7 kHz and more would fold back to 6.3 kHz and below."""
    for hertz in (9700, 0.49 * rate):
        given = sine(hertz, rate)
        found = run("resample", Sound(given[:, None], rate), rate=16000, quality=quality)
        assert 10 * np.log10(np.mean(found**2, dtype=float) / np.mean(given**2, dtype=float)) < -80


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 44100, 48000, 96000])
def test_what_can_be_there_stays(rate: int) -> None:
    """In place and in size: no delay, no gain."""
    found = run("resample", Sound(sine(1000, rate)[:, None], rate), rate=16000)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, sine(1000, 16000), atol=2e-3)


def test_resample_against_scipy() -> None:
    """Another kernel, so near and not equal: both keep what lies well below half the rate."""
    given = sine(440, 44100) + sine(3000, 44100) / 3
    by_scipy = scipy.signal.resample_poly(given.astype(float), 160, 441, window=("kaiser", 12.0))
    np.testing.assert_allclose(run("resample", Sound(given[:, None], 44100), rate=16000), by_scipy, atol=2e-3)


# -- frame and unit_variance

FRAMES = [
    (10, {"length": 4, "hop": 3}, [[0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 8, 9]]),
    (11, {"length": 4, "hop": 3}, [[0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 8, 9]]),
    (11, {"length": 4, "hop": 3, "end": "pad"}, [[0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 8, 9], [9, 10, 0, 0]]),
    (2, {"length": 4, "hop": 3, "end": "pad"}, [[0, 1, 0, 0]]),
    (4, {"length": 2, "hop": 5}, [[0, 1]]),
    (6, {"length": 2, "hop": 5, "end": "pad"}, [[0, 1], [5, 0]]),
    (4, {"length": 2, "hop": 5, "end": "pad"}, [[0, 1]]),
    (5, {"length": 4, "hop": 2, "center": True}, [[0, 0, 0, 1], [0, 1, 2, 3], [2, 3, 4, 0]]),
    (5, {"length": 4, "hop": 2, "center": True, "padding": "reflect"}, [[2, 1, 0, 1], [0, 1, 2, 3], [2, 3, 4, 3]]),
    (4, {"length": 3, "hop": 2, "center": True}, [[0, 0, 1], [1, 2, 3]]),
]


@pytest.mark.parametrize(("count", "params", "frames"), FRAMES)
def test_frame(count: int, params: dict[str, Any], frames: list[list[int]]) -> None:
    found = run("frame", np.arange(count, dtype=np.float32), **params)
    assert found.dtype == np.float32
    assert found.tolist() == frames
    assert step("frame", **params).flow(Value(TENSOR, "float32", (count,)))[0].shape == found.shape


@pytest.mark.parametrize("length", [64, 65])
@pytest.mark.parametrize("padding", ["zeros", "reflect"])
def test_centred_frames_are_those_of_torch_stft(length: int, padding: str) -> None:
    samples = noise(1000)
    found = run("frame", samples, length=length, hop=20, center=True, padding=padding)
    mode = {"zeros": "constant", "reflect": "reflect"}[padding]
    spectrum = torch.stft(torch.from_numpy(samples), length, 20, window=torch.ones(length), center=True, pad_mode=mode,
                          return_complex=True)  # fmt: skip
    np.testing.assert_allclose(np.fft.rfft(found), spectrum.T.numpy(), atol=1e-4)


SHORT = [
    (3, {"length": 4, "hop": 1}, "3 samples; expected at least 4, for one frame"),
    (0, {"length": 4, "hop": 1, "end": "pad"}, "0 samples; expected at least 1, for one frame"),
    (0, {"length": 4, "hop": 1, "center": True}, "0 samples; expected at least 1"),
    (2, {"length": 4, "hop": 1, "center": True, "padding": "reflect"}, "2 samples; expected at least 3, to mirror 2"),
]


@pytest.mark.parametrize(("count", "params", "message"), SHORT)
def test_too_short_for_a_frame(count: int, params: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        run("frame", np.zeros(count, np.float32), **params)


@pytest.mark.parametrize("name", ["frame", "log_mel"])
def test_samples_have_one_axis(name: str) -> None:
    params = {"length": 4, "hop": 1} if name == "frame" else SPEECH | SLANEY
    with pytest.raises(RequestError, match=r"shape \[1, 2000\]; expected one axis of samples"):
        run(name, np.zeros((1, 2000), np.float32), **params)


@pytest.mark.parametrize(("deviation", "unbiased"), [("population", False), ("sample", True)])
def test_unit_variance_is_torchs(deviation: str, unbiased: bool) -> None:
    frames = noise(6, 1024) * 0.01 + np.float32(0.3)
    given = torch.from_numpy(frames).double()
    by_torch = (given - given.mean(1, keepdim=True)) / given.std(1, keepdim=True, unbiased=unbiased)
    found = run("unit_variance", frames, deviation=deviation)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, by_torch.numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.1, -0.7, 1e-3])
def test_a_constant_frame_stays_silent(value: float) -> None:
    """0.1 has no exact float32: a mean in float32 leaves a rest that a floor of 1e-8 makes a step of 0.7."""
    found = run("unit_variance", np.full((2, 1000), value, np.float32))
    assert np.abs(found).max() < 1e-6


def test_unit_variance_far_from_zero_and_of_a_whole_sound() -> None:
    for given in (noise(160_000), noise(4, 1024) * np.float32(1e-3) + 5, noise(3, 7) * np.float32(1e17)):
        exact = given.astype(float)
        exact = (exact - exact.mean(-1, keepdims=True)) / exact.std(-1, keepdims=True)
        np.testing.assert_allclose(run("unit_variance", given), exact, rtol=1e-5, atol=1e-5)
    with pytest.raises(RequestError, match="numbers whose squares are beyond float32; expected numbers below 1e18"):
        run("unit_variance", np.array([3e38, -3e38], np.float32))


def test_unit_variance_keeps_its_promised_range() -> None:
    spike = np.zeros(1024, np.float32)
    spike[7] = 1
    (promised,) = step("unit_variance").flow(Value(TENSOR, "float32", (1024,)))
    found = run("unit_variance", spike)
    assert promised.range is not None
    assert 31.9 < found.max() <= promised.range[1] == 32
    assert promised.range[0] == -32
    with pytest.raises(RequestError, match=r"shape \[3, 1\]; expected a last axis of 2 or more"):
        run("unit_variance", noise(3, 1), deviation="sample")


# -- log_mel and mfcc


@pytest.mark.parametrize("scale", ["htk", "slaney"])
@pytest.mark.parametrize("norm", ["none", "slaney"])
@pytest.mark.parametrize(("log", "theirs"), [("natural", "log"), ("log10", "log10"), ("db", "dB")])
@pytest.mark.parametrize("power", [1, 2])
def test_log_mel_is_transformers(scale: str, norm: str, log: str, theirs: str, power: int) -> None:
    from transformers.audio_utils import mel_filter_bank, spectrogram, window_function

    samples = noise(16001)
    bank = mel_filter_bank(257, 40, 20.0, 7600.0, 16000, None if norm == "none" else norm, scale)
    by_them = spectrogram(samples.astype(float), window_function(400, "hann"), 400, 160, 512, power=float(power),
                          mel_filters=bank, log_mel=theirs)  # fmt: skip
    found = run("log_mel", samples, **SPEECH, scale=scale, norm=norm, log=log, power=power, low=20.0, high=7600.0)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, by_them.T, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("window", ["hann", "hamming", "rectangular"])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("padding", ["reflect", "zeros"])
def test_log_mel_by_torch_and_formulas(window: str, center: bool, padding: str) -> None:
    """The spectrum by torch.stft; HTK's filters one by one, as their definition says."""
    samples = noise(3000)
    made: dict[str, Any] = {"hann": torch.hann_window, "hamming": torch.hamming_window, "rectangular": torch.ones}
    spectrum = torch.stft(torch.from_numpy(samples), 512, 160, 400, made[window](400), center, return_complex=True,
                          pad_mode="reflect" if padding == "reflect" else "constant").abs().double() ** 2  # fmt: skip
    mels = np.linspace(0, 2595 * np.log10(1 + 8000 / 700), 42)
    corners = 700 * (10 ** (mels / 2595) - 1)
    rows = []
    for left, peak, right in zip(corners, corners[1:], corners[2:], strict=False):
        weights = [max(0.0, min((hertz - left) / (peak - left), (right - hertz) / (right - peak)))
                   for hertz in np.arange(257) * 16000 / 512]  # fmt: skip
        rows.append(np.array(weights) @ spectrum.numpy())
    by_hand = np.log10(np.maximum(rows, 1e-6)).T
    found = run("log_mel", samples, **SPEECH, scale="htk", norm="none", log="log10", floor=1e-6, window=window,
                center=center, padding=padding)  # fmt: skip
    np.testing.assert_allclose(found, by_hand, atol=2e-5)
    (promised,) = step("log_mel", **SPEECH, scale="htk", norm="none", log="log10", center=center).flow(
        Value(TENSOR, "float32", (3000,))
    )
    assert promised.shape == found.shape


def test_slaneys_scale_at_its_known_points() -> None:
    from dspec.targets.shipped.mel import to_hertz, to_mel

    hertz = np.array([0, 200 / 3, 1000, 6400])
    np.testing.assert_allclose(to_mel(hertz, "slaney"), [0, 1, 15, 42])
    np.testing.assert_allclose(to_hertz([0, 1, 15, 42], "slaney"), hertz, atol=1e-9)
    np.testing.assert_allclose(to_hertz(to_mel(hertz, "htk"), "htk"), hertz, atol=1e-9)
    assert round(float(to_mel(1000, "htk"))) == 1000


def test_an_odd_fft_has_its_own_frequencies() -> None:
    from dspec.targets.shipped.mel import filters

    # rate / n_fft = 100 Hz per bin: bin 10 is 1,000 Hz, the peak of the middle band.
    found = filters(rate=2500, n_fft=25, bands=1, low=500, high=1250, scale="slaney", area=False)
    bins = np.arange(13) * 100.0
    peak = found[:, 0].argmax()
    assert bins[peak] <= 1000
    assert found[bins <= 500].max() == 0


def test_dynamic_range_and_layout() -> None:
    samples = np.concatenate([noise(4000), np.zeros(4000, np.float32)])
    plain = run("log_mel", samples, **SPEECH, **SLANEY)
    bounded = run("log_mel", samples, **SPEECH, **SLANEY, dynamic_range=8.0)
    np.testing.assert_array_equal(bounded, np.maximum(plain, plain.max() - np.float32(8)))
    assert (bounded > plain).any()
    assert run("log_mel", samples, **SPEECH, **SLANEY, layout="mels_first").shape == plain.T.shape


def test_silence_is_the_floor() -> None:
    found = run("log_mel", np.zeros(2000, np.float32), **SPEECH, **SLANEY, floor=1e-10)
    np.testing.assert_allclose(found, np.log(1e-10), rtol=1e-6)


SHORT_MEL = [
    (511, {"center": False}, "511 samples; expected at least 512, for one frame of 512"),
    (256, {}, "256 samples; expected at least 257"),
    (0, {"padding": "zeros"}, "0 samples; expected at least 1"),
]


@pytest.mark.parametrize(("count", "params", "message"), SHORT_MEL)
def test_too_short_for_a_spectrum(count: int, params: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        run("log_mel", np.zeros(count, np.float32), **SPEECH, **SLANEY, **params)


def test_samples_too_large_for_a_power() -> None:
    with pytest.raises(RequestError, match="samples whose power is beyond float32"):
        run("log_mel", np.full(2000, 1e30, np.float32), **SPEECH, **SLANEY)


def test_mfcc_is_scipys_transform() -> None:
    spectrogram = noise(7, 40) * 20
    by_scipy = scipy.fft.dct(spectrogram.astype(float), norm="ortho")[:, :13]
    found = run("mfcc", spectrogram, coefficients=13)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, by_scipy, atol=1e-5)
    plain = run("mfcc", spectrogram, coefficients=13, norm="none")
    np.testing.assert_allclose(plain, scipy.fft.dct(spectrogram.astype(float))[:, :13], atol=1e-4)
    htk = by_scipy * np.where(np.arange(13), 1, np.sqrt(2))
    np.testing.assert_allclose(run("mfcc", spectrogram, coefficients=13, norm="htk"), htk, atol=1e-5)
    lifted = by_scipy * (1 + 11 * np.sin(np.pi * np.arange(13) / 22))
    np.testing.assert_allclose(run("mfcc", spectrogram, coefficients=13, lifter=22.0), lifted, atol=1e-4)


def test_mfcc_wants_enough_mels() -> None:
    with pytest.raises(RequestError, match=r"shape \[7, 12\]; expected frames x mels, 13 mels or more"):
        run("mfcc", noise(7, 12), coefficients=13)


# -- types, and what all share

SOUND_OF_ONE = Value(SOUND, "float32", (None, 1), (-1.0, 1.0))
FLOWS = [
    ("decode_audio", {}, Value(AUDIO_BYTES), Value(SOUND, "float32", (None, None))),
    ("decode_audio", {"beyond": "clip"}, Value(AUDIO_BYTES), Value(SOUND, "float32", (None, None), (-1.0, 1.0))),
    ("decode_audio", {"max_channels": 1}, Value(AUDIO_BYTES), Value(SOUND, "float32", (None, 1))),
    ("mono", {"rule": "mean"}, Value(SOUND, "float32", (None, None), (-1.0, 1.0)), SOUND_OF_ONE),
    ("resample", {"rate": 16000}, SOUND_OF_ONE, SAMPLES),
    ("resample", {"rate": 16000, "other": "refuse"}, SOUND_OF_ONE, Value(TENSOR, "float32", (None,), (-1.0, 1.0))),
    ("frame", {"length": 4, "hop": 2}, Value(TENSOR, "int16", (10,), (5, 9)), Value(TENSOR, "int16", (4, 4), (5, 9))),
    ("frame", {"length": 4, "hop": 2, "end": "pad"}, Value(TENSOR, "int16", (11,), (5, 9)),
     Value(TENSOR, "int16", (5, 4), (0, 9))),
    ("frame", {"length": 4, "hop": 2, "center": True, "padding": "reflect"}, Value(TENSOR, "int16", ("time",), (5, 9)),
     Value(TENSOR, "int16", (None, 4), (5, 9))),
    ("unit_variance", {}, Value(TENSOR, "int16", (None, 4)), Value(TENSOR, "float32", (None, 4), (-2.0, 2.0))),
    ("unit_variance", {}, SAMPLES, SAMPLES),
    ("log_mel", SPEECH | SLANEY, SAMPLES, Value(TENSOR, "float32", (None, 40))),
    ("log_mel", SPEECH | SLANEY | {"layout": "mels_first"}, SAMPLES, Value(TENSOR, "float32", (40, None))),
    ("mfcc", {"coefficients": 13}, Value(TENSOR, "float32", (None, 40)), Value(TENSOR, "float32", (None, 13))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "params", "given", "gives"), FLOWS)
def test_flow(name: str, params: dict[str, Any], given: Value, gives: Value) -> None:
    assert step(name, **params).flow(given) == (gives,)


MISFITS = [
    ("decode_audio", {}, Value(TEXT), "takes audio bytes, not text"),
    ("decode_audio", {"max_seconds": 0.0}, Value(AUDIO_BYTES), "max_seconds is 0.0; above 0"),
    ("decode_audio", {"max_channels": 0}, Value(AUDIO_BYTES), "max_channels is 0; at least 1"),
    ("decode_audio", {"max_samples": 10**12}, Value(AUDIO_BYTES), "max_samples is 1000000000000; from 1 to 500000000"),
    ("mono", {"rule": "mean"}, SAMPLES, "takes sound, not tensor"),
    ("resample", {"rate": 16000}, Value(SOUND, "float32", (None, None)), "may have several: put `mono` before"),
    ("resample", {"rate": 0}, SOUND_OF_ONE, "rate is 0; from 1 to 768000 Hz"),
    ("frame", {"length": 4, "hop": 2}, SOUND_OF_ONE, "takes tensor, not sound"),
    ("frame", {"length": 4, "hop": 0}, SAMPLES, "length is 4, hop is 0; at least 1"),
    ("frame", {"length": 4, "hop": 2}, Value(TENSOR, "float32", (3,)), "3 samples are less than one frame of 4"),
    ("frame", {"length": 4, "hop": 2}, Value(TENSOR, "float32", (3, 3)), r"one axis of samples, not shape \[3, 3\]"),
    ("unit_variance", {"floor": 0.0}, SAMPLES, "floor is 0.0; at least 1e-15"),
    ("unit_variance", {}, Value(TENSOR, "float32", ()), "takes an array with an axis"),
    ("log_mel", SPEECH | SLANEY | {"window_length": 600}, SAMPLES, "window_length is 600; from 1 to n_fft, 512"),
    ("log_mel", SPEECH | SLANEY | {"high": 9000.0}, SAMPLES, r"bands from 0\.0 to 9000\.0 Hz; .* rate / 2, 8000"),
    ("log_mel", SPEECH | SLANEY | {"low": 8000.0}, SAMPLES, "bands from 8000.0 to 8000.0 Hz"),
    ("log_mel", SPEECH | SLANEY | {"floor": 0.0}, SAMPLES, "floor is 0.0; at least 1e-37"),
    ("log_mel", SPEECH | SLANEY | {"dynamic_range": 0.0}, SAMPLES, "dynamic_range is 0.0; above 0"),
    ("log_mel", SPEECH | SLANEY | {"mels": 0}, SAMPLES, "rate, n_fft, hop and mels are at least 1"),
    ("log_mel", SPEECH | SLANEY, Value(TENSOR, "int16", (None,)), "takes float32 samples, not int16"),
    ("mfcc", {"coefficients": 41}, Value(TENSOR, "float32", (None, 40)), "41 coefficients of 40 mels"),
    ("mfcc", {"coefficients": 13}, SAMPLES, r"takes frames x mels, not shape \[None\]"),
    ("mfcc", {"coefficients": 13, "lifter": -1.0}, Value(TENSOR), "lifter is -1.0; 0 or more"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "params", "given", "message"), MISFITS)
def test_what_does_not_fit_is_refused_before_running(
    name: str, params: dict[str, Any], given: Value, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        step(name, **params).flow(given)


def test_no_step_changes_what_it_reads() -> None:
    samples = noise(6000, 2)
    before = samples.copy()
    sound = Sound(samples, 44100)
    one = run("mono", sound, rule="left")
    for given, name, params in (
        (sound, "mono", {"rule": "mean"}),
        (one, "resample", {"rate": 16000}),
        (samples[:, 0], "frame", {"length": 400, "hop": 100}),
        (samples, "unit_variance", {}),
        (samples[:, 0], "log_mel", SPEECH | SLANEY),
        (samples, "mfcc", {"coefficients": 2, "lifter": 5.0}),
    ):
        run(name, given, **params)
    np.testing.assert_array_equal(samples, before)


def test_a_bundle_ships_what_log_mel_imports() -> None:
    assert {"mel.py", "steps/log_mel.py"} <= set(parts(["log_mel"]))
    assert "mel.py" not in parts(["frame"])


def test_whispers_features_are_a_chain_of_steps() -> None:
    """Its extractor: log10, at most 8 below the greatest, (x + 4) / 4; it leaves out the last frame."""
    from transformers import WhisperFeatureExtractor

    samples = noise(16000)
    theirs = WhisperFeatureExtractor()(samples, sampling_rate=16000, padding="do_not_pad", return_tensors="np")
    mel = run("log_mel", samples, rate=16000, n_fft=400, hop=160, mels=80, scale="slaney", norm="slaney", log="log10",
              dynamic_range=8.0, layout="mels_first")  # fmt: skip
    found = run("scale", mel, factor=0.25, offset=1.0)
    np.testing.assert_allclose(found[:, :-1], theirs["input_features"][0], atol=2e-5)
