"""Nested lists of JSON numbers → an array: strict about types, lengths and ranges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .arrays import Array, position
from .errors import RequestError, kind

Refuse = Callable[[str, str], RequestError]  # (found, expected) → the error, with its field
DEEPEST = 32  # numpy itself ends at 64 axes


def from_lists(value: Any, wanted: np.dtype[Any] | None, refuse: Refuse) -> Array:
    """The array of nested lists, in a dtype from which `wanted` can be cast without loss.

    A bool is no number, and a number with a decimal point is no integer. Without `wanted`: bool, int64 or float32.
    Raises what `refuse` makes.
    """
    leaves: set[type] = set()
    _shape(value, (), leaves, refuse)
    expected = wanted.name if wanted else "numbers"
    booleans = wanted.kind == "b" if wanted else leaves == {bool}
    if booleans and leaves <= {bool}:
        return np.array(value, bool)
    if booleans or bool in leaves:
        raise refuse("true or false among the values" if bool in leaves else "numbers", f"{expected} throughout")
    if wanted is not None and wanted.kind in "iu" and float in leaves:
        raise refuse("numbers with a decimal point", f"whole numbers ({expected})")
    return _numbers(value, leaves, wanted, refuse)


def _numbers(value: Any, leaves: set[type], wanted: np.dtype[Any] | None, refuse: Refuse) -> Array:
    try:
        array: Array = np.array(value, np.int64 if leaves == {int} else np.float64)
    except (OverflowError, ValueError) as error:
        raise refuse(f"numbers out of range ({error})", wanted.name if wanted else "64 bits at most") from error
    if not array.size and wanted is not None:
        return array.astype(wanted)
    return array if wanted or array.dtype.kind != "f" else array.astype(np.float32)


def _shape(value: Any, at: tuple[int, ...], leaves: set[type], refuse: Refuse) -> tuple[int, ...]:
    """The shape of nested lists; `leaves` collects the types of the numbers."""
    if not isinstance(value, (list, tuple)):
        if type(value) not in (int, float, bool):
            raise refuse(f"{kind(value)}{_place(at)}", "nested lists of numbers")
        leaves.add(type(value))
        return ()
    kinds = set(map(type, value))
    if kinds <= {int, float, bool}:  # the innermost lists, without a call per number
        leaves |= kinds
        return (len(value),)
    if len(at) > DEEPEST:
        raise refuse(f"more than {DEEPEST} nested lists", "an array")
    shapes = {_shape(inner, (*at, number), leaves, refuse) for number, inner in enumerate(value)}
    if len(shapes) > 1:
        raise refuse(f"lists of different lengths{_place(at)}", "lists of one length per level")
    return (len(value), *shapes.pop())


def _place(at: tuple[int, ...]) -> str:
    return f" at {position(at)}" if at else ""


def fits(found: Sequence[int], declared: Sequence[int | str]) -> bool:
    """Whether sizes match those declared; a name stands for one size throughout."""
    sizes: dict[str, int] = {}
    return len(found) == len(declared) and all(
        size == wanted if isinstance(wanted, int) else sizes.setdefault(wanted, size) == size
        for size, wanted in zip(found, declared, strict=True)
    )
