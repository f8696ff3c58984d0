"""channels: the order of the channels, and how many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..step import IMAGE, TENSOR, RequestError, Value, accept

AXIS = {"hwc": -1, "chw": -3}
COUNT = {"bgr": 3, "rgb": 1, "grey": 3}  # how many come in


@dataclass(frozen=True, kw_only=True)
class Channels:
    """Exchange red and blue, make colour grey, or grey colour.

    Takes a picture, or a tensor of three axes. A picture is RGB, so that BGR is a tensor: put `bgr` after the steps that
    take pictures.

    Attributes:
        to: `bgr`: the three channels in reverse order (RGB → BGR, and of a tensor BGR → RGB); `grey`: one channel, the weighted
            sum; `rgb`: one channel, three times.
        weights: of the first, second and third channel in the sum; BT.601's for RGB.
        rounding: of the sum of uint8: `pillow` (weights in 1/65536, half up), `opencv` (in 1/32768, half up), `floor` (float32,
            cut off, as torchvision does with weights 0.2989, 0.587, 0.114). Floats stay float32 sums.
        layout: where the channels stand in what comes in: `hwc` or `chw`.
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host", "graph")
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    to: Literal["bgr", "grey", "rgb"]
    weights: tuple[float, float, float] = (0.299, 0.587, 0.114)
    rounding: Literal["pillow", "opencv", "floor"] = "pillow"
    layout: Literal["hwc", "chw"] = "hwc"

    def flow(self, value: Value) -> tuple[Value, ...]:
        accept(value, IMAGE, TENSOR)
        if value.kind == IMAGE and self.layout != "hwc":
            raise ValueError("a picture is hwc, not chw")
        if min(self.weights) < 0 or not 0.9 <= sum(self.weights) <= 1.0001:
            raise ValueError(f"weights are {list(self.weights)}; at least 0, with the sum 1")
        if value.kind not in (IMAGE, TENSOR):
            return (Value(TENSOR),)
        shape = self._shape(value.shape)
        kind = TENSOR if self.to == "bgr" else value.kind
        dtype = "float32" if self.to == "grey" and value.dtype not in ("uint8", None) else value.dtype
        return (Value(kind, dtype, shape, value.range if self.to != "grey" or value.dtype == "uint8" else None),)

    def _shape(self, shape: tuple[int | str | None, ...] | None) -> tuple[int | str | None, ...]:
        if shape is None:
            return (None, None, None)
        if len(shape) != 3:
            raise ValueError(f"takes three axes, not shape {list(shape)}")
        found = shape[AXIS[self.layout]]
        if isinstance(found, int) and found != COUNT[self.to]:
            raise ValueError(f"{self.to} is made of {COUNT[self.to]} channels, not {found} ({self.layout})")
        given = list(shape)
        given[AXIS[self.layout]] = {"bgr": 3, "rgb": 3, "grey": 1}[self.to]
        return tuple(given)

    def open(self) -> Callable[[Any], Any]:
        import numpy as np

        change = {"bgr": self._reversed, "rgb": self._repeated, "grey": self._grey}[self.to]

        def channels(value: Any) -> Any:
            if value.ndim != 3 or value.shape[AXIS[self.layout]] != COUNT[self.to]:
                expected = f"{COUNT[self.to]} channels, layout {self.layout}"
                raise RequestError("", f"shape {list(value.shape)}", expected)
            return change(np.asarray(value))

        return channels

    def _reversed(self, value: Any) -> Any:
        return value[..., ::-1] if self.layout == "hwc" else value[::-1]

    def _repeated(self, value: Any) -> Any:
        return value.repeat(3, AXIS[self.layout])

    def _grey(self, value: Any) -> Any:
        import numpy as np

        planes = np.moveaxis(value, AXIS[self.layout], 0)
        if value.dtype == np.uint8 and self.rounding != "floor":
            bits = {"pillow": 16, "opencv": 15}[self.rounding]
            whole = [round(weight * (1 << bits)) for weight in self.weights[:2]]
            whole.append((1 << bits) - sum(whole))  # white stays white
            total = sum(plane * np.int32(weight) for plane, weight in zip(planes, whole, strict=True))
            grey = (total + (1 << bits - 1)) >> bits
        else:
            grey = sum(plane * np.float32(weight) for plane, weight in zip(planes, self.weights, strict=True))
        dtype = np.uint8 if value.dtype == np.uint8 else np.float32
        return np.expand_dims(grey.astype(dtype), AXIS[self.layout])


STEP = Channels
