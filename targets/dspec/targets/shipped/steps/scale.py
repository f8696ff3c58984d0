"""scale: multiply and add."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ..step import IMAGE, TENSOR, Value, accept


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Multiply by `factor`, then add `offset`; gives float32.

    Any shape. Computed in float32: 0.00392156862745098 (1/255) maps 0…255 to 0…1.

    Attributes:
        factor: what each value is multiplied by.
        offset: what is added afterwards.
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host",)
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    factor: float = 1.0
    offset: float = 0.0

    def flow(self, value: Value) -> tuple[Value, ...]:
        accept(value, IMAGE, TENSOR)
        if not (math.isfinite(self.factor) and math.isfinite(self.offset)):
            raise ValueError("factor and offset are finite numbers")
        return (Value(TENSOR, "float32", value.shape),)

    def open(self) -> Callable[[Any], Any]:
        import numpy as np

        factor, offset = np.float32(self.factor), np.float32(self.offset)

        def scale(value: Any) -> Any:
            scaled = np.multiply(value, factor, dtype=np.float32, casting="unsafe")
            if offset:
                scaled += offset
            return scaled

        return scale


STEP = Scale
