"""pad: a margin around a picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..pixels import RANGE, bounded, channels, pair, picture, sides, words
from ..step import RequestError, Value


@dataclass(frozen=True, kw_only=True)
class Pad:
    """Put rows and columns of one colour around a picture.

    Takes and gives uint8, height x width x 3 (or 1). Give one of `size`, `square` and `multiple_of`. A picture larger
    than `size` is refused.

    Attributes:
        size: pixels: one number for a square, or [height, width].
        square: up to the longer side.
        multiple_of: each side up to the next multiple of this.
        fill: the margin's value, or one per channel; 0 to 255.
        where: `end` pads below and at the right; `start` above and at the left; `center` on both sides.
        odd: with `center`, the side that gets the odd row or column: `end` (YOLO's letterbox) or `start`.
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host",)
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    size: int | tuple[int, int] | None = None
    square: bool = False
    multiple_of: int | None = None
    fill: int | tuple[int, ...] = 0
    where: Literal["end", "start", "center"] = "center"
    odd: Literal["end", "start"] = "end"

    def flow(self, value: Value) -> tuple[Value, ...]:
        found = sides(value)
        self._check()
        count = channels(value)
        if isinstance(self.fill, tuple) and isinstance(count, int) and len(self.fill) != count:
            raise ValueError(f"fill has {len(self.fill)} numbers for {count} channels")
        wanted: tuple[int | None, int | None] = (None, None)
        if self.size is not None:
            wanted = pair(self.size)
        elif isinstance(found[0], int) and isinstance(found[1], int):
            wanted = self._size((found[0], found[1]))
        for name, side, padded in zip(("height", "width"), found, wanted, strict=True):
            if isinstance(side, int) and padded is not None and side > padded:
                raise ValueError(f"the picture's {name} {side} is above the padded {name} {padded}")
        return (picture(value, *wanted)._replace(range=RANGE),)

    def _check(self) -> None:
        if (self.size is not None) + self.square + (self.multiple_of is not None) != 1:
            raise ValueError("takes one of size, square and multiple_of")
        if self.multiple_of is not None and self.multiple_of < 1:
            raise ValueError(f"multiple_of is {self.multiple_of}; at least 1")
        if not all(0 <= part <= 255 for part in _parts(self.fill)):
            raise ValueError("fill is from 0 to 255")

    def open(self) -> Callable[[Any], Any]:
        import numpy as np

        fill = np.array(_parts(self.fill), np.uint8)

        def pad(array: Any) -> Any:
            height, width = array.shape[:2]
            if fill.size not in (1, array.shape[2]):
                raise RequestError("", f"a picture of {array.shape[2]} channels", f"{fill.size}, as `fill` has")
            rows, columns = self._size((height, width))
            if rows < height or columns < width:
                raise RequestError("", words(array), f"at most {columns} x {rows}")
            bounded(array, rows, columns, "padding")
            padded = np.empty((rows, columns, array.shape[2]), np.uint8)
            padded[:] = fill
            top, left = self._before(rows - height), self._before(columns - width)
            padded[top : top + height, left : left + width] = np.asarray(array)
            return padded

        return pad

    def _size(self, found: tuple[int, int]) -> tuple[int, int]:
        if self.size is not None:
            return pair(self.size)
        if self.multiple_of is not None:
            step = self.multiple_of
            return -(-found[0] // step) * step, -(-found[1] // step) * step
        return max(found), max(found)

    def _before(self, spare: int) -> int:
        if self.where != "center":
            return spare if self.where == "start" else 0
        return (spare + 1) // 2 if self.odd == "start" else spare // 2


def _parts(fill: int | tuple[int, ...]) -> tuple[int, ...]:
    return fill if isinstance(fill, tuple) else (fill,)


STEP = Pad
