"""How far a value of the training-time code is from the shipped pipeline's: arrays, texts, nested JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dspec.spec.records import OutputError
from dspec.targets.shipped.arrays import NUMBERS, Array
from dspec.targets.shipped.compare import compare
from dspec.targets.shipped.tolerance import merge

SHOWN = 40  # characters of a text that an error shows
NEAR = 1e-5  # of the greatest value: what the order of a few float32 operations makes


class Parted(NamedTuple):
    """The error of one value; `exact`: whole numbers or texts on both sides."""

    error: OutputError
    exact: bool


def parted(theirs: Any, ours: Any, name: str) -> dict[str, Parted]:
    """The error of `ours` against `theirs`, by name: parts of nested values as `boxes[].score`.

    Numbers are compared in float64 where either side is a float. Axes of size 1 make no difference.
    """
    wanted, found = as_array(theirs), as_array(ours)
    if wanted is not None and found is not None:
        return {name: _arrays(wanted, found)}
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        return _mappings(theirs, ours, name)
    if _is_list(theirs) and _is_list(ours):
        return _lists(_listed(theirs), _listed(ours), name)
    same = type(theirs) is type(ours) and bool(theirs == ours)
    words = "" if same else f"{shown(ours, theirs)} where the training code gives {shown(theirs, ours)}"
    return {name: Parted(OutputError(broken=words), exact=True)}


def as_array(value: Any) -> Array | None:
    """The value as an array of plain numbers, or None: numpy's, torch's, Pillow's, nested lists, a number."""
    if isinstance(value, str | bytes | Mapping) or value is None:
        return None
    if callable(getattr(value, "detach", None)):
        value = value.detach().cpu()
        value = (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    value = getattr(value, "samples", value)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        return None
    return array if array.dtype.kind in NUMBERS else None


def kept(value: Any) -> Any:
    """The value as it is now: training code goes on to work on its arrays in place."""
    if isinstance(value, list | tuple):
        return [kept(inner) for inner in value]
    if isinstance(value, Mapping):
        return {key: kept(inner) for key, inner in value.items()}
    array = as_array(value)
    return value if array is None or isinstance(value, bool | int | float) else np.array(array, copy=True)


def shown(value: Any, other: Any = None) -> str:
    """A value in an error's words; of two long texts, the place where they part."""
    text = repr(value)
    if len(text) <= SHOWN:
        return text
    if isinstance(value, str) and isinstance(other, str):
        at = next((i for i, (a, b) in enumerate(zip(value, other, strict=False)) if a != b), 0)
        start = max(0, at - SHOWN // 2)
        return ("…" if start else "") + repr(value[start : start + SHOWN]) + f" (from character {start})"
    return f"{text[:SHOWN]}…"


def _arrays(theirs: Array, ours: Array) -> Parted:
    exact = theirs.dtype.kind != "f" and ours.dtype.kind != "f"
    if theirs.shape != ours.shape and _squeezed(theirs) == _squeezed(ours):
        theirs = theirs.reshape(ours.shape)
    if theirs.shape != ours.shape:
        words = f"shape {list(ours.shape)} where the training code gives {list(theirs.shape)}"
        return Parted(OutputError(broken=words), exact)
    kind = np.result_type(theirs, ours) if exact else np.dtype(np.float64)
    error = compare(theirs.astype(kind), ours.astype(kind))
    return Parted(OutputError.model_validate(error, strict=False), exact)


def _squeezed(array: Array) -> tuple[int, ...]:
    return tuple(size for size in array.shape if size != 1)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple | np.ndarray)


def _listed(value: Any) -> Sequence[Any]:
    found: Sequence[Any] = value.tolist() if isinstance(value, np.ndarray) else value
    return found if isinstance(found, list | tuple) else [found]


def _mappings(theirs: Mapping[Any, Any], ours: Mapping[Any, Any], name: str) -> dict[str, Parted]:
    found: dict[str, Parted] = {}
    for key in dict.fromkeys((*theirs, *ours)):
        inner = f"{name}.{key}"
        if key in theirs and key in ours:
            found |= parted(theirs[key], ours[key], inner)
        else:
            words = (
                "the training code gives no such key" if key not in theirs else "only the training code gives this key"
            )
            found[inner] = Parted(OutputError(broken=words), exact=True)
    return found


def _lists(theirs: Sequence[Any], ours: Sequence[Any], name: str) -> dict[str, Parted]:
    if len(theirs) != len(ours):
        words = f"{len(ours)} items where the training code gives {len(theirs)}"
        return {name: Parted(OutputError(broken=words), exact=True)}
    pairs = zip(theirs, ours, strict=True)
    parts = [_within(number, parted(wanted, found, f"{name}[]")) for number, (wanted, found) in enumerate(pairs)]
    return merged(parts) or {name: Parted(OutputError(), exact=True)}


def _within(number: int, parts: Mapping[str, Parted]) -> dict[str, Parted]:
    """The same errors, one list further out."""
    found = {}
    for name, (error, exact) in parts.items():
        points = tuple(point.model_copy(update={"index": (number, *point.index)}) for point in error.frontier)
        broken = f"item {number}: {error.broken}" if error.broken else ""
        found[name] = Parted(error.model_copy(update={"frontier": points, "broken": broken}), exact)
    return found


def merged(parts: Iterable[Mapping[str, Parted]]) -> dict[str, Parted]:
    """The errors of several comparisons as one, by name."""
    every: dict[str, list[Parted]] = {}
    for part in parts:
        for name, one in part.items():
            every.setdefault(name, []).append(one)
    return {
        name: Parted(joined(one.error for one in found), all(one.exact for one in found))
        for name, found in every.items()
    }


def joined(errors: Iterable[OutputError]) -> OutputError:
    """Several errors as one: the frontier of all, the first that is broken."""
    found = list(errors)
    points = merge([point.model_dump(mode="json") for point in error.frontier] for error in found)
    cosines = [error.cosine for error in found if error.cosine is not None]
    broken = next((error.broken for error in found if error.broken), "")
    body = {"frontier": points, "cosine": min(cosines, default=None), "broken": broken}
    return OutputError.model_validate(body, strict=False)


def size(error: OutputError, *, exact: bool) -> float:
    """One number to order errors by: the greatest |difference| over the greatest |value|; infinite where broken."""
    if error.broken:
        return float("inf")
    points = error.frontier
    most = max((point.diff for point in points), default=0.0)
    share = most / max(max((point.ref for point in points), default=0.0), most) if most else 0.0
    return max(share, NEAR * 2) if exact and most else share


def greatest(parts: Mapping[str, Parted]) -> float:
    return max((size(error, exact=exact) for error, exact in parts.values()), default=0.0)
