"""layout: where the channels stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..step import IMAGE, TENSOR, RequestError, Value, accept

ORDER = {"chw": (2, 0, 1), "hwc": (1, 2, 0)}
CHANNELS = {"chw": 2, "hwc": 0}  # where they stand in what comes in
MOST_CHANNELS = 4


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Move the channel axis of a picture to the front (chw) or to the end (hwc).

    Any dtype, three axes; values are not changed.

    Attributes:
        to: `chw` (PyTorch's) or `hwc`; what comes in is the other one.
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host", "graph")
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    to: Literal["chw", "hwc"]

    def flow(self, value: Value) -> tuple[Value, ...]:
        accept(value, IMAGE, TENSOR)
        if value.kind == IMAGE and self.to == "hwc":
            raise ValueError("a picture is hwc already")
        if value.shape is None:
            return (Value(TENSOR, value.dtype, (None, None, None), value.range),)
        if len(value.shape) != 3:
            raise ValueError(f"takes three axes, not shape {list(value.shape)}")
        self._check_channels(value.shape)
        return (Value(TENSOR, value.dtype, tuple(value.shape[axis] for axis in ORDER[self.to]), value.range),)

    def _check_channels(self, shape: tuple[Any, ...]) -> None:
        """ValueError where the picture has this layout already, which the other axis shows to be the channels."""
        at, other = CHANNELS[self.to], 2 - CHANNELS[self.to]
        few = isinstance(shape[other], int) and shape[other] <= MOST_CHANNELS
        if isinstance(shape[at], int) and shape[at] > MOST_CHANNELS and few:
            raise ValueError(f"the channel axis has size {shape[at]}: shape {list(shape)} is {self.to} already")

    def open(self) -> Callable[[Any], Any]:
        import numpy as np

        def move(value: Any) -> Any:
            if value.ndim != 3:
                raise RequestError("", f"shape {list(value.shape)}", "three axes")
            return np.asarray(value).transpose(ORDER[self.to])

        return move


STEP = Layout
