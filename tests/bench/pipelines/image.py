"""Photographs: as for EfficientNet, for torchvision's models, for YOLO, and for a grey 28 x 28."""

from __future__ import annotations

import functools
import io
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from dspec.targets.shipped.pipeline import Pipeline

PHOTO = Path(__file__).parents[3] / "examples/efficientnet_lite0/fixtures/china.jpg"
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
ONE = np.float32(1 / 255)
Tensors = Mapping[str, Any]


def cases() -> Iterator[tuple[str, Callable[[], Tensors], Callable[[], Tensors]]]:
    photo = Image.open(PHOTO)
    pictures = {
        f"JPEG {photo.width} x {photo.height}": PHOTO.read_bytes(),
        "JPEG 4000 x 3000": _encoded(photo.resize((4000, 3000)), "JPEG", quality=90),
        "PNG 512 x 512": _encoded(photo.resize((512, 512)), "PNG"),
        "JPEG 160 x 120": _encoded(photo.resize((160, 120)), "JPEG", quality=85),
    }
    for kind, (steps, shape, by_hand) in KINDS.items():
        pipeline = _pipeline(steps, shape)
        for name, data in pictures.items():
            request = {"image": data}
            yield f"{kind}, {name}", functools.partial(pipeline.before, request), functools.partial(by_hand, data)


def _efficientnet(data: bytes) -> Tensors:
    picture = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    side = int(0.875 * min(picture.size))
    left, top = (picture.width - side + 1) // 2, (picture.height - side + 1) // 2
    picture = picture.crop((left, top, left + side, top + side)).resize((224, 224), Image.Resampling.BICUBIC)
    pixels = (np.asarray(picture, dtype=np.float32) - 127) / 128
    return {"pixels": np.ascontiguousarray(pixels.transpose(2, 0, 1))[np.newaxis]}


def _torchvision(data: bytes) -> Tensors:
    picture = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    width, height = picture.size
    size = (256, 256 * height // width) if width <= height else (256 * width // height, 256)
    picture = picture.resize(size, Image.Resampling.BILINEAR)
    left, top = round((picture.width - 224) / 2), round((picture.height - 224) / 2)
    picture = picture.crop((left, top, left + 224, top + 224))
    pixels: Any = np.asarray(picture, dtype=np.float32) * ONE
    pixels = (pixels - np.array(MEAN, np.float32)) / np.array(STD, np.float32)
    return {"pixels": np.ascontiguousarray(pixels.transpose(2, 0, 1))[np.newaxis]}


def _letterbox(data: bytes) -> Tensors:
    picture = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    share = min(640 / picture.width, 640 / picture.height)
    width, height = round(picture.width * share), round(picture.height * share)
    ground = Image.new("RGB", (640, 640), (114, 114, 114))
    ground.paste(picture.resize((width, height), Image.Resampling.BILINEAR), ((640 - width) // 2, (640 - height) // 2))
    pixels = np.asarray(ground, dtype=np.float32) * ONE
    return {"pixels": np.ascontiguousarray(pixels.transpose(2, 0, 1))[np.newaxis]}


def _digit(data: bytes) -> Tensors:
    picture = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("L")
    pixels = np.asarray(picture.resize((28, 28), Image.Resampling.BILINEAR), dtype=np.float32) * ONE
    return {"pixels": pixels[np.newaxis, np.newaxis]}


Chain = list[dict[str, Any]]
KINDS: dict[str, tuple[Chain, list[int], Callable[[bytes], Tensors]]] = {
    "EfficientNet": (
        [
            {"use": "decode"},
            {"use": "center_crop", "fraction": 0.875, "offset": "half_up"},
            {"use": "resize", "size": [224, 224], "filter": "bicubic"},
            {"use": "normalize", "mean": 127, "std": 128},
            {"use": "layout", "to": "chw"},
        ],
        [3, 224, 224],
        _efficientnet,
    ),
    "torchvision": (
        [
            {"use": "decode"},
            {"use": "resize", "size": 256},
            {"use": "center_crop", "size": 224},
            {"use": "scale", "factor": 1 / 255},
            {"use": "normalize", "mean": MEAN, "std": STD},
            {"use": "layout", "to": "chw"},
        ],
        [3, 224, 224],
        _torchvision,
    ),
    "YOLO": (
        [
            {"use": "decode"},
            {"use": "resize", "size": [640, 640], "fit": "inside", "rounding": "half_even"},
            {"use": "pad", "size": 640, "fill": 114},
            {"use": "scale", "factor": 1 / 255},
            {"use": "layout", "to": "chw"},
        ],
        [3, 640, 640],
        _letterbox,
    ),
    "grey": (
        [
            {"use": "decode", "color": "grey"},
            {"use": "resize", "size": [28, 28]},
            {"use": "scale", "factor": 1 / 255},
            {"use": "layout", "to": "chw"},
        ],
        [1, 28, 28],
        _digit,
    ),
}


def _pipeline(steps: Chain, shape: list[int]) -> Pipeline:
    """The pipeline folder that a build would write, loaded as a bundle loads it."""
    names = ["image", *(f"v{at}" for at in range(1, len(steps))), "pixels"]
    before = [
        {
            "id": f"s{at}",
            "use": step["use"],
            "params": {k: v for k, v in step.items() if k != "use"},
            "in": [names[at]],
            "out": [names[at + 1]],
        }
        for at, step in enumerate(steps)
    ]
    declared = {
        "request": {"image": {"type": "image", "max_bytes": 20_000_000}},
        "before": before,
        "inputs": {"pixels": {"dtype": "float32", "shape": ["batch", *shape], "range": [-3, 3]}},
        "outputs": {},
        "dims": {"batch": {"min": 1, "max": 8, "multiple_of": 1}},
        "batch": "batch",
        "after": [],
        "response": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "pipeline.json").write_text(json.dumps(declared))
        return Pipeline.load(Path(folder))


def _encoded(picture: Image.Image, form: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, form, **options)
    return stream.getvalue()
