"""Picture steps: against Pillow and numpy by hand, on pictures of every odd kind."""

from __future__ import annotations

import io
import struct
import time
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dspec.targets.shipped import steps
from dspec.targets.shipped.errors import RequestError
from dspec.targets.shipped.step import IMAGE, IMAGE_BYTES, TENSOR, TEXT, Value

RANGE = (0.0, 255.0)
PICTURE = Value(IMAGE, "uint8", (None, None, 3), RANGE)


def step(name: str, **params: Any) -> Any:
    return steps.load(name)(**params)


def run(name: str, value: Any, **params: Any) -> Any:
    return np.asarray(step(name, **params).open()(value))


def encoded(picture: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()


def noise(height: int, width: int, channels: int = 3) -> Any:
    return np.random.default_rng(3).integers(0, 256, (height, width, channels), np.uint8)


def png(width: int, height: int, depth: int, color: int, rows: bytes = b"") -> bytes:
    """A PNG made by hand: Pillow writes no 16-bit colour, and nobody wants a real one of 400 megapixels."""
    head = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    body = (struct.pack(">I", len(d)) + name + d + struct.pack(">I", zlib.crc32(name + d)) for name, d in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(body)


def palette() -> Image.Image:
    picture = Image.new("P", (2, 1), 1)
    picture.putpalette([0, 0, 0, 10, 20, 30])
    return picture


RGB16 = png(1, 1, 16, 2, b"\x00" + struct.pack(">HHH", 40000, 255, 65535))
GREY16 = encoded(Image.fromarray(np.array([[40000, 255]], np.uint16)))
CLEAR_RED = Image.new("RGBA", (1, 1), (255, 0, 0, 0))
DECODED: list[tuple[bytes, dict[str, Any], list[int]]] = [
    (encoded(Image.new("RGB", (2, 2), (255, 0, 0))), {}, [255, 0, 0]),
    (encoded(Image.new("RGB", (2, 2), (255, 0, 0)), "WEBP", lossless=True), {}, [255, 0, 0]),
    (encoded(Image.new("L", (2, 2), 100)), {}, [100, 100, 100]),
    (encoded(Image.new("L", (2, 2), 100), "JPEG"), {}, [100, 100, 100]),
    (encoded(Image.new("1", (2, 2), 1)), {}, [255, 255, 255]),
    (encoded(palette()), {}, [10, 20, 30]),
    (encoded(CLEAR_RED), {}, [255, 0, 0]),
    (encoded(CLEAR_RED), {"alpha": "flatten"}, [255, 255, 255]),
    (encoded(Image.new("RGBA", (1, 1), (200, 0, 0, 128))), {"alpha": "flatten"}, [227, 127, 127]),
    (encoded(Image.new("LA", (1, 1), (9, 0))), {}, [9, 9, 9]),
    (encoded(Image.new("LA", (1, 1), (9, 0))), {"alpha": "flatten"}, [255, 255, 255]),
    (encoded(palette(), transparency=1), {}, [10, 20, 30]),
    (encoded(palette(), transparency=1), {"alpha": "flatten"}, [255, 255, 255]),
    (RGB16, {"sixteen_bit": "high_byte"}, [156, 0, 255]),
    (GREY16, {"sixteen_bit": "high_byte"}, [156, 156, 156]),
    (encoded(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG"), {"cmyk": "convert"}, [254, 0, 0]),
]


@pytest.mark.parametrize(("data", "params", "first"), DECODED, ids=range(len(DECODED)))
def test_every_kind_of_picture_becomes_rgb(data: bytes, params: dict[str, Any], first: list[int]) -> None:
    found = run("decode", data, **params)
    assert found.dtype == np.uint8
    assert found.ndim == 3
    assert found.shape[2] == 3
    np.testing.assert_allclose(found[0, 0], first, atol=1)


JPEG = encoded(Image.fromarray(noise(64, 48)), "JPEG")
REFUSED = [
    (b"", "no bytes; expected a JPEG, PNG or WebP picture"),
    (b"<html></html>", r"13 bytes that begin with b'<html></'; expected a JPEG, PNG or WebP picture"),
    (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer instead of the file"),
    (encoded(Image.new("RGB", (2, 2)), "GIF"), "begin with b'GIF87a"),
    (JPEG[: len(JPEG) // 2], "a damaged picture .image file is truncated.*; expected a whole picture"),
    (encoded(Image.fromarray(noise(64, 48)))[:-2000], "a damaged picture"),
    (RGB16, "a picture of 16 bits per channel; expected 8 bits per channel"),
    (GREY16, "a picture of 16 bits per channel"),
    (encoded(Image.new("CMYK", (8, 8)), "JPEG"), "a CMYK picture; expected an RGB or grey picture"),
    (png(9000, 9000, 1, 0), "a picture of 9000 x 9000 pixels; expected at most 50000000 pixels"),
    (png(20000, 20000, 1, 0), "400000000 pixels.*expected at most 50000000 pixels"),
    (png(10000, 10000, 1, 0), "100000000 pixels.*expected at most 50000000 pixels"),
]


@pytest.mark.parametrize(("data", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_no_whole_picture_is_refused_in_words(data: bytes, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        run("decode", data)


def test_size_is_checked_before_anything_is_decoded() -> None:
    bomb = png(20000, 20000, 1, 0, b"\x00" * 2501 * 20000)
    start = time.perf_counter()
    with pytest.raises(RequestError):
        run("decode", bomb)
    assert len(bomb) < 100_000
    assert time.perf_counter() - start < 0.2


def test_orientation() -> None:
    pixels = np.zeros((2, 4, 3), np.uint8)
    pixels[0, 0] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # turn right by 90 degrees
    data = encoded(Image.fromarray(pixels), exif=exif)
    upright = run("decode", data)
    assert upright.shape == (4, 2, 3)
    assert upright[0, 1].tolist() == [255, 255, 255]
    assert run("decode", data, orientation="ignore").shape == (2, 4, 3)


CROPS = [
    ({"size": 224}, (227, 227), (2, 2, 224, 224)),  # 1.5 rounds to 2 under both rules
    ({"size": 224, "offset": "half_up"}, (227, 227), (2, 2, 224, 224)),
    ({"size": 224, "offset": "floor"}, (227, 227), (1, 1, 224, 224)),
    ({"size": 224}, (225, 229), (0, 2, 224, 224)),  # half to even: 0.5 → 0, 2.5 → 2
    ({"size": 224, "offset": "half_up"}, (225, 229), (1, 3, 224, 224)),
    ({"size": (10, 20)}, (30, 30), (10, 5, 10, 20)),
    ({"fraction": 0.875}, (256, 300), (16, 38, 224, 224)),
    ({"fraction": 0.29}, (100, 100), (36, 36, 29, 29)),
    ({"fraction": 1.0}, (5, 9), (0, 2, 5, 5)),
]


@pytest.mark.parametrize(("params", "size", "box"), CROPS)
def test_center_crop(params: dict[str, Any], size: tuple[int, int], box: tuple[int, int, int, int]) -> None:
    pixels = noise(*size)
    top, left, height, width = box
    np.testing.assert_array_equal(run("center_crop", pixels, **params), pixels[top : top + height, left : left + width])


def test_a_picture_smaller_than_the_crop_is_refused() -> None:
    with pytest.raises(RequestError, match="a picture of 8 x 9 pixels; expected at least 16 x 16"):
        run("center_crop", noise(9, 8), size=16)


SIZES = [(10, (20, 40), (10, 20)), (10, (40, 20), (20, 10)), ((7, 9), (20, 40), (7, 9)), (5, (10, 13), (5, 6))]


@pytest.mark.parametrize("rule", ["nearest", "bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize(("size", "given", "wanted"), SIZES)
def test_resize_is_pillows(size: Any, given: tuple[int, int], wanted: tuple[int, int], rule: str) -> None:
    pixels = noise(*given)
    by_hand = Image.fromarray(pixels).resize(wanted[::-1], Image.Resampling[rule.upper()])
    np.testing.assert_array_equal(run("resize", pixels, size=size, filter=rule), np.asarray(by_hand))


def test_resize_refuses_what_would_become_huge() -> None:
    with pytest.raises(
        RequestError,
        match="a picture of 50000 x 1 pixels; expected one that has at most 89478485 pixels after resizing",
    ):
        run("resize", noise(1, 50000), size=224)


def test_layout() -> None:
    pixels = noise(4, 5)
    chw = run("layout", pixels, to="chw")
    np.testing.assert_array_equal(chw, np.moveaxis(pixels, 2, 0))
    np.testing.assert_array_equal(run("layout", chw, to="hwc"), pixels)


def test_scale() -> None:
    found = run("scale", np.array([0, 255], np.uint8), factor=1 / 255, offset=-0.5)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [-0.5, 0.5], 1e-7)


MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.mark.parametrize("layout", ["hwc", "chw"])
def test_normalize_per_channel(layout: str) -> None:
    pixels = noise(4, 5).astype(np.float32) / np.float32(255)
    given = pixels if layout == "hwc" else pixels.transpose(2, 0, 1)
    found = run("normalize", given, mean=MEAN, std=STD, layout=layout)
    by_hand = (pixels - np.array(MEAN, np.float32)) / np.array(STD, np.float32)
    np.testing.assert_array_equal(found if layout == "hwc" else found.transpose(1, 2, 0), by_hand)


def test_normalize_by_one_number_takes_pixels() -> None:
    pixels = noise(4, 5)
    found = run("normalize", pixels, mean=127.0, std=128.0)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, (pixels.astype(np.float32) - np.float32(127)) / np.float32(128))


def test_no_step_changes_what_it_reads() -> None:
    pixels = np.asfortranarray(noise(32, 40))
    before = pixels.copy()
    for name, params in (
        ("center_crop", {"size": 16}),
        ("resize", {"size": 16}),
        ("layout", {"to": "chw"}),
        ("scale", {"factor": 2.0, "offset": 1.0}),
        ("normalize", {"mean": 1.0, "std": 2.0}),
    ):
        run(name, pixels, **params)
    np.testing.assert_array_equal(pixels, before)


FLOWS = [
    ("decode", {}, Value(IMAGE_BYTES), PICTURE),
    ("center_crop", {"size": 224}, PICTURE, Value(IMAGE, "uint8", (224, 224, 3), RANGE)),
    ("center_crop", {"fraction": 0.5}, PICTURE, PICTURE),
    ("resize", {"size": (3, 4)}, PICTURE, Value(IMAGE, "uint8", (3, 4, 3), RANGE)),
    ("resize", {"size": 5}, PICTURE, PICTURE),
    ("resize", {"size": 5}, Value(IMAGE, "uint8", (10, 20, 3)), Value(IMAGE, "uint8", (5, 10, 3), RANGE)),
    ("layout", {"to": "chw"}, Value(IMAGE, "uint8", (3, 4, 3)), Value(TENSOR, "uint8", (3, 3, 4))),
    ("layout", {"to": "hwc"}, Value(TENSOR, "float32", (3, 5, 4)), Value(TENSOR, "float32", (5, 4, 3))),
    ("scale", {}, Value(TENSOR, "uint8", ("time",)), Value(TENSOR, "float32", ("time",))),
    ("normalize", {"mean": 1.0, "std": 2.0}, PICTURE, Value(TENSOR, "float32", (None, None, 3), (-0.5, 127.0))),
]


@pytest.mark.parametrize(("name", "params", "given", "gives"), FLOWS)
def test_flow(name: str, params: dict[str, Any], given: Value, gives: Value) -> None:
    assert step(name, **params).flow(given) == (gives,)


MISFITS = [
    ("decode", {}, Value(TEXT), "takes image bytes, not text"),
    ("decode", {"max_pixels": 0}, Value(IMAGE_BYTES), "max_pixels is 0; from 1 to 89478485"),
    ("center_crop", {}, PICTURE, "takes either size or fraction"),
    ("center_crop", {"size": 2, "fraction": 0.5}, PICTURE, "takes either size or fraction"),
    ("center_crop", {"fraction": 1.5}, PICTURE, r"fraction is 1\.5; above 0, at most 1"),
    ("center_crop", {"size": 0}, PICTURE, "size is 0; at least 1"),
    ("center_crop", {"size": 9}, Value(IMAGE, "uint8", (8, 20, 3)), "the crop's height 9 is above the picture's"),
    ("resize", {"size": (0, 4)}, PICTURE, r"size is \[0, 4\]; at least 1"),
    ("resize", {"size": 5}, Value(TENSOR, "float32", (3, 4, 4)), "takes image, not tensor"),
    ("layout", {"to": "hwc"}, PICTURE, "a picture is hwc already"),
    ("layout", {"to": "chw"}, Value(TENSOR, "float32", (3, 4)), r"takes three axes, not shape \[3, 4\]"),
    ("scale", {"factor": float("nan")}, PICTURE, "factor and offset are finite numbers"),
    ("normalize", {"mean": MEAN, "std": (1.0, 2.0)}, PICTURE, "mean has 3 numbers, std has 2"),
    ("normalize", {"mean": 0.0, "std": 0.0}, PICTURE, "std above 0"),
    ("normalize", {"mean": MEAN, "std": STD, "layout": "chw"}, PICTURE, "a picture is hwc, not chw"),
    (
        "normalize",
        {"mean": MEAN, "std": STD, "layout": "chw"},
        Value(TENSOR, "float32", (224, 224, 3)),
        r"3 numbers for 224 channels \(chw, shape \[224, 224, 3\]\)",
    ),
]


@pytest.mark.parametrize(("name", "params", "given", "message"), MISFITS)
def test_what_does_not_fit_is_refused_before_running(
    name: str, params: dict[str, Any], given: Value, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        step(name, **params).flow(given)


def test_at_run_time_the_channel_axis_is_held_as_well() -> None:
    with pytest.raises(RequestError, match=r"shape \[224, 224, 3\]; expected 3 channels, layout chw"):
        run("normalize", noise(224, 224), mean=MEAN, std=STD, layout="chw")


@pytest.fixture
def photo() -> bytes:
    return encoded(Image.fromarray(noise(60, 80)).resize((640, 480)), "JPEG")


def test_the_pipeline_of_efficientnet_lite0(photo: bytes) -> None:
    chain: list[Callable[[Any], Any]] = [
        step("decode").open(),
        step("center_crop", fraction=0.875).open(),
        step("resize", size=(224, 224), filter="bicubic").open(),
        step("normalize", mean=127.0, std=128.0).open(),
        step("layout", to="chw").open(),
    ]
    found: Any = photo
    for link in chain:
        found = link(found)
    picture = Image.open(io.BytesIO(photo)).convert("RGB")
    side = int(min(picture.size) * 224 / 256)
    left, top = (picture.width - side) // 2, (picture.height - side) // 2
    cut = picture.crop((left, top, left + side, top + side)).resize((224, 224), Image.Resampling.BICUBIC)
    by_hand = ((np.asarray(cut, np.float32) - 127) / 128).transpose(2, 0, 1)
    np.testing.assert_array_equal(found, by_hand)
