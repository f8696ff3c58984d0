"""standardize: each column by its own mean and deviation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ..per_column import check_per_column, several
from ..step import TENSOR, RequestError, Value, accept


@dataclass(frozen=True, kw_only=True)
class Standardize:
    """Subtract each column's mean and divide by its standard deviation; gives float32.

    Columns are the last axis. Computed in float64 and rounded once: a float32 can't tell seconds of this century
    apart. NaN stays NaN.

    Attributes:
        mean: one number for all columns, or one per column.
        std: likewise; above 0.
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host", "graph")
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    mean: float | tuple[float, ...]
    std: float | tuple[float, ...]

    def flow(self, value: Value) -> tuple[Value, ...]:
        accept(value, TENSOR)
        mean, std = several(self.mean), several(self.std)
        if not mean or not std or not all(map(math.isfinite, mean + std)) or min(std) <= 0:
            raise ValueError("mean and std are finite numbers, std above 0")
        check_per_column(value, mean=self.mean, std=self.std)
        return (Value(TENSOR, "float32", value.shape, self._range(value.range, mean, std)),)

    def _range(self, found: tuple[float, float] | None, mean: Any, std: Any) -> tuple[float, float] | None:
        if found is None:
            return None
        width = max(len(mean), len(std))
        ends = [(end - mean[at % len(mean)]) / std[at % len(std)] for at in range(width) for end in found]
        return (min(ends), max(ends))

    def open(self) -> Callable[[Any], Any]:
        import numpy as np

        from ..arrays import within

        mean, std = np.asarray(self.mean, np.float64), np.asarray(self.std, np.float64)
        count, most = max(mean.size, std.size), float(np.finfo(np.float32).max)

        def standardize(value: Any) -> Any:
            if count > 1 and value.shape[-1:] != (count,):
                raise RequestError("", f"shape {list(value.shape)}", f"{count} columns")
            exact = (value - mean) / std
            return exact.astype(np.float32) if exact.size and within(exact, -most, most) else rounded(exact)

        def rounded(exact: Any) -> Any:
            with np.errstate(over="ignore"):
                found = exact.astype(np.float32)
            if (np.isinf(found) & np.isfinite(exact)).any():
                number = f"the number {np.nanmax(np.abs(exact))} after scaling"
                raise RequestError("", number, "numbers that float32 can hold")
            return found

        return standardize


STEP = Standardize
