"""mono: one channel of several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from ..step import SOUND, RequestError, Sound, Value, accept


@dataclass(frozen=True, kw_only=True)
class Mono:
    """Make one channel of a sound's channels.

    Takes and gives a sound, float32; what comes out has frames x 1. A sound of one channel stays
    as it is.

    Attributes:
        rule: `mean` of the channels, in float32; `left`: the first channel; `refuse` several.
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host",)
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    rule: Literal["mean", "left", "refuse"]

    def flow(self, value: Value) -> tuple[Value, ...]:
        accept(value, SOUND)
        frames = value.shape[0] if value.shape else None
        return (Value(SOUND, "float32", (frames, 1), value.range),)

    def open(self) -> Callable[[Sound], Sound]:
        def mono(sound: Sound) -> Sound:
            channels = sound.samples.shape[1]
            if channels == 1:
                return sound
            if self.rule == "refuse":
                raise RequestError("", f"a sound of {channels} channels", "one channel")
            if self.rule == "left":
                return Sound(sound.samples[:, :1], sound.rate)
            # numpy's mean over an axis of two takes ten times as long.
            total = sound.samples[:, 0].copy()
            for channel in range(1, channels):
                total += sound.samples[:, channel]
            total /= channels
            return Sound(total[:, None], sound.rate)

        return mono


STEP = Mono
