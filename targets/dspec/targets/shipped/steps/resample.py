"""resample: a sound at any rate → samples at one rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..step import SOUND, TENSOR, RequestError, Sound, Value, accept

MOST_HZ = 768_000


@dataclass(frozen=True, kw_only=True)
class Resample:
    """Bring a sound of one channel to one rate, with soxr.

    Gives float32, samples: from here on a sound is a plain tensor, and its rate is the one
    declared. The kernel is soxr's linear-phase filter: what lies above half the lower of both
    rates is removed before it can fold back, delay is compensated, and the length is that of the
    sound times rate / its rate, rounded. Near full scale the result may go beyond -1 to 1. A sound
    that has the rate already is not touched. Several channels: put `mono` before.

    Attributes:
        rate: Hz, the rate that the model was trained with.
        other: sounds of another rate: `convert` them, or `refuse`.
        quality: soxr's recipe: `lq` (16 bits), `mq` (16 bits, steeper), `hq` (20 bits), `vhq` (28
            bits).
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host",)
    requires: ClassVar[tuple[str, ...]] = ("soxr", "numpy")
    rate: int
    other: Literal["convert", "refuse"] = "convert"
    quality: Literal["lq", "mq", "hq", "vhq"] = "hq"

    def flow(self, value: Value) -> tuple[Value, ...]:
        accept(value, SOUND)
        if not 0 < self.rate <= MOST_HZ:
            raise ValueError(f"rate is {self.rate}; from 1 to {MOST_HZ} Hz")
        if value.kind == SOUND and (value.shape is None or value.shape[1] != 1):
            raise ValueError("takes a sound of one channel, and this one may have several: put `mono` before")
        return (Value(TENSOR, "float32", (None,), value.range if self.other == "refuse" else None),)

    def open(self) -> Callable[[Sound], Any]:
        import soxr

        quality = self.quality.upper()

        def resample(sound: Sound) -> Any:
            frames, channels = sound.samples.shape
            if channels != 1:
                raise RequestError("", f"a sound of {channels} channels", "one channel")
            samples = sound.samples[:, 0]
            if sound.rate == self.rate:
                return samples
            if self.other == "refuse":
                raise RequestError("", f"a sound of {sound.rate} Hz", f"{self.rate} Hz")
            converted = soxr.resample(samples, sound.rate, self.rate, quality=quality)
            if not len(converted):
                found = f"a sound of {frames} frames at {sound.rate} Hz"
                raise RequestError("", found, f"one that has a sample at {self.rate} Hz")
            return converted

        return resample


STEP = Resample
