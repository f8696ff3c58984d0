"""resize: another size of a picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

from ..pixels import Picture, bounded, pair, picture, sides, to_pillow, words
from ..step import RequestError, Value


@dataclass(frozen=True, kw_only=True)
class Resize:
    """Resize a picture.

    Takes and gives uint8, height x width x 3 (or 1). A computed side is at least 1.

    Attributes:
        size: pixels: one number, or [height, width].
        fit: for one number `shorter` (the default: that side gets it, the other keeps the proportions), `longer`, or
            `stretch` to a square; for [height, width] `stretch` (the default), or `inside`: as large as fits, proportions kept.
        rounding: of a computed side: `floor` (torchvision), `half_even` (Python's round; YOLO's letterbox), `half_up`.
        filter: how pixels are weighed.
        library: whose arithmetic, bit for bit. They differ by up to half the range where a picture shrinks: `pillow`'s filters
            widen with the reduction (antialias), as torchvision's do on pictures; `opencv`'s (INTER_NEAREST and INTER_LINEAR,
            computed here with numpy) do not, nor do TensorFlow's.
        antialias: says which of the two is meant: true for `pillow` (whose `nearest` has none), false for `opencv`; an error
            where it does not hold.
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host", "graph")
    requires: ClassVar[tuple[str, ...]] = ("pillow", "numpy")
    size: int | tuple[int, int]
    fit: Literal["shorter", "longer", "stretch", "inside"] | None = None
    rounding: Literal["floor", "half_even", "half_up"] = "floor"
    filter: Literal["nearest", "bilinear", "bicubic", "lanczos"] = "bilinear"
    library: Literal["pillow", "opencv"] = "pillow"
    antialias: bool | None = None

    def flow(self, value: Value) -> tuple[Value, ...]:
        height, width = sides(value)
        pair(self.size)
        self._check_fit()
        self._check_filter()
        known = isinstance(height, int) and isinstance(width, int)
        if self._rule() == "stretch" or known:
            return (picture(value, *self._size(height, width)),)  # type: ignore[arg-type]
        return (picture(value, None, None),)

    def _rule(self) -> str:
        return self.fit or ("shorter" if isinstance(self.size, int) else "stretch")

    def _check_fit(self) -> None:
        fits = ("shorter", "longer", "stretch") if isinstance(self.size, int) else ("stretch", "inside")
        if self._rule() not in fits:
            form = "one number" if isinstance(self.size, int) else "[height, width]"
            raise ValueError(f"fit is {self.fit}; with {form} as size it is {' or '.join(fits)}")

    def _check_filter(self) -> None:
        if self.library == "opencv" and self.filter not in ("nearest", "bilinear"):
            raise ValueError(f"filter is {self.filter}; of opencv's, nearest and bilinear are here")
        widens = self.library == "pillow" and self.filter != "nearest"
        if self.antialias is not None and self.antialias != widens:
            raise ValueError(
                f"antialias is {str(self.antialias).lower()}, but {self.library}'s {self.filter} "
                f"{'always has it; library: opencv has none' if widens else 'has none; library: pillow has it'}"
            )

    def open(self) -> Callable[[Any], Any]:
        change = self._opencv() if self.library == "opencv" else self._pillow()

        def resize(array: Any) -> Any:
            if not array.size:
                raise RequestError("", words(array), "a picture with pixels")
            height, width = self._size(*array.shape[:2])
            bounded(array, height, width, "resizing")
            return change(array, height, width)

        return resize

    def _pillow(self) -> Callable[[Any, int, int], Any]:
        from PIL import Image

        rule = Image.Resampling[self.filter.upper()]
        return lambda array, height, width: Picture(to_pillow(array).resize((width, height), rule))

    def _opencv(self) -> Callable[[Any, int, int], Any]:
        import numpy as np

        from .. import opencv

        rule = {"nearest": opencv.nearest, "bilinear": opencv.bilinear}[self.filter]
        return lambda array, height, width: rule(np.asarray(array), height, width)

    def _size(self, height: int, width: int) -> tuple[int, int]:
        rule = self._rule()
        if rule == "stretch":
            return pair(self.size)
        if rule == "inside":
            most = pair(self.size)
            share = min(Fraction(most[0], height), Fraction(most[1], width))
        else:
            share = Fraction(pair(self.size)[0], (min if rule == "shorter" else max)(height, width))
        return self._rounded(height * share), self._rounded(width * share)

    def _rounded(self, side: Fraction) -> int:
        if self.rounding == "half_even":
            return max(1, round(side))
        return max(1, int(side + Fraction(1, 2) if self.rounding == "half_up" else side))


STEP = Resize
