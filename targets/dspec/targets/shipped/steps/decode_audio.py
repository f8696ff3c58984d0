"""decode_audio: an encoded sound → samples."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..errors import first_bytes
from ..step import AUDIO_BYTES, SOUND, RequestError, Sound, Value, accept

if TYPE_CHECKING:
    from soundfile import SoundFile

FORMATS = ("WAV", "WAVEX", "FLAC")
# Compressed ones (ADPCM, GSM, MP3 in a wav) pad to whole blocks: their length is not the sound's.
ENCODINGS = ("PCM_S8", "PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW")
RATES = (1_000, 768_000)  # Hz; what lies outside is a damaged header
UNKNOWN = 0xFFFFFFFF  # the data size that a program writes when it can't go back to the header
MOST_SAMPLES = 500_000_000  # 2 GB as float32
FARTHEST = 1e6  # some write 16-bit numbers as floats; nobody writes larger ones
MOST_CHUNKS = 1_000  # of a wav before its samples
WANTED = "a wav or FLAC file"


@dataclass(frozen=True, kw_only=True)
class DecodeAudio:
    """Decode a wav or FLAC file to samples.

    Gives a sound: float32, frames x channels, at the file's own rate. Integer samples are divided
    by 2^(bits - 1), so full scale is -1 to 1 (16-bit: v / 32768; 8-bit wav: (v - 128) / 128); up
    to 24 bits this is exact, 32 bits and 64-bit floats are rounded. NaN and infinity are refused,
    and so is a file that is shorter than its header says. Length and channels are held against the
    limits before anything is decoded; rates from 1,000 to 768,000 Hz.

    Attributes:
        max_seconds: the longest sound.
        max_channels: the most channels.
        max_samples: the most frames x channels; times 4 bytes, the memory of a decoded sound.
        beyond: samples of a float wav beyond -1 to 1: `keep` them (up to a million, where a file
            counts as damaged), `clip` them or `refuse`.
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host",)
    # With what soundfile itself imports: a bundle is installed without dependencies.
    requires: ClassVar[tuple[str, ...]] = ("soundfile", "cffi", "typing-extensions", "numpy")
    max_seconds: float = 600.0
    max_channels: int = 8
    max_samples: int = 50_000_000
    beyond: Literal["keep", "clip", "refuse"] = "keep"

    def flow(self, value: Value) -> tuple[Value, ...]:
        accept(value, AUDIO_BYTES)
        if not 0 < self.max_seconds < float("inf"):
            raise ValueError(f"max_seconds is {self.max_seconds}; above 0")
        if self.max_channels < 1:
            raise ValueError(f"max_channels is {self.max_channels}; at least 1")
        if not 0 < self.max_samples <= MOST_SAMPLES:
            raise ValueError(f"max_samples is {self.max_samples}; from 1 to {MOST_SAMPLES}")
        channels = 1 if self.max_channels == 1 else None
        return (Value(SOUND, "float32", (None, channels), None if self.beyond == "keep" else (-1.0, 1.0)),)

    def open(self) -> Callable[[bytes], Sound]:
        import soundfile

        def decode_audio(data: bytes) -> Sound:
            data = bytes(data)
            _check_whole(data)
            try:
                with soundfile.SoundFile(io.BytesIO(data)) as file:
                    self._check_header(file)
                    samples = file.read(dtype="float32", always_2d=True)
                    announced, rate = file.frames, file.samplerate
            except soundfile.SoundFileError as error:
                raise RequestError("", f"a damaged sound ({_reason(error)})", f"{WANTED} that is whole") from error
            if len(samples) != announced:
                found = f"a damaged sound: {len(samples)} frames where its header says {announced}"
                raise RequestError("", found, f"{WANTED} that is whole")
            return Sound(self._within(samples), rate)

        return decode_audio

    def _check_header(self, file: SoundFile) -> None:
        kind, encoding, rate, frames, channels = file.format, file.subtype, file.samplerate, file.frames, file.channels
        if kind not in FORMATS or encoding not in ENCODINGS:
            expected = f"{WANTED} of PCM, float, u-law or A-law samples"
            raise RequestError("", f"a {kind} file of {encoding} samples", expected)
        if not RATES[0] <= rate <= RATES[1]:
            raise RequestError("", f"a rate of {rate} Hz", f"from {RATES[0]} to {RATES[1]} Hz")
        if channels > self.max_channels:
            raise RequestError("", f"a sound of {channels} channels", f"at most {self.max_channels}")
        if not frames:
            raise RequestError("", "a sound without samples", "at least one sample")
        if frames / rate > self.max_seconds:
            raise RequestError("", f"a sound of {frames / rate:.6g} seconds", f"at most {self.max_seconds:g} seconds")
        if frames * channels > self.max_samples:
            found = f"a sound of {frames} frames x {channels} channels"
            raise RequestError("", found, f"at most {self.max_samples} samples")

    def _within(self, samples: Any) -> Any:
        # The extremes tell of NaN too, and need no array of their own as isfinite does.
        least, most = float(samples.min()), float(samples.max())
        if not (math.isfinite(least) and math.isfinite(most)):
            import numpy as np

            at = int(np.argmax(~np.isfinite(samples).all(axis=1)))
            raise RequestError("", f"a sample that is not finite (NaN or infinity) in frame {at}", "finite samples")
        bound = FARTHEST if self.beyond == "keep" else 1.0
        if least >= -bound and most <= bound:
            return samples
        if self.beyond == "clip":
            return samples.clip(-1, 1)
        far = most if most > -least else least
        raise RequestError("", f"a sample of {far:.6g}", f"samples from {-bound:g} to {bound:g}")


def _check_whole(data: bytes) -> None:
    """Nothing if this begins as wav or FLAC and is as long as it says; only then does a decoder see it."""
    if data[:4] == b"fLaC":
        return _check_flac(data)
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise RequestError("", first_bytes(data), WANTED)
    # libsndfile takes what is there of a wav that was cut off, and says nothing.
    at = 12
    for _ in range(MOST_CHUNKS):
        name, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        left = len(data) - at - 8
        if left < 0:
            break
        if name == b"data":
            if size > left and size != UNKNOWN:
                found = f"a sound cut off: {left} bytes of samples where its header says {size}"
                raise RequestError("", found, f"{WANTED} that is whole")
            return None
        at += 8 + size + size % 2
    raise RequestError("", "a damaged sound (a wav file without samples)", f"{WANTED} that is whole")


def _check_flac(data: bytes) -> None:
    # STREAMINFO is the first block: 4 bytes of magic, 4 of block header; the low 36 bits of bytes 18 to 25 are the length.
    if len(data) >= 26 and int.from_bytes(data[18:26], "big") & 0xF_FFFF_FFFF == 0:
        raise RequestError(
            "", "a FLAC file whose header does not tell its length", "one that does, with a sample or more"
        )


def _reason(error: Exception) -> str:
    """The words of libsndfile, without the name of the object it read from."""
    return str(getattr(error, "error_string", error)).removeprefix("Error : ").rstrip(".")


STEP = DecodeAudio
