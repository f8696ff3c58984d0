"""concat: several vectors → one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ..step import ANY, MANY, TENSOR, RequestError, Value, accept


@dataclass(frozen=True, kw_only=True)
class Concat:
    """Join vectors end to end, in the order in which `in` names them.

    Vectors of one dtype keep it; float32 with float64 gives float64. Whole numbers and floats are not mixed.
    """

    takes: ClassVar[int] = MANY
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host", "graph")
    requires: ClassVar[tuple[str, ...]] = ("numpy",)

    def flow(self, *values: Value) -> tuple[Value, ...]:
        if len(values) < 2:
            raise ValueError("takes two vectors or more")
        for value in values:
            accept(value, TENSOR)
            if value.shape is not None and len(value.shape) != 1:
                raise ValueError(f"takes vectors, not shape {list(value.shape)}")
        sizes = [value.shape[0] if value.shape else None for value in values]
        whole = sum(size for size in sizes if isinstance(size, int))
        size = whole if all(isinstance(size, int) for size in sizes) else None
        return (Value(TENSOR, _dtype(values), (size,), _range(values)),)

    def open(self) -> Callable[..., Any]:
        import numpy as np

        def concat(*vectors: Any) -> Any:
            for vector in vectors:
                if vector.ndim != 1:
                    raise RequestError("", f"shape {list(vector.shape)}", "vectors")
            return np.concatenate(vectors)

        return concat


def _dtype(values: tuple[Value, ...]) -> str | None:
    found = {value.dtype for value in values if value.kind != ANY}
    if None in found or any(value.kind == ANY for value in values):
        return None
    if len(found) == 1:
        return found.pop()
    if found == {"float32", "float64"}:
        return "float64"
    raise ValueError(f"takes vectors of one dtype, not {' and '.join(sorted(map(str, found)))}")


def _range(values: tuple[Value, ...]) -> tuple[float, float] | None:
    ranges = [value.range for value in values if value.range is not None]
    if len(ranges) < len(values):
        return None
    return (min(low for low, _ in ranges), max(high for _, high in ranges))


STEP = Concat
