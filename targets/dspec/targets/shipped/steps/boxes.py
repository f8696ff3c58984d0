"""boxes: coordinates as a detector writes them → corners in pixels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..step import TENSOR, Value, accept


@dataclass(frozen=True, kw_only=True)
class Boxes:
    """Decode boxes to corners [left, top, right, bottom], the origin at the picture's upper left; gives float32.

    Takes rows of four numbers. With `size`, what comes in goes from 0 to 1 and what comes out is in pixels of a
    picture of that size (the one that the model saw, not the one that was sent).

    Attributes:
        format: `xyxy`: left, top, right, bottom; `cxcywh`: centre, width, height; `xywh`: left, top, width, height.
        size: pixels: [height, width]; absent: coordinates keep their unit.
        clip: whether corners outside the picture are moved to its edge; in the unit of what comes out, so it needs
            `size`, or coordinates from 0 to 1 (`unit`).
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host",)
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    format: Literal["xyxy", "cxcywh", "xywh"]
    size: tuple[int, int] | None = None
    clip: Literal["none", "size", "unit"] = "none"

    def flow(self, value: Value) -> tuple[Value, ...]:
        accept(value, TENSOR)
        if value.shape is not None and (len(value.shape) != 2 or value.shape[1] not in (4, None)):
            raise ValueError(f"takes rows of four numbers, not shape {list(value.shape)}")
        if self.size is not None and min(self.size) < 1:
            raise ValueError(f"size is {list(self.size)}; at least 1")
        if (self.clip == "size" and self.size is None) or (self.clip == "unit" and self.size is not None):
            raise ValueError("clip: size needs size; clip: unit is for coordinates that stay from 0 to 1")
        most = {"none": None, "unit": 1.0, "size": float(max(self.size or (1,)))}[self.clip]
        rows = value.shape[0] if value.shape else None
        return (Value(TENSOR, "float32", (rows, 4), None if most is None else (0.0, most)),)

    def open(self) -> Callable[[Any], Any]:
        import numpy as np

        height, width = self.size or (1, 1)
        scale = np.array([width, height, width, height], np.float32)

        def boxes(raw: Any) -> Any:
            given = np.array(raw, np.float32)
            if given.ndim != 2 or given.shape[1] != 4:
                raise ValueError(f"boxes of shape {list(given.shape)}; expected rows of four numbers")
            if self.format == "cxcywh":
                given[:, :2] -= given[:, 2:] / 2
            if self.format != "xyxy":
                given[:, 2:] += given[:, :2]
            given *= scale
            return given if self.clip == "none" else np.clip(given, 0, scale, out=given)

        return boxes


STEP = Boxes
