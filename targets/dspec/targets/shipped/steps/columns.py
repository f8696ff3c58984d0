"""columns: the number columns of a row → a vector."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from ..cells import cells, check_columns, refuse, shortened, shown
from ..step import MANY, NUMBER, TENSOR, RequestError, Value

NUMBERS = frozenset({int, float})


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Put number columns of a JSON object, or number fields, into a vector, in the order of `names`.

    Gives float64, as JSON numbers are; rounding to float32 comes later and once. A text in a column is refused, also
    one that looks like a number, and so are NaN and infinity. A column is missing where it is absent or null.

    Attributes:
        names: the columns, in the order of the vector.
        missing: `refuse` a request with a missing column, or `nan`: NaN stands for it.
        fill: column → the number that stands for it where it is missing, whatever `missing` says.
        booleans: `refuse`, or `number`: 1 for true, 0 for false.
        others: columns that the object may have besides, for other steps; any further one is refused, so that no
            misspelt column is taken for a missing one.
    """

    takes: ClassVar[int] = MANY
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host",)
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    names: tuple[str, ...]
    missing: Literal["refuse", "nan"] = "refuse"
    fill: dict[str, float] = field(default_factory=dict)
    booleans: Literal["refuse", "number"] = "refuse"
    others: tuple[str, ...] = ()

    def flow(self, *values: Value) -> tuple[Value, ...]:
        check_columns(values, self.names, NUMBER)
        foreign = [name for name in self.fill if name not in self.names]
        if foreign:
            raise ValueError(f"fill has {foreign[0]}, which is not among the names")
        if not all(map(math.isfinite, self.fill.values())):
            raise ValueError("fill holds finite numbers")
        return (Value(TENSOR, "float64", (len(self.names),)),)

    def open(self) -> Callable[..., Any]:
        import numpy as np

        names, known = self.names, frozenset((*self.names, *self.others))
        fill = [self.fill.get(name) for name in names]

        def columns(*values: Any) -> Any:
            row = cells(values, names)
            if isinstance(values[0], dict) and not values[0].keys() <= known:
                foreign = next(name for name in values[0] if name not in known)
                raise RequestError(
                    "", f"an unknown column {shortened(str(foreign))}", f"the columns {shown(self.names)}"
                )
            # The usual row, and one with gaps that `fill` knows, costs a few C loops; any other is looked at cell by cell.
            whole = (
                [instead if cell is None else cell for instead, cell in zip(fill, row, strict=True)]
                if None in row
                else row
            )
            if not (NUMBERS.issuperset(map(type, whole)) and _finite(whole)):
                whole = [self._number(name, cell) for name, cell in zip(self.names, row, strict=True)]
            return np.array(whole, np.float64)

        return columns

    def _number(self, name: str, cell: Any) -> float:
        if cell is None and name in self.fill:
            return self.fill[name]
        if cell is None and self.missing == "nan":
            return math.nan
        if isinstance(cell, bool) and self.booleans == "number":
            return float(cell)
        if isinstance(cell, bool) or not isinstance(cell, (int, float)) or not _finite((cell,)):
            raise refuse(name, cell, "a finite number")
        return float(cell)


def _finite(row: Any) -> bool:
    try:
        return math.isfinite(math.fsum(row))
    except (OverflowError, ValueError):  # beyond doubles in between; infinities of both signs
        return False


STEP = Columns
