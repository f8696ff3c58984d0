"""boxes: coordinates as a detector writes them → corners in pixels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..step import TENSOR, Value, accept


@dataclass(frozen=True, kw_only=True)
class Boxes:
    """Decode boxes to corners [left, top, right, bottom], the origin at the picture's upper left; gives float32.

    Takes rows of four numbers. Pixels are those of the picture that the model saw, not of the one that was sent.

    Attributes:
        format: `xyxy`: left, top, right, bottom; `cxcywh`: centre, width, height; `xywh`: left, top, width, height.
        normalized: whether the numbers are shares of the picture's width and height, to be multiplied by `size`.
        size: pixels: [height, width].
        clip: whether corners outside the picture are moved to its edge.
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host",)
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    format: Literal["xyxy", "cxcywh", "xywh"]
    normalized: bool = False
    size: tuple[int, int] | None = None
    clip: bool = False

    def flow(self, value: Value) -> tuple[Value, ...]:
        accept(value, TENSOR)
        if value.shape is not None and (len(value.shape) != 2 or value.shape[1] not in (4, None)):
            raise ValueError(f"takes rows of four numbers, not shape {list(value.shape)}")
        if self.size is not None and min(self.size) < 1:
            raise ValueError(f"size is {list(self.size)}; at least 1")
        if self.size is None and (self.normalized or self.clip):
            raise ValueError(f"{'normalized' if self.normalized else 'clip'} needs size")
        most = float(max(self.size)) if self.size and self.clip else None
        rows = value.shape[0] if value.shape else None
        return (Value(TENSOR, "float32", (rows, 4), None if most is None else (0.0, most)),)

    def open(self) -> Callable[[Any], Any]:
        import numpy as np

        height, width = self.size or (1, 1)
        edges = np.array([width, height, width, height], np.float32)

        def boxes(raw: Any) -> Any:
            given = np.array(raw, np.float32)
            if given.ndim != 2 or given.shape[1] != 4:
                raise ValueError(f"boxes of shape {list(given.shape)}; expected rows of four numbers")
            if self.format == "cxcywh":
                given[:, :2] -= given[:, 2:] / 2
            if self.format != "xyxy":
                given[:, 2:] += given[:, :2]
            if self.normalized:
                given *= edges
            return np.clip(given, 0, edges, out=given) if self.clip else given

        return boxes


STEP = Boxes
