"""scale: multiply and add."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ..intervals import Interval, mapped, single, words
from ..step import IMAGE, TENSOR, Value, accept

BYTE = (1 / 256, 1 / 254)  # what maps 0…255 to about 0…1


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Multiply by `factor`, then add `offset`; gives float32.

    Any shape and layout. Computed in float32, each of the two rounded: 0.00392156862745098 (1/255) maps 0…255 to 0…1.

    Attributes:
        factor: what each value is multiplied by.
        offset: what is added afterwards.
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host", "graph")
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    factor: float = 1.0
    offset: float = 0.0

    def flow(self, value: Value) -> tuple[Value, ...]:
        accept(value, IMAGE, TENSOR)
        if not (math.isfinite(self.factor) and math.isfinite(self.offset)):
            raise ValueError("factor and offset are finite numbers")
        if value.range is not None:
            self._check_scaled_once(value.range)
        found = None if value.range is None else mapped(value.range, self._one)
        return (Value(TENSOR, "float32", value.shape, found),)

    def _one(self, number: float) -> float:
        return single(single(number * single(self.factor)) + single(self.offset))

    def _check_scaled_once(self, found: Interval) -> None:
        if BYTE[0] <= abs(self.factor) <= BYTE[1] and -1 <= found[0] < found[1] <= 1:
            raise ValueError(
                f"values are {words(found)} already; the factor {self.factor:.4g}, which is made for 0 to 255, "
                f"would leave {words(mapped(found, self._one))}: a scale applied twice"
            )

    def open(self) -> Callable[[Any], Any]:
        import numpy as np

        factor, offset = np.float32(self.factor), np.float32(self.offset)

        def scale(value: Any) -> Any:
            scaled = np.asarray(value).astype(np.float32, order="C")  # a copy, whatever comes in
            scaled *= factor
            if offset:
                scaled += offset
            return scaled

        return scale


STEP = Scale
