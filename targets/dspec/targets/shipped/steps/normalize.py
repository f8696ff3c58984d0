"""normalize: subtract the mean, divide by the deviation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..step import IMAGE, TENSOR, RequestError, Value, accept

CHANNEL = {"hwc": -1, "chw": -3}


@dataclass(frozen=True, kw_only=True)
class Normalize:
    """Subtract `mean`, then divide by `std`; gives float32.

    `mean` and `std` are in the units of what comes in: 0 to 255 straight after `decode`, 0 to 1
    after `scale`. Computed in float32.

    Attributes:
        mean: one number, or one per channel.
        std: one number, or one per channel; above 0.
        layout: where the channels stand in what comes in: `hwc` or `chw`.
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host",)
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    mean: float | tuple[float, ...]
    std: float | tuple[float, ...]
    layout: Literal["hwc", "chw"] = "hwc"

    def flow(self, value: Value) -> tuple[Value, ...]:
        accept(value, IMAGE, TENSOR)
        mean, std = _several(self.mean), _several(self.std)
        if not all(map(math.isfinite, mean + std)) or min(std) <= 0:
            raise ValueError("mean and std are finite numbers, std above 0")
        if value.kind == IMAGE and self.layout != "hwc":
            raise ValueError("a picture is hwc, not chw")
        counts = {len(numbers) for numbers in (mean, std) if len(numbers) > 1}
        if len(counts) > 1:
            raise ValueError(f"mean has {len(mean)} numbers, std has {len(std)}")
        if counts and value.shape is not None:
            self._check_channels(value.shape, counts.pop())
        return (Value(TENSOR, "float32", value.shape),)

    def _check_channels(self, shape: tuple[Any, ...], count: int) -> None:
        if len(shape) < 3:
            raise ValueError(f"mean and std per channel need three axes, not shape {list(shape)}")
        channels = shape[CHANNEL[self.layout]]
        if isinstance(channels, int) and channels != count:
            raise ValueError(f"{count} numbers for {channels} channels ({self.layout}, shape {list(shape)})")

    def open(self) -> Callable[[Any], Any]:
        import numpy as np

        mean, std = (self._array(np, _several(numbers)) for numbers in (self.mean, self.std))
        count = max(mean.size, std.size)

        def normalize(value: Any) -> Any:
            if count > 1 and (value.ndim < 3 or value.shape[CHANNEL[self.layout]] != count):
                raise RequestError("", f"shape {list(value.shape)}", f"{count} channels, layout {self.layout}")
            normal = np.subtract(value, mean, dtype=np.float32, casting="unsafe")
            normal /= std
            return normal

        return normalize

    def _array(self, np: Any, numbers: tuple[float, ...]) -> Any:
        if len(numbers) == 1:
            return np.float32(numbers[0])
        array = np.array(numbers, np.float32)
        return array if self.layout == "hwc" else array.reshape(-1, 1, 1)


def _several(numbers: float | tuple[float, ...]) -> tuple[float, ...]:
    return (float(numbers),) if isinstance(numbers, (int, float)) else tuple(numbers)


STEP = Normalize
