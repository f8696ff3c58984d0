"""Arrays for twins and steps: floats around 0, bytes for whole numbers; the same seed gives the same array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

Array = np.ndarray[Any, Any]


@pytest.fixture
def drawn() -> Callable[[str, list[int], int, int], Array]:
    """(dtype, shape of one item, count of items, seed) → an array with the items in front."""

    def draw(dtype: str, shape: list[int], count: int, seed: int) -> Array:
        numbers = np.random.default_rng(seed)
        if dtype.startswith("float"):
            return numbers.normal(0, 4, (count, *shape)).astype(dtype)
        return numbers.integers(0, 256, (count, *shape)).astype(dtype)

    return draw
