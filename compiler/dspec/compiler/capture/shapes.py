"""Sizes: the example that torch.export sees, and the points at which the reference runs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dspec.spec.models import Dim, Tensor

Sizes = Mapping[str, int]
Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]  # by input or output name
_PRIMES = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)
_BEYOND = 4  # a dim without max is tried at this many times its example


def used_dims(inputs: Mapping[str, Tensor], dims: Mapping[str, Dim]) -> dict[str, Dim]:
    """The dims that occur in inputs, in the order of the spec."""
    named = {size for tensor in inputs.values() for size in tensor.shape}
    return {name: dim for name, dim in dims.items() if name in named}


def least(dim: Dim) -> int:
    return math.ceil(dim.min / dim.multiple_of) * dim.multiple_of


def greatest(dim: Dim) -> int | None:
    return None if dim.max is None else dim.max // dim.multiple_of * dim.multiple_of


def is_dynamic(dim: Dim) -> bool:
    """Whether two sizes or more remain; otherwise the dim is a constant."""
    most = greatest(dim)
    return most is None or most > least(dim)


def example_sizes(dims: Mapping[str, Dim], taken: Iterable[int]) -> dict[str, int]:
    """One size per dim, equal to no other of the model (`taken`): torch takes an equality for a rule.

    Strictly inside the range where there is room, at least 2 where the dim is dynamic.
    """
    used, sizes = set(taken), {}
    for name, dim in dims.items():
        sizes[name] = min(_candidates(dim), key=lambda size: _cost(size, dim, used))
        used.add(sizes[name])
    return sizes


def _candidates(dim: Dim) -> list[int]:
    low, step = least(dim), dim.multiple_of
    high = greatest(dim)
    multiples = {step * prime for prime in _PRIMES} | {low + step * count for count in (0, 1, *_PRIMES)}
    if high is not None:
        multiples |= {high, high - step}
    return sorted(size for size in multiples if size >= low and (high is None or size <= high))


def _cost(size: int, dim: Dim, used: set[int]) -> tuple[bool, bool, bool, bool, int]:
    high = greatest(dim)
    inside = least(dim) < size and (high is None or size < high)
    odd = (size // dim.multiple_of) % 2 == 1 and size // dim.multiple_of > 1
    return size < 2, not inside, size in used, not odd, size


def shape_points(dims: Mapping[str, Dim], example: Sizes) -> tuple[dict[str, int], ...]:
    """Minimum, example, maximum, each dim alone at its ends, and two sizes between; no point twice."""
    low = {name: least(dim) for name, dim in dims.items()}
    high = {name: _high(dim, example[name]) for name, dim in dims.items()}
    points = [low, dict(example), high]
    points += [{**example, name: ends[name]} for name in dims for ends in (low, high)]
    points += [{name: _between(dims[name], low[name], high[name], share) for name in dims} for share in (0.35, 0.7)]
    return tuple({tuple(point.items()): point for point in points}.values())


def _high(dim: Dim, example: int) -> int:
    most = greatest(dim)
    return most if most is not None else max(example * _BEYOND, least(dim) + dim.multiple_of)


def _between(dim: Dim, low: int, high: int, share: float) -> int:
    """Geometric: sizes matter by their ratio."""
    wanted: float = max(low, 1) * (max(high, 1) / max(low, 1)) ** share
    return min(high, max(low, round(wanted / dim.multiple_of) * dim.multiple_of))


def sizes_of(arrays: Arrays, inputs: Mapping[str, Tensor]) -> dict[str, int]:
    """The dims' sizes that arrays at the model's door have."""
    return {
        size: arrays[name].shape[axis]
        for name, tensor in inputs.items()
        for axis, size in enumerate(tensor.shape)
        if isinstance(size, str)
    }


def words(sizes: Mapping[str, int]) -> str:
    """`batch=32 seq=256`."""
    return " ".join(f"{name}={size}" for name, size in sizes.items()) or "fixed sizes"


def at_sizes(pool: Sequence[Arrays], inputs: Mapping[str, Tensor], sizes: Sizes, batch: str | None) -> dict[str, Array]:
    """Arrays of the given sizes, made of real ones: stacked along `batch`, repeated or cropped along the other dims.

    Every array has storage of its own.
    """
    made = {}
    for name, tensor in inputs.items():
        axis = tensor.shape.index(batch) if batch in tensor.shape else None
        count = sizes[str(batch)] if axis is not None else 1
        items = [_fit(pool[number % len(pool)][name], tensor, sizes, axis) for number in range(max(count, 1))]
        whole = np.concatenate(items, axis) if axis is not None else items[0]
        whole = whole.take(range(count), axis) if axis is not None else whole
        made[name] = np.array(whole, order="C", copy=True)
    return made


def _fit(array: Array, tensor: Tensor, sizes: Sizes, batch_axis: int | None) -> Array:
    for axis, size in enumerate(tensor.shape):
        if isinstance(size, str) and axis != batch_axis and array.shape[axis] != sizes[size]:
            if not array.shape[axis]:
                return np.zeros([sizes[s] if isinstance(s, str) else s for s in tensor.shape], array.dtype)
            array = array.take(np.arange(sizes[size]) % array.shape[axis], axis)
    return array


def grid(dims: Mapping[str, Dim], limit: int = 4096) -> Iterator[dict[str, int]]:
    """Declared sizes of all dims together, at most `limit` points: ends and a spread between; sizes 0 and 1 left out."""
    each = max(2, int(limit ** (1 / max(len(dims), 1))))
    axes = [[(name, size) for size in sweep(dim, each)] for name, dim in dims.items()]
    return (dict(point) for point in itertools.product(*axes))


def sweep(dim: Dim, limit: int = 4096) -> list[int]:
    """Declared sizes of one dim from 2 up: the first `limit`, and its end (or very large ones where it has none)."""
    step, high = dim.multiple_of, greatest(dim)
    low = least(dim) if least(dim) >= 2 else max(2, step)
    if low < 2 or low % step:
        low = math.ceil(2 / step) * step
    last = high if high is not None else low + step * limit
    sizes = list(range(low, min(last, low + step * (limit - 1)) + 1, step))
    ends = [last - step, last] if high is not None else [step * 10**4, step * 10**6]
    return sorted({size for size in (*sizes, *ends) if size >= low})
