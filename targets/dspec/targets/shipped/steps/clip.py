"""clip: bounds for values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ..per_column import check_per_column, several
from ..step import TENSOR, RequestError, Value, accept


@dataclass(frozen=True, kw_only=True)
class Clip:
    """Set what is below `low` to `low` and what is above `high` to `high`; floats, dtype unchanged.

    Columns are the last axis. NaN stays NaN.

    Attributes:
        low: one number for all columns, or one per column; absent: no bound below.
        high: likewise, above.
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host", "graph")
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    low: float | tuple[float, ...] | None = None
    high: float | tuple[float, ...] | None = None

    def flow(self, value: Value) -> tuple[Value, ...]:
        accept(value, TENSOR)
        if self.low is None and self.high is None:
            raise ValueError("takes low, high or both")
        if value.dtype is not None and "float" not in value.dtype:
            raise ValueError(f"takes floats, not {value.dtype}")
        low, high = self._bounds()
        if not all(map(math.isfinite, low + high)):
            raise ValueError("low and high are finite numbers")
        check_per_column(value, low=self.low, high=self.high)
        width = max(len(low), len(high))
        if low and high and any(low[at % len(low)] > high[at % len(high)] for at in range(width)):
            raise ValueError("low is above high")
        return (Value(TENSOR, value.dtype, value.shape, self._range(value.range, low, high)),)

    def _bounds(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        low = () if self.low is None else several(self.low)
        return low, () if self.high is None else several(self.high)

    def _range(
        self, found: tuple[float, float] | None, low: tuple[float, ...], high: tuple[float, ...]
    ) -> tuple[float, float] | None:
        least, most = found or (-math.inf, math.inf)
        least = max(least, min(low)) if low else least
        most = min(most, max(high)) if high else most
        return (least, most) if math.isfinite(least) and math.isfinite(most) and least <= most else None

    def open(self) -> Callable[[Any], Any]:
        import numpy as np

        bounds = self._bounds()
        count = max(map(len, bounds))
        least, most = (np.array(bound if len(bound) > 1 else bound[0]) if bound else None for bound in bounds)

        def clip(value: Any) -> Any:
            if value.dtype.kind != "f":
                raise RequestError("", f"an array of dtype {value.dtype}", "floats")
            if count > 1 and value.shape[-1:] != (count,):
                raise RequestError("", f"shape {list(value.shape)}", f"{count} columns")
            low, high = (bound if bound is None else bound.astype(value.dtype) for bound in (least, most))
            return np.clip(value, low, high)

        return clip


STEP = Clip
