"""The step of our own after the model. It travels in the bundle, so numpy is all it needs."""

from __future__ import annotations

import numpy as np

BINS = 360
CENTS = 1997.3794084376191 + 20 * np.arange(BINS)  # of each bin, above 10 Hz
NEAR = 4  # bins on either side of the best that count
VOICED = 0.5  # a frame below that has no pitch


def pitch(salience: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """`salience`: float32 [frames, 360], 0 to 1.

    Gives the pitch of the whole sound in Hz (the median of its frames that have one; 0.0: none has), of
    each frame in Hz, float32 [frames], and how sure each is: the salience of its best bin, float32 [frames].
    """
    best = salience.argmax(axis=1)
    near = np.abs(np.arange(BINS) - best[:, None]) <= NEAR
    weights = np.where(near, salience, 0).astype(np.float64)
    hertz = 10 * 2 ** (weights @ CENTS / np.maximum(weights.sum(axis=1), 1e-12) / 1200)
    confidence = salience.max(axis=1)
    voiced = hertz[confidence >= VOICED]
    whole = float(np.median(voiced)) if voiced.size else 0.0
    return whole, hertz.astype(np.float32), confidence
