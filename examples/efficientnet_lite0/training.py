"""How the training job made model inputs, and answers: EfficientNet's published evaluation preprocessing.

In Pillow and numpy, after tensorflow/tpu, models/official/efficientnet/preprocessing.py:
crop the middle, then resize by bicubic interpolation.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping

import numpy as np
from PIL import Image

SIZE = 224
PADDING = 32  # the crop leaves out 32 of 256 pixels
MEAN, STDDEV = 127.0, 128.0


def preprocess(request: Mapping[str, bytes]) -> Iterator[tuple[str, np.ndarray]]:
    """`{"image": encoded bytes}` → what each step of deploy.yaml stands for, by its id.

    The last, `planes`, is the model's input: float32 [3, 224, 224]. A job that can't be cut into steps returns
    `{"pixels": …}` instead; then dspec can name the tensor that differs, and no step.
    """
    with Image.open(io.BytesIO(request["image"])) as opened:
        photo = opened.convert("RGB")
    yield "photo", np.asarray(photo)
    side = int(SIZE / (SIZE + PADDING) * min(photo.size))
    left, top = ((full - side + 1) // 2 for full in photo.size)
    crop = photo.crop((left, top, left + side, top + side))
    yield "crop", np.asarray(crop)
    small = np.asarray(crop.resize((SIZE, SIZE), Image.Resampling.BICUBIC))
    yield "small", small
    normal = (small.astype(np.float32) - MEAN) / STDDEV
    yield "normal", normal
    yield "planes", normal.transpose(2, 0, 1)


def postprocess(outputs: Mapping[str, np.ndarray]) -> dict[str, list[float]]:
    """`logits` [1000] → the five best classes and their probabilities."""
    logits = outputs["logits"].astype(np.float64)
    weights = np.exp(logits - logits.max())
    best = np.argsort(-logits, kind="stable")[:5]
    return {"classes": best.tolist(), "probabilities": (weights[best] / weights.sum()).tolist()}
