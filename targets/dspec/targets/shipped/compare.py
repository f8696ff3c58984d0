"""How far one array is from another, before any tolerance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .arrays import NUMBERS, Array, position
from .frontier import CHUNK, Frontier
from .selection import misplaced, select

Error = dict[str, Any]  # the JSON form of `OutputError`: frontier, cosine, topk, broken


def compare(
    reference: Array, got: Any, *, topk: Sequence[int] = (), mask: Array | None = None, source: Array | None = None
) -> Error:
    """The error of `got` against `reference`, computed in float64.

    `frontier` holds the points {ref, diff, index} that decide any (atol, rtol). `cosine` is the
    least cosine over rows (last axis): 1 between equal rows, 0 where one of them is all zero, None
    where there are no rows. `topk` maps k to the least share, over rows, of places in got's top k
    that the reference ranks no lower than its own k-th. A value that is not finite counts as equal
    to the same value at the same place. `broken` says why there are no numbers: nothing there,
    another dtype or shape, NaN or infinity on one side only, no valid position.

    `mask` (1: counts) covers the leading axes: [batch, seq] for [batch, seq, hidden]. With `source`
    both arrays are indices into its last axis, and the values that they select are compared: the
    order of equal values means nothing.
    """
    broken = _unlike(reference, got)
    if broken:
        return _error(broken=broken)
    if source is not None:
        broken = misplaced(source, reference, got)
        if broken:
            return _error(broken=broken)
        reference, got = select(source, reference), select(source, got)
    valid = None
    if mask is not None:
        try:
            valid = _spread(mask, reference.shape)
        except ValueError:
            return _error(broken=f"mask of shape {list(mask.shape)} over {list(reference.shape)}")
        if reference.size and not valid.any():
            return _error(broken="the mask leaves no valid position")
    frontier, broken = _scan(reference, got, valid)
    if broken:
        return _error(broken=broken)
    rows = _rows(reference, got, valid)
    return _error(
        frontier=[
            {"ref": ref, "diff": diff, "index": [int(i) for i in np.unravel_index(at, got.shape)]}
            for ref, diff, at in frontier.points()
        ],
        cosine=_least_cosine(*rows),
        topk={str(k): share for k in topk if (share := _least_topk(*rows, k)) is not None},
    )


def compare_outputs(
    reference: Mapping[str, Array],
    got: Mapping[str, Any],
    policies: Mapping[str, Mapping[str, Any]],
    door: Mapping[str, Array],
) -> tuple[dict[str, Error], dict[str, Error]]:
    """(`outputs`, `valid`) of a case: every output, and those with a mask over its positions.

    `policies` name the mask as `valid`: an input, found in `door`; the k of the top-k share; and as
    `selects` the input or output that an output holds indices into.
    """
    outputs, valid = {}, {}
    known = {**door, **reference}
    for name, array in reference.items():
        policy = policies.get(name, {})
        agreement = policy.get("min_topk_agreement")
        topk = (int(agreement["k"]),) if agreement else ()
        source = known[policy["selects"]] if policy.get("selects") else None
        outputs[name] = compare(array, got.get(name), topk=topk, source=source)
        if policy.get("valid"):
            mask = door[policy["valid"]]
            valid[name] = compare(array, got.get(name), topk=topk, mask=mask, source=source)
    return outputs, valid


def _error(**found: Any) -> Error:
    return {"frontier": [], "cosine": None, "topk": {}, "broken": ""} | found


def _unlike(reference: Array, got: Any) -> str:
    if not isinstance(got, np.ndarray):
        return "missing" if got is None else f"a {type(got).__name__} instead of an array"
    if got.dtype != reference.dtype:
        return f"dtype {got.dtype} where the reference has {reference.dtype}"
    if got.shape != reference.shape:
        return f"shape {list(got.shape)} where the reference has {list(reference.shape)}"
    return "" if got.dtype.kind in NUMBERS else f"dtype {got.dtype}, which is no number"


def _spread(mask: Array, shape: tuple[int, ...]) -> Array:
    """The mask over every element; ValueError where it does not cover the leading axes."""
    if mask.ndim > len(shape):
        raise ValueError
    leading = np.asarray(mask) != 0
    return np.broadcast_to(leading.reshape(mask.shape + (1,) * (len(shape) - mask.ndim)), shape)


def _scan(reference: Array, got: Array, valid: Array | None) -> tuple[Frontier, str]:
    """The frontier over valid elements, a chunk at a time; or why there is none."""
    frontier, odd, first = Frontier(), 0, ""
    flat_reference, flat_got = reference.reshape(-1), got.reshape(-1)
    flat_valid = None if valid is None else valid.reshape(-1)
    for start in range(0, reference.size, CHUNK):
        part = slice(start, start + CHUNK)
        ref, diff, unequal = _differences(flat_reference[part], flat_got[part])
        counts = slice(None) if flat_valid is None else flat_valid[part]
        at = np.arange(start, start + ref.size)[counts]
        places = at[unequal[counts]]
        if places.size and not first:
            first = _odd_words(reference, got, int(places[0]))
        odd += places.size
        if not odd:
            frontier.add(ref[counts], diff[counts], at)
    return frontier, f"{first} ({odd} place{'s' if odd > 1 else ''})" if odd else ""


def _differences(reference: Array, got: Array) -> tuple[Array, Array, Array]:
    """(|reference|, |got - reference|, where only one is finite or both are infinite apart)."""
    if reference.dtype.kind != "f":
        return _whole_differences(reference, got)
    ref, its = reference.astype(np.float64), got.astype(np.float64)
    finite = np.isfinite(ref) & np.isfinite(its)
    odd = np.zeros(ref.shape, bool)
    if not finite.all():
        odd = ~finite & (ref != its) & ~(np.isnan(ref) & np.isnan(its))
        ref, its = np.where(finite, ref, 0.0), np.where(finite, its, 0.0)
    with np.errstate(over="ignore"):
        diff = np.minimum(np.abs(its - ref), np.finfo(np.float64).max)
    return np.abs(ref), diff, odd


def _whole_differences(reference: Array, got: Array) -> tuple[Array, Array, Array]:
    # The distance of two int64 fits into uint64 and wraps to the right value there.
    most, least = np.maximum(reference, got), np.minimum(reference, got)
    diff = most.astype(np.uint64) - least.astype(np.uint64)
    return (
        np.abs(reference.astype(np.float64)),
        diff.astype(np.float64),
        np.zeros(diff.shape, bool),
    )


def _odd_words(reference: Array, got: Array, at: int) -> str:
    index = np.unravel_index(at, got.shape)
    names = {"nan": "NaN"}
    found, wanted = (names.get(str(array[index]), str(array[index])) for array in (got, reference))
    return f"{found} at {position(tuple(index))} where the reference is {wanted}"


def _rows(reference: Array, got: Array, valid: Array | None) -> tuple[Array, Array, Array | None]:
    """Both as [rows, last axis], rows without a valid element left out."""
    width = reference.shape[-1] if reference.ndim else 1
    shape = (-1, width) if width and reference.size else (0, max(width, 1))
    ref, its = reference.reshape(shape), got.reshape(shape)
    if valid is None:
        return ref, its, None
    counts = valid.reshape(shape)
    keep = counts.any(axis=1)
    counts = counts[keep]
    return ref[keep], its[keep], None if counts.all() else counts


def _least_cosine(reference: Array, got: Array, counts: Array | None) -> float | None:
    if not reference.size:
        return None
    step = max(1, CHUNK // reference.shape[1])
    least = 1.0
    for start in range(0, len(reference), step):
        part = slice(start, start + step)
        ref, its = (_plain(array[part], counts, part, 0.0) for array in (reference, got))
        least = min(least, float(_cosines(ref, its).min()))
    return least


def _plain(array: Array, counts: Array | None, part: slice, fill: float) -> Array:
    """float64, with `fill` where a value is not finite or does not count."""
    plain = array.astype(np.float64)
    plain[~np.isfinite(plain)] = fill
    if counts is not None:
        plain[~counts[part]] = fill
    return plain


def _cosines(reference: Array, got: Array) -> Array:
    # Scaled first, so that no square overflows or vanishes.
    ref, its = (array / _largest(array) for array in (reference, got))
    norms = np.sqrt(np.einsum("ij,ij->i", ref, ref) * np.einsum("ij,ij->i", its, its))
    dots = np.einsum("ij,ij->i", ref, its)
    cosines = np.divide(dots, norms, out=np.zeros_like(dots), where=norms > 0).clip(-1, 1)
    same: Array = (reference == got).all(axis=1)
    return np.where(same, 1.0, cosines)


def _largest(array: Array) -> Array:
    largest: Array = np.abs(array).max(axis=1, keepdims=True)
    return np.where(largest > 0, largest, 1.0)


def _least_topk(reference: Array, got: Array, counts: Array | None, k: int) -> float | None:
    """Ties are settled in favour of `got`: the order of equal values means nothing."""
    if not reference.size:
        return None
    k = min(k, reference.shape[1])
    step = max(1, CHUNK // reference.shape[1])
    least = 1.0
    for start in range(0, len(reference), step):
        part = slice(start, start + step)
        ref, its = (_plain(array[part], counts, part, -np.inf) for array in (reference, got))
        least = min(least, float(_shares(ref, its, k).min()))
    return least


def _shares(reference: Array, got: Array, k: int) -> Array:
    worthy = reference >= np.partition(reference, -k, axis=1)[:, [-k]]
    last = np.partition(got, -k, axis=1)[:, [-k]]
    surely = got > last
    tied = np.minimum(k - surely.sum(axis=1), ((got == last) & worthy).sum(axis=1))
    shares: Array = ((surely & worthy).sum(axis=1) + tied) / k
    return shares
