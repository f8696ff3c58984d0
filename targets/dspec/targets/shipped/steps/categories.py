"""categories: the columns of a row that name one of several things → numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..cells import cells, check_columns, refuse, shown
from ..step import MANY, NUMBER, TENSOR, TEXT, Value

Category = str | int | bool
Key = tuple[bool, Any]  # true and 1 are equal to Python, and not to a caller


@dataclass(frozen=True, kw_only=True)
class Categories:
    """Encode columns of a JSON object, or text and number fields, whose values are of a known list.

    `one_hot` gives float32: for each column in the order of `values`, a place per value in the order of its list.
    `index` gives int64: for each column the place of its value in the list, from 0. A text never equals a number, true
    never 1; 1 and 1.0 are the same. Columns that `values` does not name are not looked at.

    Attributes:
        values: column → its values, in order.
        encoding: `one_hot` or `index`.
        unknown: what becomes of a value that is not in the list: `refuse`; `other`: a further place behind the list's
            own; `zeros`: no place at all (one_hot alone).
        missing: `refuse` a column that is absent or null, or take it as `unknown` says.
    """

    takes: ClassVar[int] = MANY
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host",)
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    values: dict[str, tuple[Category, ...]]
    encoding: Literal["one_hot", "index"] = "one_hot"
    unknown: Literal["refuse", "other", "zeros"] = "refuse"
    missing: Literal["refuse", "unknown"] = "refuse"

    def flow(self, *values: Value) -> tuple[Value, ...]:
        check_columns(values, tuple(self.values), TEXT, NUMBER)
        for name, listed in self.values.items():
            if not listed or len({_key(value) for value in listed}) < len(listed):
                raise ValueError(f"{name}: each value is listed once, and there is at least one")
        if self.unknown == "zeros" and self.encoding == "index":
            raise ValueError("unknown: zeros is for one_hot; an index needs refuse or other")
        if self.missing == "unknown" and self.unknown == "refuse":
            raise ValueError("missing: unknown needs unknown: other or zeros")
        widths = self._widths()
        if self.encoding == "index":
            return (Value(TENSOR, "int64", (len(widths),), (0.0, max(widths) - 1.0)),)
        return (Value(TENSOR, "float32", (sum(widths),), (0.0, 1.0)),)

    def _widths(self) -> list[int]:
        return [len(listed) + (self.unknown == "other") for listed in self.values.values()]

    def open(self) -> Callable[..., Any]:
        import numpy as np

        names, widths = tuple(self.values), self._widths()
        places = [{_key(value): at for at, value in enumerate(listed)} for listed in self.values.values()]
        starts, size = [sum(widths[:at]) for at in range(len(widths))], sum(widths)

        def categories(*given: Any) -> Any:
            row = cells(given, names)
            found = [self._place(name, cell, known) for name, cell, known in zip(names, row, places, strict=True)]
            if self.encoding == "index":
                return np.array(found, np.int64)
            hot = np.zeros(size, np.float32)
            for start, at in zip(starts, found, strict=True):
                if at is not None:
                    hot[start + at] = 1
            return hot

        return categories

    def _place(self, name: str, cell: Any, places: dict[Key, int]) -> int | None:
        """The place of a column's value; None where it has none."""
        if isinstance(cell, (str, int, float)):
            at = places.get((isinstance(cell, bool), cell))
            if at is not None:
                return at
            usual = cell == cell  # NaN is no category
        else:
            usual = cell is None and self.missing == "unknown"
        if not usual or self.unknown == "refuse":
            raise refuse(name, cell, f"one of {shown([str(value) for value in self.values[name]])}")
        return len(places) if self.unknown == "other" else None


def _key(value: Any) -> Key:
    return isinstance(value, bool), value


STEP = Categories
