"""The step of our own after the model. It travels in the bundle, so numpy is all it needs."""

from __future__ import annotations

import numpy as np


def top5(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`logits`: float32 [1000]. Gives classes, int64 [5], and probabilities, float32 [5]."""
    # Stable: of two equal logits the lower class number wins, on every machine.
    best = np.argsort(-logits, kind="stable")[:5]
    weights = np.exp(logits - logits.max())
    return best.astype(np.int64), (weights[best] / weights.sum()).astype(np.float32)
