"""How answers and inputs are distributed, in the buckets of the fixtures: what drift is read from.

golden/statistics.json: {"values": {"output.scores": {"edges": [9 deciles, the same ones dropped], "expected": [share per bucket]}}}.
A series is an input or output at the model's door (`input.x`, `output.y`), or a dim (`size.seq`).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import Array
from .edges import edges_of

MOST = 512  # values of one tensor that count: a picture has 150,000, and they are alike


def series(
    door: Mapping[str, Array], outputs: Mapping[str, Array], sizes: Mapping[str, Any]
) -> Iterator[tuple[str, Array]]:
    """Name and values of each series for one item. `sizes`: input → declared shape."""
    for kind, tensors in (("input", door), ("output", outputs)):
        for name, array in tensors.items():
            yield f"{kind}.{name}", sample(array)
    seen: dict[str, int] = {}
    for name, array in door.items():
        for dim, size in zip(sizes.get(name, ()), array.shape, strict=False):
            if isinstance(dim, str):
                seen.setdefault(dim, size)
    for dim, size in seen.items():
        yield f"size.{dim}", np.array([size])


def sample(array: Array) -> Array:
    """At most MOST of its values, evenly spread."""
    flat = array.reshape(-1)
    return flat[:: -(-flat.size // MOST)] if flat.size > MOST else flat


class Counts:
    """Per series: how many values lay in each bucket, the last one for what is not finite. Safe from two threads."""

    def __init__(self, edges: Mapping[str, Array], sizes: Mapping[str, Any]) -> None:
        self._edges, self._sizes = edges, sizes
        self._counts = {name: np.zeros(found.size + 2, np.int64) for name, found in edges.items()}
        self._lock = threading.Lock()

    @classmethod
    def of(cls, bundle: Path) -> Counts:
        """In the buckets of the bundle's golden/statistics.json; none where there is no such file."""
        try:
            edges = {name: np.array(found, np.float64) for name, found in edges_of(bundle).items()}
            inputs = json.loads((bundle / "bundle.json").read_text("utf-8"))["interface"]["inputs"]
        except (OSError, ValueError, KeyError, TypeError):
            return cls({}, {})
        return cls(edges, {name: port["shape"] for name, port in inputs.items()})

    def add(self, door: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        if not self._edges:
            return
        with self._lock:
            for name, values in series(door, outputs, self._sizes):
                if name in self._edges:
                    self._counts[name] += bucketed(values, self._edges[name])

    def found(self) -> dict[str, list[int]]:
        with self._lock:
            return {name: counts.tolist() for name, counts in self._counts.items()}


def bucketed(values: Array, edges: Array) -> Array:
    """How many values lie at or below each edge and above the one before, above the last, and are not finite."""
    numbers = values.astype(np.float64, copy=False)
    finite = np.isfinite(numbers)
    if not finite.all():
        numbers = numbers[finite]
    counts = np.zeros(edges.size + 2, np.int64)
    counts[:-1] = np.bincount(np.searchsorted(edges, numbers, side="left"), minlength=edges.size + 1)
    counts[-1] = values.size - numbers.size
    return counts
