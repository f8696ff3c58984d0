"""What the steps over tables share: the cells of one row, by column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .errors import kind
from .step import ANY, JSON, RequestError, Value

NAME = 40  # characters of a foreign name that an error shows


def check_columns(values: Sequence[Value], names: Sequence[str], *kinds: str) -> None:
    """Nothing if the values are one JSON object, or a field of one of the kinds per column; ValueError in words."""
    if not names or len(set(names)) < len(names):
        raise ValueError("each column is named once, and there is at least one")
    if len(values) == 1 and values[0].kind in (JSON, ANY):
        return
    wrong = [value.kind for value in values if value.kind not in (*kinds, ANY)]
    if wrong or len(values) != len(names):
        found = wrong[0] if wrong else f"{len(values)} values"
        raise ValueError(f"takes one JSON object, or for {len(names)} columns as many values of kind "
                         f"{' or '.join(kinds)}, not {found}")  # fmt: skip


def cells(values: tuple[Any, ...], names: Sequence[str]) -> Sequence[Any]:
    """A cell per column, None where it is missing: of the one object, or the values themselves; RequestError."""
    if len(values) == 1 and isinstance(values[0], dict):
        return list(map(values[0].get, names))
    if len(values) != len(names) or isinstance(values[0], (list, tuple)):
        raise RequestError("", words(values[0]), f"an object with the columns {shown(names)}")
    return values


def refuse(name: str, cell: Any, expected: str) -> RequestError:
    """The error for a cell: null and absence read alike."""
    return RequestError("", f"{'nothing' if cell is None else words(cell)} in column {name}", expected)


def words(value: Any) -> str:
    """The kind of a caller's value, at a length that an error can show."""
    if isinstance(value, int) and value.bit_length() > 1024:  # Python refuses to print the hugest
        return "a number beyond all doubles"
    return shortened(kind(value))


def shown(names: Sequence[str], most: int = 5) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def shortened(text: str) -> str:
    """A text of the caller's, at a length that an error can show."""
    return text if len(text) <= NAME else f"{text[:NAME]}…"
