"""center_crop: the middle of a picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..pixels import cut, pair, picture, sides, words
from ..step import RequestError, Value

FORGIVEN = 1e-6  # of a pixel: 0.29 x 100 is 28.999… in binary and means 29


@dataclass(frozen=True, kw_only=True)
class CenterCrop:
    """Cut out the middle of a picture.

    Takes and gives uint8, height x width x 3 (or 1). A picture smaller than the crop is refused.

    Attributes:
        size: pixels: one number for a square, or [height, width].
        fraction: instead of `size`: a square whose side is this share of the shorter side, rounded
            down.
        offset: how half a pixel of margin is rounded: `half_even` (torchvision: 0.5 → 0, 1.5 → 2),
            `half_up` (TensorFlow: 0.5 → 1, 1.5 → 2), `floor` (0.5 → 0, 1.5 → 1).
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host", "graph")
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    size: int | tuple[int, int] | None = None
    fraction: float | None = None
    offset: Literal["half_even", "half_up", "floor"] = "half_even"

    def flow(self, value: Value) -> tuple[Value, ...]:
        found = sides(value)
        if (self.size is None) == (self.fraction is None):
            raise ValueError("takes either size or fraction")
        if self.fraction is not None and not 0 < self.fraction <= 1:
            raise ValueError(f"fraction is {self.fraction}; above 0, at most 1")
        height, width = pair(self.size) if self.size is not None else (None, None)
        if self.fraction is not None and isinstance(found[0], int) and isinstance(found[1], int):
            height, width = self._size((found[0], found[1]))
        _check_fits(found, (height, width))
        return (picture(value, height, width),)

    def open(self) -> Callable[[Any], Any]:
        return self._crop

    def _crop(self, array: Any) -> Any:
        found: tuple[int, int] = array.shape[:2]
        height, width = self._size(found)
        if height > found[0] or width > found[1]:
            raise RequestError("", words(array), f"at least {width} x {height}")
        top, left = self._margin(found[0] - height), self._margin(found[1] - width)
        return cut(array, top, left, height, width)

    def _size(self, found: tuple[int, int]) -> tuple[int, int]:
        if self.size is not None:
            return pair(self.size)
        side = max(1, int((self.fraction or 1.0) * min(found) + FORGIVEN))
        return side, side

    def _margin(self, spare: int) -> int:
        rules = {"half_even": round(spare / 2), "half_up": (spare + 1) // 2, "floor": spare // 2}
        return rules[self.offset]


def _check_fits(found: tuple[int | str | None, ...], crop: tuple[int | None, int | None]) -> None:
    for name, side, wanted in zip(("height", "width"), found, crop, strict=True):
        if isinstance(side, int) and wanted is not None and wanted > side:
            raise ValueError(f"the crop's {name} {wanted} is above the picture's {name} {side}")


STEP = CenterCrop
