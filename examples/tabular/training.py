"""How the training job made model inputs and read answers, written without the bundle's steps.

`train.py` trains with this very function; the skew gate holds the steps of deploy.yaml against it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

MEASUREMENTS = (
    "alcohol", "malic_acid", "ash", "alcalinity_of_ash", "magnesium", "total_phenols", "flavanoids",
    "nonflavanoid_phenols", "proanthocyanins", "hue", "od280_od315", "proline",
)  # fmt: skip
COLOURS = ("pale", "medium", "deep")
CULTIVATORS = ("class_0", "class_1", "class_2")  # scikit-learn's names


@cache
def statistics() -> dict[str, Any]:
    """Mean, deviation and median of each measurement over the training rows: what `train.py` wrote."""
    found: dict[str, Any] = json.loads((Path(__file__).parent / "statistics.json").read_text("utf-8"))
    return found


def features(wine: Mapping[str, Any], of: Mapping[str, Any]) -> np.ndarray:
    """One wine → float32 [16]; a measurement that is missing takes the median of the training rows."""
    known = [wine.get(name) for name in MEASUREMENTS]
    filled = [of["median"][name] if value is None else value for name, value in zip(MEASUREMENTS, known, strict=True)]
    scaled = (np.array(filled) - np.array(of["mean"])) / np.array(of["std"])
    colour = wine.get("colour")
    hot = [float(colour == name) for name in COLOURS] + [float(colour not in COLOURS)]
    return np.concatenate([scaled, hot]).astype(np.float32)


def preprocess(request: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """`{"wine": {column: value}}` → `features`: float32 [16]."""
    return {"features": features(request["wine"], statistics())}


def postprocess(outputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """`logits` [3] → whose wine it is, and how likely each is, best first."""
    logits = outputs["logits"].astype(np.float64)
    shares = np.exp(logits - logits.max())
    shares /= shares.sum()
    order = np.argsort(-shares, kind="stable")
    return {
        "cultivator": CULTIVATORS[int(order[0])],
        "ranking": [{"label": CULTIVATORS[at], "index": int(at), "score": np.float32(shares[at])} for at in order],
    }
