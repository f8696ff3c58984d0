"""decode: an encoded picture → pixels."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..picture_header import webp_size, words
from ..pixels import MOST, RANGE, Picture
from ..step import IMAGE, IMAGE_BYTES, RequestError, Value, accept

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("JPEG", "PNG", "WEBP")
ORIENTATION = 0x0112  # EXIF tag
TRANSPARENT = ("LA", "La", "PA", "RGBA", "RGBa")


@dataclass(frozen=True, kw_only=True)
class Decode:
    """Decode a JPEG, PNG or WebP picture.

    Gives uint8, height x width x 3, RGB, 0 to 255; height x width x 1 for grey. Grey and palette pictures become
    RGB; of an animation, the first frame counts. Colour profiles are not applied. How many bytes may come in is the
    request field's `max_bytes`.

    Attributes:
        color: `rgb`, or `grey`: Pillow's `L`, (19595 R + 38470 G + 7471 B + 32768) // 65536, which leaves a picture that
            is stored grey as it is.
        max_pixels: height x width above which a request is refused, before anything is decoded.
        orientation: `apply` turns the picture as its EXIF tag says; `ignore` takes the pixels as
            they are stored.
        alpha: `drop` keeps the colours under transparent pixels; `flatten` lays the picture on `background`, rounded as
            Pillow's `alpha_composite` and `paste` do; `refuse`.
        background: red, green and blue, each 0 to 255, under a picture that is flattened.
        sixteen_bit: `refuse`; `high_byte`: v // 256, as OpenCV reads them; `clip`: what Pillow's `convert` makes of them: grey
            above 255 becomes 255, colour keeps its high byte.
        cmyk: `refuse`, or `convert` without a colour profile, as Pillow does.
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host",)
    requires: ClassVar[tuple[str, ...]] = ("pillow", "numpy")
    color: Literal["rgb", "grey"] = "rgb"
    max_pixels: int = 50_000_000
    orientation: Literal["apply", "ignore"] = "apply"
    alpha: Literal["drop", "flatten", "refuse"] = "drop"
    background: tuple[int, int, int] = (255, 255, 255)
    sixteen_bit: Literal["refuse", "high_byte", "clip"] = "refuse"
    cmyk: Literal["refuse", "convert"] = "refuse"

    def flow(self, value: Value) -> tuple[Value, ...]:
        accept(value, IMAGE_BYTES)
        if not 0 < self.max_pixels <= MOST:
            raise ValueError(f"max_pixels is {self.max_pixels}; from 1 to {MOST}")
        if not all(0 <= part <= 255 for part in self.background):
            raise ValueError(f"background is {list(self.background)}; each from 0 to 255")
        return (Value(IMAGE, "uint8", (None, None, 1 if self.color == "grey" else 3), RANGE),)

    def open(self) -> Callable[[bytes], Any]:
        from PIL import Image

        Image.preinit()  # the plugins now, not with the first request

        def decode(data: bytes) -> Any:
            stored = self._opened(bytes(data))
            try:
                return Picture(self._coloured(self._turned(stored)))
            except (RequestError, MemoryError):
                raise
            except Exception as error:
                raise RequestError("", f"a damaged picture ({error})", "a whole picture") from error

        return decode

    def _opened(self, data: bytes) -> Image:
        """The picture, known by its header, not decoded yet."""
        from PIL import Image

        self._check_pixels(*webp_size(data))
        try:
            stored = Image.open(io.BytesIO(data), formats=FORMATS)
        except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
            count = re.search(r"\d+", str(error))
            raise RequestError("", f"a picture of {count[0] if count else 'too many'} pixels", self._limit()) from error
        except Exception as error:  # whatever a decoder makes of hostile bytes
            raise RequestError("", words(data), "a JPEG, PNG or WebP picture") from error
        self._check_pixels(*stored.size)
        if self.sixteen_bit == "refuse" and _is_deep(stored):
            raise RequestError("", "a picture of 16 bits per channel", "8 bits per channel (sixteen_bit is refuse)")
        if self.cmyk == "refuse" and stored.mode == "CMYK":
            raise RequestError("", "a CMYK picture", "an RGB or grey picture (cmyk is refuse)")
        return stored

    def _check_pixels(self, width: int, height: int) -> None:
        if width * height > self.max_pixels:
            raise RequestError("", f"a picture of {width} x {height} pixels", self._limit())

    def _limit(self) -> str:
        return f"at most {self.max_pixels} pixels"

    def _turned(self, stored: Image) -> Image:
        from PIL import ImageOps

        stored.load()
        if self.orientation == "apply" and stored.getexif().get(ORIENTATION, 1) != 1:
            return ImageOps.exif_transpose(stored)
        return stored

    def _coloured(self, picture: Image) -> Image:
        from PIL import Image

        if picture.mode.startswith("I") and self.sixteen_bit == "high_byte":
            picture = _high_byte(picture)
        if picture.mode in TRANSPARENT or "transparency" in picture.info:
            if self.alpha == "refuse":
                raise RequestError("", "a picture with transparent pixels", "an opaque picture (alpha is refuse)")
            if self.alpha == "flatten" and _is_out_of_reach(picture):
                raise RequestError("", "16-bit colour of which one is transparent", "an alpha channel instead")
            picture = picture.convert("RGBA")
            if self.alpha == "flatten":
                ground = Image.new("RGBA", picture.size, (*self.background, 255))
                picture = Image.alpha_composite(ground, picture)
        mode = "L" if self.color == "grey" else "RGB"
        return picture if picture.mode == mode else picture.convert(mode)


def _is_deep(stored: Image) -> bool:
    """Whether it is stored in 16 bits: Pillow's mode does not tell, since such colour opens as plain RGB."""
    return any(";16" in str(tile.args) for tile in getattr(stored, "tile", ()))


def _is_out_of_reach(picture: Image) -> bool:
    """Whether the transparent colour is one of 16 bits, which Pillow does not find among pixels of 8."""
    clear = picture.info.get("transparency")
    return isinstance(clear, tuple) and max(clear) > 255


def _high_byte(picture: Image) -> Image:
    import numpy as np
    from PIL import Image

    deep = np.asarray(picture)
    grey = Image.fromarray((deep >> 8).astype(np.uint8))
    clear = picture.info.get("transparency")  # the one grey value that is transparent
    if clear is None:
        return grey
    return Image.merge("LA", (grey, Image.fromarray(np.where(deep == clear, 0, 255).astype(np.uint8))))


STEP = Decode
