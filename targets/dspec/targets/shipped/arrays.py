"""Arrays of plain numbers: what dtypes there are, and which casts lose nothing by kind."""

from __future__ import annotations

from typing import Any

import numpy as np

NUMBERS = "biuf"  # numpy kinds that may stand at the door or travel in a frame; no objects
RANK = {"b": 0, "u": 1, "i": 1, "f": 2}

Array = np.ndarray[Any, Any]


def dtype(name: str) -> np.dtype[Any]:
    """The numpy dtype of that name; ValueError where it is none of plain numbers (bfloat16)."""
    try:
        found = np.dtype(name)
    except TypeError:
        found = np.dtype(object)
    if found.kind not in NUMBERS:
        raise ValueError(f"dtype {name} is not one that numpy can hold")
    return found


def cast(array: Array, to: np.dtype[Any]) -> Array:
    """The array in dtype `to`, contiguous and in native byte order.

    Allowed within a kind (float64 → float32, int32 → int64) and upwards (int → float); never float
    → int, never number → bool. Integers must fit, and a finite float must stay finite. Raises
    ValueError in words.
    """
    if array.dtype == to and array.dtype.isnative:
        return array if array.flags.c_contiguous else array.copy()
    if array.dtype.kind not in NUMBERS or RANK[array.dtype.kind] > RANK[to.kind] or to.kind == "b":
        raise ValueError(f"dtype {array.dtype.name}, which does not become {to.name} without loss")
    if array.dtype == np.bool_:
        raise ValueError(f"dtype bool, which does not stand for {to.name}")
    if to.kind in "iu" and array.size:
        _check_fits(array, to)
    with np.errstate(over="ignore"):
        found = np.ascontiguousarray(array, to).reshape(array.shape)
    if to.kind == "f" and np.isinf(found).any() and not np.array_equal(np.isinf(found), np.isinf(array)):
        raise ValueError(f"a value outside the range of {to.name}")
    return found


def _check_fits(array: Array, to: np.dtype[Any]) -> None:
    bounds = np.iinfo(to)
    least, most = int(array.min()), int(array.max())
    if least < bounds.min or most > bounds.max:
        raise ValueError(f"the value {least if least < bounds.min else most}, outside the range of {to.name}")


def within(array: Array, least: float, most: float) -> bool:
    """Whether all numbers (one at least) lie in the range; NaN lies in none.

    By place rather than by value: a request's few numbers cost half of what `min()` and `max()` take.
    """
    return bool(array.item(array.argmin()) >= least and array.item(array.argmax()) <= most)


def is_array(value: Any) -> bool:
    """Whether it is an array, or (a picture in Pillow's form) becomes one; a numpy scalar does not count."""
    return isinstance(value, np.ndarray) or (hasattr(value, "__array__") and not isinstance(value, np.generic))


def position(index: tuple[Any, ...]) -> str:
    """An index as people write it: (0, 3)."""
    return "(" + ", ".join(str(int(axis)) for axis in index) + ")"
