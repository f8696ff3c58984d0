"""How the training job made model inputs and read answers, written without the bundle's steps."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image

SIDE = 48
THRESHOLD = 0.7  # the third of MTCNN's thresholds 0.6, 0.7, 0.7


def preprocess(request: Mapping[str, bytes]) -> dict[str, np.ndarray]:
    """`{"image": encoded bytes}` → `pixels`: float32 [3, 48, 48]."""
    with Image.open(io.BytesIO(request["image"])) as opened:
        window = opened.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    planes = np.stack([np.asarray(plane, dtype=np.float32) for plane in window.split()])
    return {"pixels": (planes - 127.5) / 128}


def postprocess(outputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """`logits` [2] → whether it is a face, and how likely."""
    none, face = outputs["logits"].astype(np.float64)
    probability = 1 / (1 + np.exp(none - face))
    return {
        "label": "face" if probability >= THRESHOLD else "background",
        "probability": np.float32(probability),
        "box": outputs["box"],
    }
