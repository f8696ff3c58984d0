"""resize: another size of a picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..step import IMAGE, RequestError, Value, accept

MAX_PIXELS = 89_478_485  # a picture 1 pixel high would otherwise become one of any width


@dataclass(frozen=True, kw_only=True)
class Resize:
    """Resize a picture with Pillow.

    Takes and gives uint8, height x width x 3. Pillow's filters widen with the reduction
    (antialias), as torchvision's do on pictures; OpenCV's and TensorFlow's do not.

    Attributes:
        size: pixels: one number for the shorter side (the longer becomes size x longer / shorter,
            rounded down, as in torchvision), or [height, width].
        filter: how pixels are weighed.
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host",)
    requires: ClassVar[tuple[str, ...]] = ("pillow", "numpy")
    size: int | tuple[int, int]
    filter: Literal["nearest", "bilinear", "bicubic", "lanczos"] = "bilinear"

    def flow(self, value: Value) -> tuple[Value, ...]:
        accept(value, IMAGE)
        sizes = (self.size,) if isinstance(self.size, int) else tuple(self.size)
        if min(sizes) < 1:
            raise ValueError(f"size is {self.size}; at least 1")
        known = value.shape[:2] if value.shape else (None, None)
        if isinstance(self.size, int):
            height, width = known
            fixed = isinstance(height, int) and isinstance(width, int)
            sizes = self._size(height, width) if fixed else (None, None)  # type: ignore[arg-type, assignment]
        return (Value(IMAGE, "uint8", (*sizes, 3)),)

    def open(self) -> Callable[[Any], Any]:
        import numpy as np
        from PIL import Image

        rule = Image.Resampling[self.filter.upper()]

        def resize(picture: Any) -> Any:
            height, width = self._size(*picture.shape[:2])
            if height * width > MAX_PIXELS:
                found = f"a picture of {picture.shape[1]} x {picture.shape[0]} pixels"
                raise RequestError("", found, f"at most {MAX_PIXELS} pixels after resizing")
            return np.asarray(Image.fromarray(np.ascontiguousarray(picture)).resize((width, height), rule))

        return resize

    def _size(self, height: int, width: int) -> tuple[int, int]:
        if not isinstance(self.size, int):
            return self.size
        longer = self.size * max(height, width) // min(height, width)
        return (self.size, longer) if height <= width else (longer, self.size)


STEP = Resize
