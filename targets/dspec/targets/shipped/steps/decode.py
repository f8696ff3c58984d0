"""decode: an encoded picture → RGB pixels."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..step import IMAGE, IMAGE_BYTES, RequestError, Value, accept

if TYPE_CHECKING:
    from PIL.Image import Image

# Above this many pixels Pillow itself warns of a decompression bomb, and above twice as many it
# refuses.
PILLOW_LIMIT = 89_478_485
FORMATS = ("JPEG", "PNG", "WEBP")
ORIENTATION = 0x0112  # EXIF tag
PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
PNG_DEPTH = 24  # offset of the bit depth: signature 8, length 4, "IHDR" 4, width 4, height 4


@dataclass(frozen=True, kw_only=True)
class Decode:
    """Decode a JPEG, PNG or WebP picture to RGB.

    Gives uint8, height x width x 3, RGB, 0 to 255. Grey and palette pictures become RGB; of an
    animation, the first frame counts. Colour profiles are not applied.

    Attributes:
        max_pixels: height x width above which a request is refused, before anything is decoded.
        orientation: `apply` turns the picture as its EXIF tag says; `ignore` takes the pixels as
            they are stored.
        alpha: `drop` keeps the colours under transparent pixels; `white` lays the picture on
            white.
        sixteen_bit: `refuse`, or `high_byte`: v // 256, as Pillow and OpenCV read 16-bit colour.
        cmyk: `refuse`, or `convert` without a colour profile, as Pillow does.
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host",)
    requires: ClassVar[tuple[str, ...]] = ("pillow", "numpy")
    max_pixels: int = 50_000_000
    orientation: Literal["apply", "ignore"] = "apply"
    alpha: Literal["drop", "white"] = "drop"
    sixteen_bit: Literal["refuse", "high_byte"] = "refuse"
    cmyk: Literal["refuse", "convert"] = "refuse"

    def flow(self, value: Value) -> tuple[Value, ...]:
        accept(value, IMAGE_BYTES)
        if not 0 < self.max_pixels <= PILLOW_LIMIT:
            raise ValueError(f"max_pixels is {self.max_pixels}; from 1 to {PILLOW_LIMIT}")
        return (Value(IMAGE, "uint8", (None, None, 3)),)

    def open(self) -> Callable[[bytes], Any]:
        import numpy as np

        def decode(data: bytes) -> Any:
            picture = self._rgb(self._loaded(bytes(data)))
            return np.asarray(picture)

        return decode

    def _loaded(self, data: bytes) -> Image:
        from PIL import Image

        try:
            picture = Image.open(io.BytesIO(data), formats=FORMATS)
        except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
            raise RequestError("", str(error).split(",")[0], self._limit()) from error
        except Exception as error:  # whatever a decoder makes of hostile bytes
            raise RequestError("", _what(data), "a JPEG, PNG or WebP picture") from error
        width, height = picture.size
        if width * height > self.max_pixels:
            raise RequestError("", f"a picture of {width} x {height} pixels", self._limit())
        self._check_depth(picture, data)
        return self._turned(picture)

    def _limit(self) -> str:
        return f"at most {self.max_pixels} pixels"

    def _check_depth(self, picture: Image, data: bytes) -> None:
        # Pillow's mode does not tell: 16-bit colour opens as plain RGB.
        deep = data.startswith(PNG_MAGIC) and data[PNG_DEPTH] == 16
        if deep and self.sixteen_bit == "refuse":
            raise RequestError("", "a picture of 16 bits per channel", "8 bits per channel")
        if picture.mode in ("CMYK", "YCCK") and self.cmyk == "refuse":
            raise RequestError("", "a CMYK picture", "an RGB or grey picture")

    def _turned(self, picture: Image) -> Image:
        from PIL import ImageOps

        try:
            picture.load()
            if self.orientation == "apply" and picture.getexif().get(ORIENTATION, 1) != 1:
                return ImageOps.exif_transpose(picture)
        except Exception as error:
            raise RequestError("", f"a damaged picture ({error})", "a whole picture") from error
        return picture

    def _rgb(self, picture: Image) -> Image:
        if picture.mode.startswith("I"):
            picture = _high_byte(picture)
        if self.alpha == "white" and (_has_alpha(picture)):
            return _on_white(picture)
        return picture if picture.mode == "RGB" else picture.convert("RGB")


def _has_alpha(picture: Image) -> bool:
    return picture.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in picture.info


def _on_white(picture: Image) -> Image:
    from PIL import Image

    above = picture.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", above.size, "white"), above).convert("RGB")


def _high_byte(picture: Image) -> Image:
    import numpy as np
    from PIL import Image

    return Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8))


def _what(data: bytes) -> str:
    if not data:
        return "no bytes"
    if data.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer instead of the file"
    return f"{len(data)} bytes that begin with {data[:8]!r}"


STEP = Decode
