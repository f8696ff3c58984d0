"""unit_variance: mean 0 and deviation 1 along the last axis."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..step import TENSOR, RequestError, Value, accept

LEAST_FLOOR = 1e-15  # float32 holds its square


@dataclass(frozen=True, kw_only=True)
class UnitVariance:
    """Subtract the mean of the last axis, then divide by its standard deviation; gives float32.

    Any shape; each row (a frame, a whole sound) is taken by itself. The mean is summed in
    float64, the rest runs in float32.

    Attributes:
        deviation: `population` divides the squares by n, `sample` by n - 1 (torch.std's default).
        floor: the least deviation to divide by, so that silence stays silence; at least 1e-15.
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host", "graph")
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    deviation: Literal["population", "sample"] = "population"
    floor: float = 1e-8

    def flow(self, value: Value) -> tuple[Value, ...]:
        accept(value, TENSOR)
        if not LEAST_FLOOR <= self.floor < math.inf:
            raise ValueError(f"floor is {self.floor}; at least {LEAST_FLOOR}")
        if value.shape == ():
            raise ValueError("takes an array with an axis, not a single number")
        count = value.shape[-1] if value.shape else None
        # The farthest value there can be: all others equal. It is (n - 1) / sqrt(n) at most.
        most = math.sqrt(count) if isinstance(count, int) and count else None
        return (Value(TENSOR, "float32", value.shape, None if most is None else (-most, most)),)

    def open(self) -> Callable[[Any], Any]:
        import numpy as np

        floor = np.float32(self.floor)
        least = 2 if self.deviation == "sample" else 1

        def unit_variance(value: Any) -> Any:
            if value.ndim < 1 or value.shape[-1] < least:
                raise RequestError("", f"shape {list(value.shape)}", f"a last axis of {least} or more")
            count = value.shape[-1] - (least - 1)
            # In float32 the mean of a constant row leaves a rest, which division by a small floor makes large.
            mean = value.mean(axis=-1, keepdims=True, dtype=np.float64)
            with np.errstate(over="ignore"):
                centred = np.subtract(value, mean.astype(np.float32), dtype=np.float32)
                centred -= centred.mean(axis=-1, keepdims=True)  # what rounding the mean to float32 left
                deviation = np.sqrt(np.vecdot(centred, centred) / np.float32(count))
            if not np.isfinite(deviation).all():
                raise RequestError("", "numbers whose squares are beyond float32", "numbers below 1e18")
            centred /= np.maximum(deviation, floor)[..., np.newaxis]
            return centred

        return unit_variance


STEP = UnitVariance
