"""crop: a fixed box of a picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ..pixels import cut, picture, sides, words
from ..step import RequestError, Value


@dataclass(frozen=True, kw_only=True)
class Crop:
    """Cut the same box out of every picture.

    Takes and gives uint8, height x width x 3 (or 1). A picture that does not hold the whole box is refused.

    Attributes:
        top: rows above the box.
        left: columns left of it.
        height: its rows.
        width: its columns.
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host", "graph")
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    top: int
    left: int
    height: int
    width: int

    def flow(self, value: Value) -> tuple[Value, ...]:
        found = sides(value)
        if min(self.top, self.left) < 0 or min(self.height, self.width) < 1:
            raise ValueError("top and left are at least 0, height and width at least 1")
        for name, side, end in zip(("height", "width"), found, self._ends(), strict=True):
            if isinstance(side, int) and end > side:
                raise ValueError(f"the box ends at {end}, the picture's {name} is {side}")
        return (picture(value, self.height, self.width),)

    def open(self) -> Callable[[Any], Any]:
        bottom, right = self._ends()

        def crop(array: Any) -> Any:
            if array.shape[0] < bottom or array.shape[1] < right:
                raise RequestError("", words(array), f"at least {right} x {bottom}")
            return cut(array, self.top, self.left, self.height, self.width)

        return crop

    def _ends(self) -> tuple[int, int]:
        return self.top + self.height, self.left + self.width


STEP = Crop
