"""OpenCV's resizing of uint8 pictures, without OpenCV: nearest and bilinear, bit for bit.

After modules/imgproc/src/resize.cpp of OpenCV 4: `resizeNN`, and the fixed-point `HResizeLinear` and `VResizeLinear`
(11 bits per weight). Held against opencv-python 4.11 and 5.0 on pictures of random sizes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

ONE = np.float32(2048)


def nearest(array: Any, height: int, width: int) -> Any:
    """INTER_NEAREST: the source pixel at floor(target x scale), which is not the nearest one (Pillow's is)."""
    rows, columns = (_floors(old, new) for old, new in zip(array.shape, (height, width), strict=False))
    return array[rows[:, np.newaxis], columns]


def bilinear(array: Any, height: int, width: int) -> Any:
    """INTER_LINEAR: the two by two pixels around each point; no antialias, so most pixels of a large picture don't count."""
    if array.shape[:2] == (2 * height, 2 * width):  # OpenCV takes the mean of four there
        quads = array.astype(np.int32).reshape(height, 2, width, 2, -1)
        halved: Any = ((quads.sum((1, 3)) + 2) >> 2).astype(np.uint8)
        return halved
    upper, lower, above, below = _weights(array.shape[0], height, edge=False)
    left, right, before, after = _weights(array.shape[1], width, edge=True)

    def line(rows: Any) -> Any:
        taken = array[rows]
        sides = taken[:, left] * before[:, np.newaxis] + taken[:, right] * after[:, np.newaxis]
        return sides >> 4

    parts = (weight[:, np.newaxis, np.newaxis] * line(rows) >> 16 for weight, rows in ((above, upper), (below, lower)))
    return ((sum(parts) + 2) >> 2).clip(0, 255).astype(np.uint8)


def _floors(old: int, new: int) -> Any:
    return np.minimum(np.floor(np.arange(new) * (1.0 / (new / old))).astype(np.intp), old - 1)


def _weights(old: int, new: int, *, edge: bool) -> tuple[Any, Any, Any, Any]:
    """(first pixel, second, weight of the first, of the second); `edge`: beyond the edge one pixel has all the weight."""
    points = ((np.arange(new) + 0.5) * (1.0 / (new / old)) - 0.5).astype(np.float32)
    first = np.floor(points).astype(np.intp)
    share = (points - first).astype(np.float32)
    if edge:
        share[(first < 0) | (first >= old - 1)] = 0
    weights = (np.rint(part * ONE).astype(np.int32) for part in (np.float32(1) - share, share))
    return (np.clip(first, 0, old - 1), np.clip(first + 1, 0, old - 1), *weights)
