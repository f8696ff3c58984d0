"""frame: samples → overlapping frames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..step import TENSOR, RequestError, Value, accept


@dataclass(frozen=True, kw_only=True)
class Frame:
    """Cut samples into frames that may overlap.

    Takes samples, any dtype; gives the same dtype, frames x `length`. Without padding, frame k is
    samples k * hop to k * hop + length. Values are not changed.

    Attributes:
        length: samples per frame.
        hop: samples from the start of a frame to the start of the next.
        center: pad length // 2 samples at both ends, so that frame k has sample k * hop in its
            middle.
        padding: what stands there: `zeros`, or the sound mirrored at its first and last sample
            (`reflect`).
        end: samples behind the last whole frame: `drop` them, or fill their frame with zeros
            (`pad`).
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host", "graph")
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    length: int
    hop: int
    center: bool = False
    padding: Literal["zeros", "reflect"] = "zeros"
    end: Literal["drop", "pad"] = "drop"

    def flow(self, value: Value) -> tuple[Value, ...]:
        accept(value, TENSOR)
        if self.length < 1 or self.hop < 1:
            raise ValueError(f"length is {self.length}, hop is {self.hop}; at least 1")
        if value.shape is not None and len(value.shape) != 1:
            raise ValueError(f"takes one axis of samples, not shape {list(value.shape)}")
        samples = value.shape[0] if value.shape else None
        count = self._count(samples) if isinstance(samples, int) else None
        if count is not None and count < 1:
            raise ValueError(f"{samples} samples are less than one frame of {self.length}")
        return (Value(TENSOR, value.dtype, (count, self.length), self._range(value)),)

    def _range(self, value: Value) -> tuple[float, float] | None:
        zeros = (self.center and self.padding == "zeros") or self.end == "pad"
        if value.range is None or not zeros:
            return value.range
        return min(0.0, value.range[0]), max(0.0, value.range[1])

    def _count(self, samples: int) -> int:
        padded = samples + 2 * self._margin()
        beyond = padded - self.length
        if self.end == "drop":
            return max(0, beyond // self.hop + 1)
        # A hop longer than a frame may leave samples between two frames; a frame begins at a sample all the same.
        return min(-(-max(0, beyond) // self.hop), (padded - 1) // self.hop) + 1

    def _margin(self) -> int:
        return self.length // 2 if self.center else 0

    def open(self) -> Callable[[Any], Any]:
        import numpy as np

        def frame(samples: Any) -> Any:
            if samples.ndim != 1:
                raise RequestError("", f"shape {list(samples.shape)}", "one axis of samples")
            count = self._count(len(samples))
            if not len(samples) or count < 1:
                raise RequestError("", f"{len(samples)} samples", f"at least {self._least()}, for one frame")
            padded = self._padded(np, samples, count)
            return np.lib.stride_tricks.sliding_window_view(padded, self.length)[:: self.hop][:count]

        return frame

    def _least(self) -> int:
        return 1 if self.end == "pad" else max(1, self.length - 2 * self._margin())

    def _padded(self, np: Any, samples: Any, count: int) -> Any:
        margin = self._margin()
        if margin:
            if self.padding == "reflect" and len(samples) <= margin:
                raise RequestError("", f"{len(samples)} samples", f"at least {margin + 1}, to mirror {margin} of them")
            samples = np.pad(samples, margin, mode="constant" if self.padding == "zeros" else "reflect")
        missing = (count - 1) * self.hop + self.length - len(samples)
        return np.pad(samples, (0, missing)) if missing > 0 else samples


STEP = Frame
