"""sigmoid: each score → a probability of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ..step import TENSOR, Value, accept


@dataclass(frozen=True, kw_only=True)
class Sigmoid:
    """Turn each score (logit) into a probability of its own, 1 / (1 + exp(−score)); gives float32.

    Computed in float32 by the form that is exact on the score's side of 0. NaN stays NaN.
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host", "graph")
    requires: ClassVar[tuple[str, ...]] = ("numpy",)

    def flow(self, value: Value) -> tuple[Value, ...]:
        accept(value, TENSOR)
        return (Value(TENSOR, "float32", value.shape, (0.0, 1.0)),)

    def open(self) -> Callable[[Any], Any]:
        import numpy as np

        def sigmoid(scores: Any) -> Any:
            given = np.asarray(scores, np.float32)
            small = np.exp(-np.abs(given))
            return np.where(given >= 0, np.float32(1), small) / (1 + small)

        return sigmoid


STEP = Sigmoid
