"""Pictures as arrays and as Pillow's own: what the picture steps share.

As a value of the pipeline a picture is a uint8 array, height x width x channels: 3 (RGB) or 1 (grey). Between picture
steps it stays in Pillow's form, a `Picture`, since each change of form copies it: a third of the time for large ones.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .errors import RequestError
from .step import IMAGE, Value, accept

if TYPE_CHECKING:
    from PIL.Image import Image

RANGE = (0.0, 255.0)
# Above this many pixels Pillow itself warns of a decompression bomb, and above twice as many it refuses.
MOST = 89_478_485


def picture(value: Value, height: int | str | None, width: int | str | None) -> Value:
    """The type of a picture of that size made from `value`: with as many channels."""
    return Value(IMAGE, "uint8", (height, width, channels(value)), value.range or RANGE)


def channels(value: Value) -> int | str | None:
    """How many channels a picture of that type has, where that is known."""
    return value.shape[2] if value.shape and len(value.shape) == 3 else None


def sides(value: Value) -> tuple[int | str | None, int | str | None]:
    """(height, width) of a picture's type; ValueError where it is no picture."""
    accept(value, IMAGE)
    return (value.shape[0], value.shape[1]) if value.shape and len(value.shape) == 3 else (None, None)


def pair(size: int | tuple[int, int]) -> tuple[int, int]:
    """(height, width) of one number or two; ValueError where one is not above 0."""
    height, width = (size, size) if isinstance(size, int) else size
    if height < 1 or width < 1:
        raise ValueError(f"size is {list(size) if isinstance(size, tuple) else size}; at least 1")
    return height, width


def bounded(array: Any, height: int, width: int, step: str) -> None:
    """RequestError where a picture would become larger than any that is decoded."""
    if height * width > MOST:
        raise RequestError("", words(array), f"one that has at most {MOST} pixels after {step}")


def words(array: Any) -> str:
    """What an error says was found: width before height, as people name pictures."""
    return f"a picture of {array.shape[1]} x {array.shape[0]} pixels"


class Picture:
    """A picture in Pillow's form, mode L or RGB; `numpy.asarray` makes the array that it stands for.

    It shows that array's `shape`, `dtype`, `ndim` and `size`, and can be indexed like it.
    """

    __slots__ = ("image",)
    ndim = 3

    def __init__(self, image: Image) -> None:
        self.image = image

    @property
    def shape(self) -> tuple[int, int, int]:
        return (self.image.height, self.image.width, 1 if self.image.mode == "L" else 3)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def dtype(self) -> Any:
        import numpy as np

        return np.dtype(np.uint8)

    def __getitem__(self, at: Any) -> Any:
        return self.__array__()[at]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        import numpy as np

        array = np.asarray(self.image, dtype)
        return array if array.ndim == 3 else array[:, :, np.newaxis]


def to_pillow(value: Any) -> Image:
    """The picture in Pillow's form: mode L for one channel, RGB for three."""
    if isinstance(value, Picture):
        return value.image
    import numpy as np
    from PIL import Image

    if value.dtype != np.uint8 or value.ndim != 3 or value.shape[2] not in (1, 3):
        raise ValueError(f"a picture is uint8, height x width x 3 or 1, not {value.dtype} {list(value.shape)}")
    return Image.fromarray(np.ascontiguousarray(value[:, :, 0] if value.shape[2] == 1 else value))


def cut(value: Any, top: int, left: int, height: int, width: int) -> Any:
    """The part of a picture, in the form it has."""
    if isinstance(value, Picture):
        return Picture(value.image.crop((left, top, left + width, top + height)))
    return value[top : top + height, left : left + width]
