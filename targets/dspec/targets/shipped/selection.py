"""Indices, seen through the values that they select."""

from __future__ import annotations

import numpy as np

from .arrays import Array, position


def misplaced(source: Array, reference: Array, got: Array) -> str:
    """Why `got` can't stand for the indices `reference` into the last axis of `source`; empty when it can.

    Both have one shape: the leading axes of `source`, and one more where several are selected (as by
    topk), none where one is (as by argmax). An index outside the axis is at fault, and so is one that
    `got` names twice where the reference names each once: [1, 1] selects the same as [1, 2] from
    equal values.
    """
    leading = source.shape[:-1]
    fits = reference.shape[: len(leading)] == leading and 0 <= reference.ndim - len(leading) <= 1
    if source.ndim == 0 or reference.dtype.kind not in "iu" or not fits:
        return f"indices of shape {list(reference.shape)} ({reference.dtype}) into {list(source.shape)}"
    size = source.shape[-1]
    outside = np.argwhere((got < -size) | (got >= size))
    if outside.size:
        place = tuple(outside[0])
        return f"index {got[place]} at {position(place)}, of {size} places"
    if reference.ndim == source.ndim and _repeats(got % size) > _repeats(reference % size):
        return "an index twice in a row where the reference names each once"
    return ""


def select(source: Array, indices: Array) -> Array:
    """The values of `source` at `indices` along its last axis, in the shape of `indices`."""
    single = indices.ndim < source.ndim
    places = indices[..., np.newaxis] if single else indices
    values: Array = np.take_along_axis(source, places.astype(np.int64) % max(source.shape[-1], 1), -1)
    return values[..., 0] if single else values


def _repeats(indices: Array) -> int:
    """How many neighbours are equal once every row is sorted."""
    ordered = np.sort(indices, axis=-1)
    return int((ordered[..., 1:] == ordered[..., :-1]).sum())
