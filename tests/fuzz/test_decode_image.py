"""The `decode` step against pictures of strangers: whatever the bytes are, a picture within the limits or a RequestError.

DSPEC_FUZZ_EXAMPLES sets the examples per test.
"""

from __future__ import annotations

import io
import re
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from dspec.targets.shipped.errors import RequestError
from dspec.targets.shipped.steps.decode import Decode

FUZZ = settings.get_profile("dspec-fuzz")
MAX_PIXELS = 20_000
MAGIC = b"\x89PNG\r\n\x1a\n"
WORDS = re.compile(
    r"^request: (no bytes|\d+ bytes that begin|a damaged|a picture (of|with)|a CMYK picture|a Git LFS|16-bit colour).*; expected "
    r"(a JPEG, PNG or WebP picture|a whole picture|at most \d+ pixels|8 bits|an RGB or grey|an opaque|an alpha)",
    re.DOTALL,
)

# What Pillow remarks about hostile files (corrupt EXIF, animations cut short) is for its user, not for a request's sender.
pytestmark = pytest.mark.filterwarnings("ignore")


def encoded(picture: Image.Image, form: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, form, **options)
    return stream.getvalue()


def png(width: int, height: int, depth: int, color: int, rows: bytes, *more: tuple[bytes, bytes]) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    chunks = ((b"IHDR", head), *more, (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return MAGIC + b"".join(chunk(name, content) for name, content in chunks)


def chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def seeds() -> dict[str, bytes]:
    """Real files of each format, mode and kind."""
    pixels = np.random.default_rng(5).integers(0, 256, (24, 32, 4), np.uint8)
    colour, clear = Image.fromarray(pixels[:, :, :3]), Image.fromarray(pixels)
    grey, palette = colour.convert("L"), colour.convert("P")
    exif = Image.Exif()
    exif[0x0112] = 6
    deep = Image.fromarray(pixels[:, :, 0].astype(np.uint16) * 257)
    return {
        "jpeg": encoded(colour, "JPEG", exif=exif),
        "jpeg progressive": encoded(colour, "JPEG", progressive=True),
        "jpeg grey": encoded(grey, "JPEG"),
        "jpeg cmyk": encoded(colour.convert("CMYK"), "JPEG"),
        "png": encoded(colour, "PNG", exif=exif),
        "png alpha": encoded(clear, "PNG"),
        "png palette": encoded(palette, "PNG", transparency=bytes(range(200))),
        "png grey alpha": encoded(clear.convert("LA"), "PNG"),
        "png 1 bit": encoded(grey.convert("1"), "PNG"),
        "png 16 bit": encoded(deep, "PNG"),
        "png 16-bit colour": png(2, 1, 16, 2, bytes(13), (b"tRNS", bytes(6))),
        "png animated": encoded(colour, "PNG", save_all=True, append_images=[clear.convert("RGB").rotate(90)]),
        "webp": encoded(colour, "WEBP", exif=exif),
        "webp alpha": encoded(clear, "WEBP", lossless=True),
        "webp animated": encoded(colour, "WEBP", save_all=True, append_images=[colour.rotate(180)] * 2),
    }


SEEDS = seeds()
RULES: list[dict[str, Any]] = [
    {},
    {"color": "grey", "alpha": "flatten", "background": (1, 2, 3), "sixteen_bit": "high_byte", "cmyk": "convert"},
    {"alpha": "refuse", "sixteen_bit": "clip", "orientation": "ignore"},
    {"alpha": "flatten", "sixteen_bit": "high_byte"},
]
DECODERS: list[tuple[Decode, Callable[[bytes], Any]]] = [
    (step, step.open()) for step in (Decode(max_pixels=MAX_PIXELS, **rules) for rules in RULES)
]


def hold(data: bytes) -> None:
    """Under every rule: a picture within the limit, or an error in words, soon."""
    for step, decode in DECODERS:
        start = time.perf_counter()
        refused = ""
        try:
            found = np.asarray(decode(data))
        except RequestError as error:
            refused = str(error)
        if refused:
            assert WORDS.match(refused), refused
        else:
            assert found.dtype == np.uint8
            assert found.shape[2] == (1 if step.color == "grey" else 3)
            assert 0 < found.shape[0] * found.shape[1] <= MAX_PIXELS
        assert time.perf_counter() - start < 3


def test_the_seeds_are_read() -> None:
    for name, data in SEEDS.items():
        found = DECODERS[1][1](data)
        assert found.shape in {(24, 32, 1), (32, 24, 1), (1, 2, 1)}, name
        hold(data)


@given(data=st.data(), name=st.sampled_from(sorted(SEEDS)))
@FUZZ
def test_bytes_exchanged(data: st.DataObject, name: str) -> None:
    content = SEEDS[name]
    for _ in range(data.draw(st.integers(1, 4))):
        head = data.draw(st.booleans())  # most of what matters stands in the header
        start = data.draw(st.integers(0, min(len(content), 64) if head else len(content)))
        end = min(len(content), start + data.draw(st.sampled_from([0, 1, 1, 2, 4, 50])))
        new = data.draw(st.binary(max_size=8) | st.sampled_from([b"\xff" * 4, bytes(4), b"\x7f\xff\xff\xff"]))
        content = content[:start] + new + content[end:]
    hold(content)


@given(data=st.data(), name=st.sampled_from([name for name in sorted(SEEDS) if name.startswith("png")]))
@FUZZ
def test_chunks_of_a_png_exchanged(data: st.DataObject, name: str) -> None:
    """With right checksums, so that what they hold reaches the decoder."""
    parts = list(chunks_of(SEEDS[name]))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(parts) - 1))
        kind, content = parts[at]
        match data.draw(st.sampled_from(["content", "content", "kind", "double", "delete"])):
            case "content":
                start = data.draw(st.integers(0, len(content)))
                parts[at] = (kind, content[:start] + data.draw(st.binary(max_size=6)) + content[start + 1 :])
            case "kind":
                names = [
                    b"PLTE",
                    b"tRNS",
                    b"IDAT",
                    b"fcTL",
                    b"fdAT",
                    b"eXIf",
                    b"iCCP",
                    b"zTXt",
                    b"acTL",
                    b"gAMA",
                    b"IEND",
                ]
                parts[at] = (data.draw(st.sampled_from(names)), content)
            case "double":
                parts.insert(at, parts[at])
            case _:
                del parts[at]
                if not parts:
                    break
    hold(MAGIC + b"".join(chunk(kind, content) for kind, content in parts))


def chunks_of(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(MAGIC)
    while at < len(content):
        (size,) = struct.unpack(">I", content[at : at + 4])
        yield content[at + 4 : at + 8], content[at + 8 : at + 8 + size]
        at += size + 12


@given(name=st.sampled_from(sorted(SEEDS)), share=st.floats(0, 1, exclude_max=True))
@FUZZ
def test_cut_short(name: str, share: float) -> None:
    hold(SEEDS[name][: int(len(SEEDS[name]) * share)])


@given(
    content=st.binary(max_size=200),
    magic=st.sampled_from([b"", MAGIC, b"\xff\xd8\xff", b"RIFF\0\0\0\0WEBPVP8X", b"RIFF\0\0\0\0WEBPVP8L"]),
)
@example(content=b"", magic=b"")
@FUZZ
def test_any_bytes(content: bytes, magic: bytes) -> None:
    hold(magic + content)


@given(
    width=st.integers(0, 2**32 - 1),
    height=st.integers(0, 2**32 - 1),
    depth=st.sampled_from([1, 2, 4, 8, 16, 3]),
    color=st.sampled_from([0, 2, 3, 4, 6, 7]),
)
@example(width=20_000, height=20_000, depth=1, color=0)
@example(width=0, height=5, depth=8, color=2)
@FUZZ
def test_any_size_announced(width: int, height: int, depth: int, color: int) -> None:
    hold(png(width, height, depth, color, bytes(100)))


BOMBS = """
import io, resource, struct, zlib
import numpy as np
from PIL import Image
from dspec.targets.shipped.errors import RequestError
from dspec.targets.shipped.steps.decode import Decode

def chunk(name, content):
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

def png(side, depth, color, rows, *more):
    head = struct.pack(">IIBBBBB", side, side, depth, color, 0, 0, 0)
    return bytes.fromhex("89504e470d0a1a0a") + b"".join(
        chunk(*one) for one in ((b"IHDR", head), *more, (b"IDAT", zlib.compress(rows, 1)), (b"IEND", b"")))

def webp(side, **options):
    stream = io.BytesIO()
    Image.new("RGB", (side, side)).save(stream, "WEBP", **options)
    return stream.getvalue()

zeros = zlib.compress(bytes(100_000_000), 1)
bombs = [
    png(20000, 1, 0, bytes(2501 * 20000)),
    png(1, 8, 2, bytes(100_000_000)),
    png(1, 8, 2, bytes(4), (b"zTXt", b"a" + bytes(2) + zeros)),
    png(1, 8, 2, bytes(4), (b"iCCP", b"a" + bytes(2) + zeros)),
    webp(4000, lossless=True, method=0, quality=0),
    webp(4000, quality=10, method=0),
]
open = Decode(max_pixels=1_000_000).open()
open(webp(8))
del zeros
# from here on, 150 MB more than there are now: a million pixels take 4 MB in Pillow's form
now = int(__builtins__.open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + 150_000_000, resource.RLIM_INFINITY))
for number, bomb in enumerate(bombs):
    try:
        print(number, "picture", np.asarray(open(bomb)).shape)
    except RequestError as error:
        print(number, error)
"""


def test_bombs_take_no_memory() -> None:
    made = subprocess.run([sys.executable, "-c", BOMBS], capture_output=True, text=True, timeout=60, check=False)
    limit = "expected at most 1000000 pixels"
    assert re.sub(r"of \d{6} bytes", "of N bytes", made.stdout).splitlines() == [
        f"0 request: a picture of 400000000 pixels; {limit}",
        "1 picture (1, 1, 3)",
        "2 request: a damaged PNG of N bytes, whose header can't be read; expected a JPEG, PNG or WebP picture",
        "3 request: a damaged PNG of N bytes, whose header can't be read; expected a JPEG, PNG or WebP picture",
        f"4 request: a picture of 4000 x 4000 pixels; {limit}",
        f"5 request: a picture of 4000 x 4000 pixels; {limit}",
    ], made.stderr
