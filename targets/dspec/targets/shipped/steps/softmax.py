"""softmax: scores → shares that sum to 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ..step import TENSOR, Value, accept


@dataclass(frozen=True, kw_only=True)
class Softmax:
    """Turn scores (logits) into probabilities that sum to 1 along an axis; gives float32.

    Computed in float32 after the greatest score was subtracted, so that none is too large. A NaN makes its row NaN.

    Attributes:
        axis: which axis sums to 1, counted from the end where negative.
        temperature: what the scores are divided by first; above 0.
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host", "graph")
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    axis: int = -1
    temperature: float = 1.0

    def flow(self, value: Value) -> tuple[Value, ...]:
        accept(value, TENSOR)
        if not 1e-6 <= self.temperature <= 1e6:
            raise ValueError(f"temperature is {self.temperature}; from 1e-6 to 1e6")
        if value.shape is not None and not -len(value.shape) <= self.axis < len(value.shape):
            raise ValueError(f"axis is {self.axis}; there are {len(value.shape)} axes")
        return (Value(TENSOR, "float32", value.shape, (0.0, 1.0)),)

    def open(self) -> Callable[[Any], Any]:
        import numpy as np

        def softmax(scores: Any) -> Any:
            shares = np.array(scores, np.float32)
            with np.errstate(invalid="ignore"):  # inf - inf
                shares -= shares.max(axis=self.axis, keepdims=True)
            if self.temperature != 1:
                shares /= np.float32(self.temperature)
            np.exp(shares, out=shares)
            shares /= shares.sum(axis=self.axis, keepdims=True)
            return shares

        return softmax


STEP = Softmax
