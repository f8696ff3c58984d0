"""The rule after the model. It travels in the bundle, so numpy is all it needs."""

from __future__ import annotations

import numpy as np

THRESHOLD = np.float32(0.7)  # what MTCNN accepts from its last stage


def decide(shares: np.ndarray) -> tuple[str, np.ndarray]:
    """`shares`: float32 [2], of no face and of face. Gives the label, a text, and the probability of a face, float32 []."""
    probability = shares[1]
    return "face" if probability >= THRESHOLD else "background", probability
