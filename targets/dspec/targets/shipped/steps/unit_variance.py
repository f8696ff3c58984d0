"""unit_variance: mean 0 and deviation 1 along the last axis."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..step import TENSOR, RequestError, Value, accept


@dataclass(frozen=True, kw_only=True)
class UnitVariance:
    """Subtract the mean of the last axis, then divide by its standard deviation; gives float32.

    Any shape; each row (a frame, a whole sound) is taken by itself. Sums run in float64, the
    division in float32.

    Attributes:
        deviation: `population` divides the squares by n, `sample` by n - 1 (torch.std's default).
        floor: the least deviation to divide by, so that silence stays silence; above 0.
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host",)
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    deviation: Literal["population", "sample"] = "population"
    floor: float = 1e-8

    def flow(self, value: Value) -> tuple[Value, ...]:
        accept(value, TENSOR)
        if not 0 < self.floor < math.inf:
            raise ValueError(f"floor is {self.floor}; above 0")
        if value.shape == ():
            raise ValueError("takes an array with an axis, not a single number")
        count = value.shape[-1] if value.shape else None
        # The farthest value there can be: all others equal. It is (n - 1) / sqrt(n) at most.
        most = math.sqrt(count) if isinstance(count, int) and count else None
        return (Value(TENSOR, "float32", value.shape, None if most is None else (-most, most)),)

    def open(self) -> Callable[[Any], Any]:
        import numpy as np

        least = 2 if self.deviation == "sample" else 1

        def unit_variance(value: Any) -> Any:
            if value.ndim < 1 or value.shape[-1] < least:
                raise RequestError("", f"shape {list(value.shape)}", f"a last axis of {least} or more")
            count = value.shape[-1] - (least - 1)
            # The mean in float32 would leave a constant row a rest, which a small floor makes large.
            centred = (value - value.mean(axis=-1, keepdims=True, dtype=np.float64)).astype(np.float32)
            squares = np.einsum("...i,...i->...", centred, centred, dtype=np.float64)
            centred /= np.maximum(np.sqrt(squares / count), self.floor).astype(np.float32)[..., np.newaxis]
            return centred

        return unit_variance


STEP = UnitVariance
