"""Several requests through the model at once: stacked at its door, parted behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..arrays import Array
from ..errors import BundleError
from .padding import Padding

WASTE = 1.5  # padded sizes together, at most so many times those of the requests

Tensors = Mapping[str, Array]


class Stacking:
    """How this bundle's tensors are stacked along the dim `batch`. `most` items; 1 where the interface allows no more."""

    def __init__(self, interface: Mapping[str, Any], padding: Padding | None, most: int) -> None:
        self._inputs, self._outputs = interface["inputs"], interface["outputs"]
        self.batch: str | None = interface.get("batch")
        self.most = min(most, self._limit(interface))
        self.padding = padding if self.most > 1 else None
        self._axes = {name: self._axis(port) for name, port in {**self._inputs, **self._outputs}.items()}

    def _limit(self, interface: Mapping[str, Any]) -> int:
        """1 where an input or an output has no axis of items."""
        dim = interface["dims"].get(self.batch or "")
        ports = (*self._inputs.values(), *self._outputs.values())
        if dim is None or dim.get("multiple_of", 1) != 1 or any(self.batch not in port["shape"] for port in ports):
            return 1
        return int(dim["max"]) if dim.get("max") is not None else 1 << 20

    def _axis(self, port: Mapping[str, Any]) -> int:
        return list(port["shape"]).index(self.batch) if self.batch in port["shape"] else 0

    def key(self, tensors: Tensors, padded: bool) -> tuple[Any, ...]:
        """Equal for tensors that may be stacked: sizes, without the axis of items and (if `padded`) the one that is filled up."""
        loose = {self.batch, self.padding.dim if self.padding and padded else None}
        return tuple(
            tuple(size for size, dim in zip(array.shape, self._inputs[name]["shape"], strict=True) if dim not in loose)
            for name, array in tensors.items()
        )

    def length(self, tensors: Tensors) -> int:
        """The size that is filled up; 0 where none is."""
        if self.padding is None:
            return 0
        name = next(iter(self.padding.fills))
        return int(tensors[name].shape[list(self._inputs[name]["shape"]).index(self.padding.dim)])

    def rows(self, tensors: Tensors) -> int:
        """How many items the tensors hold."""
        for name, array in tensors.items():
            if self.batch in self._inputs[name]["shape"]:
                return int(array.shape[self._axes[name]])
        return 1

    def joined(self, items: Sequence[Tensors]) -> dict[str, Array]:
        """One tensor per input over all items, filled up to the longest."""
        if len(items) == 1:
            return dict(items[0])
        longest = max(self.length(item) for item in items)
        return {
            name: np.concatenate([self._filled(name, item[name], longest) for item in items], self._axes[name])
            for name in self._inputs
        }

    def _filled(self, name: str, array: Array, longest: int) -> Array:
        if self.padding is None or name not in self.padding.fills:
            return array
        axis = list(self._inputs[name]["shape"]).index(self.padding.dim)
        missing = longest - array.shape[axis]
        if not missing:
            return array
        around = [(0, 0)] * array.ndim
        around[axis] = (missing, 0) if self.padding.left else (0, missing)
        return np.pad(array, around, constant_values=self.padding.fills[name])

    def parted(self, outputs: Tensors, items: Sequence[Tensors]) -> list[dict[str, Array]]:
        """What the model gave, for each of the items; what was filled up is cut off again."""
        if len(items) == 1:
            return [dict(outputs)]
        counts = [self.rows(item) for item in items]
        for name, array in outputs.items():
            if array.shape[self._axes[name]] != sum(counts):
                raise BundleError(f"output {name} holds {array.shape[self._axes[name]]} items for {sum(counts)}")
        ends = np.cumsum(counts)
        return [
            {name: self._cut(name, array, end - count, end, item) for name, array in outputs.items()}
            for end, count, item in zip(ends.tolist(), counts, items, strict=True)
        ]

    def _cut(self, name: str, array: Array, start: int, end: int, item: Tensors) -> Array:
        cut: list[slice] = [slice(None)] * array.ndim
        cut[self._axes[name]] = slice(start, end)
        if self.padding is not None:
            length = self.length(item)
            for axis, dim in enumerate(self._outputs[name]["shape"]):
                if dim == self.padding.dim:
                    cut[axis] = slice(array.shape[axis] - length, None) if self.padding.left else slice(length)
        return array[tuple(cut)].copy()  # a step after the model may write into it
