"""Resize, crop, pad and channels: against Pillow, against what OpenCV gave, and against the types that they promise."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dspec.targets.shipped import steps
from dspec.targets.shipped.errors import RequestError
from dspec.targets.shipped.pixels import Picture
from dspec.targets.shipped.step import ANY, IMAGE, TENSOR, Value

RANGE = (0.0, 255.0)
PICTURE = Value(IMAGE, "uint8", (None, None, 3), RANGE)


def step(name: str, **params: Any) -> Any:
    return steps.load(name)(**params)


def run(name: str, value: Any, **params: Any) -> Any:
    return np.asarray(step(name, **params).open()(value))


def noise(height: int, width: int, channels: int = 3) -> Any:
    return np.random.default_rng(3).integers(0, 256, (height, width, channels), np.uint8)


SIZES: list[tuple[dict[str, Any], tuple[int, int], tuple[int, int]]] = [
    ({"size": 256}, (480, 641), (256, 341)),  # 341.87
    ({"size": 256, "rounding": "half_even"}, (480, 641), (256, 342)),
    ({"size": 5, "rounding": "half_even"}, (10, 13), (5, 6)),  # 6.5
    ({"size": 5, "rounding": "half_up"}, (10, 13), (5, 7)),
    ({"size": 5, "rounding": "floor"}, (10, 13), (5, 6)),
    ({"size": 640, "fit": "longer", "rounding": "half_even"}, (427, 640), (427, 640)),
    ({"size": 100, "fit": "longer"}, (427, 640), (66, 100)),
    ({"size": 100, "fit": "longer"}, (640, 427), (100, 66)),
    ({"size": 8, "fit": "stretch"}, (3, 90), (8, 8)),
    ({"size": 8, "fit": "longer"}, (1, 90), (1, 8)),  # not 0
    ({"size": (60, 50), "fit": "inside"}, (100, 100), (50, 50)),
    ({"size": (60, 500), "fit": "inside"}, (100, 100), (60, 60)),
    ({"size": (60, 50)}, (100, 100), (60, 50)),
]


@pytest.mark.parametrize(("params", "given", "wanted"), SIZES)
@pytest.mark.parametrize("library", ["pillow", "opencv"])
def test_the_size_of_a_resized_picture(
    params: dict[str, Any], given: tuple[int, int], wanted: tuple[int, int], library: str
) -> None:
    assert run("resize", noise(*given), library=library, **params).shape == (*wanted, 3)
    promised = step("resize", **params).flow(Value(IMAGE, "uint8", (*given, 1)))
    assert promised == (Value(IMAGE, "uint8", (*wanted, 1), RANGE),)


def test_a_grey_picture_is_resized_as_pillow_does() -> None:
    grey = noise(20, 31, 1)
    by_hand = Image.fromarray(grey[:, :, 0]).resize((7, 9), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(
        run("resize", grey, size=(9, 7), filter="bicubic"), np.asarray(by_hand)[:, :, np.newaxis]
    )


def test_halving_is_opencvs_mean_of_four() -> None:
    found = run("resize", np.array([[[1], [2]], [[2], [2]]], np.uint8), size=(1, 1), library="opencv")
    assert found.tolist() == [[[2]]]  # 7 / 4, half up


@pytest.mark.parametrize("given", [(1, 1), (1, 7), (3, 1)])
@pytest.mark.parametrize("filter", ["nearest", "bilinear"])
def test_one_row_or_column_is_resized_to_itself(given: tuple[int, int], filter: str) -> None:
    pixels = np.full((*given, 3), 77, np.uint8)
    found = run("resize", pixels, size=(5, 6), library="opencv", filter=filter)
    assert np.abs(found.astype(int) - 77).max() <= 1  # the fixed-point weights lose up to one


def test_opencvs_bilinear_is_near_the_exact_one() -> None:
    """Half-pixel centres, no antialias: what PyTorch computes in floats."""
    import torch

    pixels = noise(37, 53)
    exact = torch.nn.functional.interpolate(
        torch.from_numpy(pixels).permute(2, 0, 1)[None].float(), (20, 80), mode="bilinear", align_corners=False
    )
    found = run("resize", pixels, size=(20, 80), library="opencv")
    assert np.abs(found - exact[0].permute(1, 2, 0).numpy()).max() < 1


@pytest.mark.parametrize(
    ("params", "given", "wanted", "place"),
    [
        ({"size": 8}, (5, 6), (8, 8), (1, 1)),
        ({"size": 8, "odd": "start"}, (5, 6), (8, 8), (2, 1)),
        ({"size": 8, "where": "end"}, (5, 6), (8, 8), (0, 0)),
        ({"size": (5, 9), "where": "start"}, (5, 6), (5, 9), (0, 3)),
        ({"square": True}, (5, 6), (6, 6), (0, 0)),
        ({"multiple_of": 4}, (5, 8), (8, 8), (1, 0)),
    ],
)
def test_pad(params: dict[str, Any], given: tuple[int, int], wanted: tuple[int, int], place: tuple[int, int]) -> None:
    pixels = noise(*given) | 1
    found = run("pad", pixels, fill=(0, 2, 4), **params)
    assert found.shape == (*wanted, 3)
    top, left = place
    np.testing.assert_array_equal(found[top : top + given[0], left : left + given[1]], pixels)
    assert (found == [0, 2, 4]).all(2).sum() == wanted[0] * wanted[1] - given[0] * given[1]
    promised = step("pad", **params).flow(Value(IMAGE, "uint8", (*given, 3)))
    assert promised == (Value(IMAGE, "uint8", (*wanted, 3), RANGE),)


def test_crop() -> None:
    pixels = noise(20, 30)
    box = {"top": 2, "left": 3, "height": 4, "width": 5}
    np.testing.assert_array_equal(run("crop", pixels, **box), pixels[2:6, 3:8])
    np.testing.assert_array_equal(run("crop", Picture(Image.fromarray(pixels)), **box), pixels[2:6, 3:8])
    with pytest.raises(RequestError, match="a picture of 7 x 6 pixels; expected at least 8 x 6"):
        run("crop", noise(6, 7), **box)


def test_grey_by_each_rule() -> None:
    pixels = noise(50, 60)
    np.testing.assert_array_equal(
        run("channels", pixels, to="grey")[:, :, 0], np.asarray(Image.fromarray(pixels).convert("L"))
    )
    # what opencv-python 4.11 gave for the first three, as for two million other pixels
    few = (np.arange(9).reshape(1, 3, 3) * 37 % 256).astype(np.uint8)
    assert run("channels", few, to="grey", rounding="opencv").tolist() == [[[30], [141], [73]]]
    floats = run("channels", few.astype(np.float32).transpose(2, 0, 1), to="grey", layout="chw")
    np.testing.assert_allclose(floats, [[[30.155, 141.155, 72.699]]], atol=1e-3)
    assert floats.dtype == np.float32
    white = np.full((1, 1, 3), 255, np.uint8)
    assert (
        run("channels", white, to="grey").item() == run("channels", white, to="grey", rounding="opencv").item() == 255
    )


def test_grey_to_three_channels() -> None:
    assert run("channels", np.array([[[7]]], np.uint8), to="rgb").tolist() == [[[7, 7, 7]]]


def test_a_picture_in_pillows_form_is_the_array_it_stands_for() -> None:
    for channels, mode in ((3, "RGB"), (1, "L")):
        pixels = noise(4, 5, channels)
        made = Picture(Image.fromarray(pixels if channels == 3 else pixels[:, :, 0]))
        assert made.image.mode == mode
        assert (made.shape, made.dtype, made.ndim, made.size) == (pixels.shape, pixels.dtype, 3, pixels.size)
        np.testing.assert_array_equal(np.asarray(made), pixels)
        np.testing.assert_array_equal(made[1:, :2], pixels[1:, :2])


CHAINS: list[list[dict[str, Any]]] = [
    [{"use": "center_crop", "size": 16}, {"use": "pad", "size": 20, "fill": 114}, {"use": "scale", "factor": 1 / 255}],
    [{"use": "crop", "top": 1, "left": 1, "height": 9, "width": 8}, {"use": "channels", "to": "bgr"}],
    [{"use": "channels", "to": "grey"}, {"use": "resize", "size": [7, 9]}, {"use": "normalize", "mean": 30, "std": 77}],
    [{"use": "normalize", "mean": [1, 20, 250], "std": [0.3, 20, 57.3]}, {"use": "layout", "to": "chw"}],
    [{"use": "scale", "factor": -1 / 127.5, "offset": 1}, {"use": "layout", "to": "chw"}],
    [
        {"use": "resize", "size": 17, "library": "opencv"},
        {"use": "channels", "to": "grey"},
        {"use": "layout", "to": "chw"},
    ],
]


@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: "-".join(use["use"] for use in chain))
@pytest.mark.parametrize("level", [0, 255, None])
def test_what_a_step_promises_holds(chain: list[dict[str, Any]], level: int | None) -> None:
    """To the last bit at both ends: the door refuses what lies outside."""
    pixels = noise(24, 28) if level is None else np.full((24, 28, 3), level, np.uint8)
    value, types, found = pixels, Value(IMAGE, "uint8", (24, 28, 3), RANGE), [pixels]
    for use in chain:
        made = step(use["use"], **{k: tuple(v) if isinstance(v, list) else v for k, v in use.items() if k != "use"})
        (types,) = made.flow(types)
        value = made.open()(value)
        found.append(np.asarray(value))
        assert (found[-1].dtype.name, found[-1].shape) == (types.dtype, types.shape)
        assert types.range is not None
        assert types.range[0] <= found[-1].min()
        assert found[-1].max() <= types.range[1]
    assert all(before is not after for before, after in pairwise(found))


FLOWS: list[tuple[str, dict[str, Any], Value, Value]] = [
    ("decode", {"color": "grey"}, Value("image bytes"), Value(IMAGE, "uint8", (None, None, 1), RANGE)),
    ("resize", {"size": 8, "fit": "stretch"}, PICTURE, Value(IMAGE, "uint8", (8, 8, 3), RANGE)),
    ("resize", {"size": (8, 9), "fit": "inside"}, PICTURE, PICTURE),
    ("resize", {"size": (8, 9)}, Value(ANY), Value(IMAGE, "uint8", (8, 9, None), RANGE)),
    ("center_crop", {"fraction": 0.5}, Value(IMAGE, "uint8", (10, 20, 3)), Value(IMAGE, "uint8", (5, 5, 3), RANGE)),
    ("pad", {"multiple_of": 32}, PICTURE, PICTURE),
    ("channels", {"to": "bgr"}, PICTURE, Value(TENSOR, "uint8", (None, None, 3), RANGE)),
    ("channels", {"to": "grey"}, PICTURE, Value(IMAGE, "uint8", (None, None, 1), RANGE)),
    ("scale", {"factor": 1 / 255}, PICTURE, Value(TENSOR, "float32", (None, None, 3), (0.0, 1.0))),
    ("scale", {"factor": -2.0}, Value(TENSOR, "float32", (3,)), Value(TENSOR, "float32", (3,))),
]


@pytest.mark.parametrize(("name", "params", "given", "gives"), FLOWS)
def test_flow(name: str, params: dict[str, Any], given: Value, gives: Value) -> None:
    assert step(name, **params).flow(given) == (gives,)


MISFITS: list[tuple[str, dict[str, Any], Value, str]] = [
    (
        "resize",
        {"size": 8, "fit": "inside"},
        PICTURE,
        "fit is inside; with one number as size it is shorter or longer or",
    ),
    ("resize", {"size": (8, 8), "fit": "longer"}, PICTURE, r"with \[height, width\] as size it is stretch or inside"),
    ("pad", {}, PICTURE, "takes one of size, square and multiple_of"),
    ("pad", {"size": 8, "square": True}, PICTURE, "takes one of size, square and multiple_of"),
    ("pad", {"multiple_of": 0}, PICTURE, "multiple_of is 0; at least 1"),
    ("pad", {"square": True, "fill": 256}, PICTURE, "fill is from 0 to 255"),
    ("pad", {"square": True, "fill": (1, 2)}, PICTURE, "fill has 2 numbers for 3 channels"),
    ("pad", {"size": 8}, Value(IMAGE, "uint8", (9, 5, 3)), "the picture's height 9 is above the padded height 8"),
    ("crop", {"top": -1, "left": 0, "height": 1, "width": 1}, PICTURE, "top and left are at least 0"),
    (
        "crop",
        {"top": 3, "left": 0, "height": 6, "width": 1},
        Value(IMAGE, "uint8", (8, 5, 3)),
        "the box ends at 9, the",
    ),
    ("channels", {"to": "rgb"}, PICTURE, r"rgb is made of 1 channels, not 3 \(hwc\)"),
    ("channels", {"to": "grey", "weights": (1.0, 1.0, 1.0)}, PICTURE, "at least 0, with the sum 1"),
    ("channels", {"to": "bgr", "layout": "chw"}, PICTURE, "a picture is hwc, not chw"),
]


@pytest.mark.parametrize(("name", "params", "given", "message"), MISFITS)
def test_what_does_not_fit(name: str, params: dict[str, Any], given: Value, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        step(name, **params).flow(given)


REFUSED: list[tuple[str, dict[str, Any], Any, str]] = [
    ("pad", {"size": 8}, noise(9, 5), "a picture of 5 x 9 pixels; expected at most 8 x 8"),
    ("pad", {"square": True, "fill": (1, 2, 3)}, noise(2, 2, 1), "a picture of 1 channels; expected 3, as `fill` has"),
    ("pad", {"multiple_of": 10_000}, noise(1, 1), "at most 89478485 pixels after padding"),
    ("resize", {"size": 8}, noise(0, 5), "a picture of 5 x 0 pixels; expected a picture with pixels"),
    ("channels", {"to": "grey"}, noise(2, 2, 1), r"shape \[2, 2, 1\]; expected 3 channels, layout hwc"),
]


@pytest.mark.parametrize(("name", "params", "given", "message"), REFUSED)
def test_what_is_refused_when_running(name: str, params: dict[str, Any], given: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        run(name, given, **params)
