"""normalize: subtract the mean, divide by the deviation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..intervals import Interval, mapped, single, words
from ..per_column import several
from ..step import IMAGE, TENSOR, RequestError, Value, accept

CHANNEL = {"hwc": -1, "chw": -3}


@dataclass(frozen=True, kw_only=True)
class Normalize:
    """Subtract `mean`, then divide by `std`; gives float32.

    `mean` and `std` are in the units of what comes in: 0 to 255 straight after `decode`, 0 to 1
    after `scale`; where the range is known, a mean outside it is an error. Computed in float32, each of the two rounded.

    Attributes:
        mean: one number, or one per channel.
        std: one number, or one per channel; above 0.
        layout: where the channels stand in what comes in: `hwc` or `chw`.
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host", "graph")
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    mean: float | tuple[float, ...]
    std: float | tuple[float, ...]
    layout: Literal["hwc", "chw"] = "hwc"

    def flow(self, value: Value) -> tuple[Value, ...]:
        accept(value, IMAGE, TENSOR)
        mean, std = several(self.mean), several(self.std)
        if not mean or not std or not all(map(math.isfinite, mean + std)) or min(std) <= 0:
            raise ValueError("mean and std are finite numbers, std above 0")
        if value.kind == IMAGE and self.layout != "hwc":
            raise ValueError("a picture is hwc, not chw")
        counts = {len(numbers) for numbers in (mean, std) if len(numbers) > 1}
        if len(counts) > 1:
            raise ValueError(f"mean has {len(mean)} numbers, std has {len(std)}")
        if counts and value.shape is not None:
            self._check_channels(value.shape, counts.pop())
        return (Value(TENSOR, "float32", value.shape, self._range(value.range)),)

    def _check_channels(self, shape: tuple[Any, ...], count: int) -> None:
        if len(shape) < 3:
            raise ValueError(f"mean and std per channel need three axes, not shape {list(shape)}")
        channels = shape[CHANNEL[self.layout]]
        if isinstance(channels, int) and channels != count:
            raise ValueError(f"{count} numbers for {channels} channels ({self.layout}, shape {list(shape)})")

    def _range(self, found: Interval | None) -> Interval | None:
        """The least and the greatest of any channel; ValueError where the units can't be those of what comes in."""
        if found is None:
            return None
        mean, std = several(self.mean), several(self.std)
        _check_units(found, mean, std)
        width = max(len(mean), len(std))
        each = [_ends(found, mean[at % len(mean)], std[at % len(std)]) for at in range(width)]
        return min(low for low, _ in each), max(high for _, high in each)

    def open(self) -> Callable[[Any], Any]:
        import numpy as np

        mean, std = (self._array(np, several(numbers)) for numbers in (self.mean, self.std))
        count = max(mean.size, std.size)

        def normalize(value: Any) -> Any:
            if count > 1 and (value.ndim < 3 or value.shape[CHANNEL[self.layout]] != count):
                raise RequestError("", f"shape {list(value.shape)}", f"{count} channels, layout {self.layout}")
            normal = np.asarray(value).astype(np.float32, order="C")  # a copy, whatever comes in
            rows, columns = normal, 1
            if count > 1 and self.layout == "hwc":
                # Whole rows at once: numpy's inner loop over three channels takes twenty times as long.
                rows, columns = normal.reshape(*normal.shape[:-2], -1), normal.shape[-2]
            rows -= _repeated(np, mean, columns)
            rows /= _repeated(np, std, columns)
            return normal

        return normalize

    def _array(self, np: Any, numbers: tuple[float, ...]) -> Any:
        if len(numbers) == 1:
            return np.float32(numbers[0])
        array = np.array(numbers, np.float32)
        return array if self.layout == "hwc" else array.reshape(-1, 1, 1)


def _repeated(np: Any, numbers: Any, columns: int) -> Any:
    return np.tile(numbers, columns) if numbers.size > 1 and columns != 1 else numbers


def _ends(found: Interval, mean: float, std: float) -> Interval:
    return mapped(found, lambda end: single(single(end - single(mean)) / single(std)))


def _check_units(found: Interval, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    advice = "give them in the units of what comes in; where the training code truly computed this, write it as `scale`"
    outside = [number for number in mean if not found[0] <= number <= found[1]]
    if outside:
        raise ValueError(f"the mean {outside[0]:g} lies outside what comes in, {words(found)}: {advice}")
    if found[1] - found[0] > 100 and 0 < max(mean) <= 1 and max(std) <= 1:
        raise ValueError(f"mean and std are those of values from 0 to 1, but {words(found)} comes in: {advice}")


STEP = Normalize
