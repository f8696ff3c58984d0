"""The model's door: what a tensor must be to enter, and how a value becomes such a tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import NUMBERS, Array, cast, dtype, within
from .errors import RequestError

Sizes = dict[str, tuple[int, str]]  # dim → its size, and the input that had it first


@dataclass(frozen=True, slots=True)
class _Port:
    """One input: what a tensor must be to enter there. `insert` is the index that gives an item its batch axis."""

    name: str
    shape: tuple[int | str, ...]
    dtype: np.dtype[Any]
    range: tuple[float, float] | None
    insert: tuple[slice | None, ...] | None

    @classmethod
    def declared(cls, name: str, port: Mapping[str, Any], batch: str | None) -> _Port:
        shape, bounds = tuple(port["shape"]), port.get("range")
        return cls(name, shape, dtype(port["dtype"]), None if bounds is None else tuple(bounds), _insert(shape, batch))

    def tensor(self, value: Any, field: str) -> Array:
        array = np.asarray(value)
        if array.ndim == len(self.shape) - 1 and self.insert is not None:
            array = array[self.insert]
        if array.dtype is self.dtype and array.flags.c_contiguous:
            return array
        if array.dtype.kind not in NUMBERS:
            raise RequestError(field, f"{self.of(field)} is no array of numbers", self.dtype.name)
        try:
            return cast(array, self.dtype)
        except ValueError as error:
            raise RequestError(field, f"{self.of(field)} has {error}", self.dtype.name) from error

    def check_dtype(self, tensor: Any, field: str) -> None:
        if not isinstance(tensor, np.ndarray) or tensor.dtype != self.dtype:
            found = tensor.dtype if isinstance(tensor, np.ndarray) else type(tensor).__name__
            raise RequestError(field, f"{self.of(field)} of dtype {found}", self.dtype.name)

    def of(self, field: str) -> str:
        """What an error calls the input, beside the field of the request."""
        return "the tensor" if self.name == field else f"input {self.name}"

    @property
    def words(self) -> str:
        return f"[{', '.join(map(str, self.shape))}]"


class Door:
    """The model's inputs: dtype, shape (sizes or dims), range; each dim's min, max and multiple.

    `inputs` and `dims` as in pipeline.json and in bundle.json's interface. `batch` is the dim that
    counts items.
    """

    def __init__(self, inputs: Mapping[str, Any], dims: Mapping[str, Any], batch: str | None) -> None:
        self.inputs, self.dims, self.batch = inputs, dims, batch
        self._bounds = {
            name: (dim.get("min", 0), dim.get("max"), dim.get("multiple_of", 1)) for name, dim in dims.items()
        }
        self._ports = tuple(_Port.declared(name, port, batch) for name, port in inputs.items())

    def enter(self, values: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, Array]:
        """The tensors for the values of one item: batch axis inserted, cast, contiguous, checked.

        `fields` says, per input, which field of the request an error is to name.
        """
        tensors: dict[str, Array] = {}
        sizes: Sizes = {}
        for port in self._ports:
            field = fields[port.name]
            tensors[port.name] = tensor = port.tensor(values[port.name], field)
            self._check_numbers(port, tensor, field, sizes)
        return tensors

    def check(self, tensors: Mapping[str, Any], fields: Mapping[str, str] | None = None) -> None:
        """Nothing if the tensors may enter; RequestError names input, axis, size and bound."""
        fields = fields or {}
        _check_names(self.inputs, tensors)
        sizes: Sizes = {}
        for port in self._ports:
            field, tensor = fields.get(port.name, port.name), tensors[port.name]
            port.check_dtype(tensor, field)
            self._check_numbers(port, tensor, field, sizes)

    def _check_numbers(self, port: _Port, tensor: Array, field: str, sizes: Sizes) -> None:
        self._check_sizes(port, tensor.shape, field, sizes)
        bounds = port.range
        if bounds is not None and tensor.size and not within(tensor, *bounds):
            least = tensor.min()
            found = tensor.max() if least >= bounds[0] else least
            raise RequestError(field, f"{port.of(field)} holds {found}", f"values from {bounds[0]} to {bounds[1]}")

    def _check_sizes(self, port: _Port, found: tuple[int, ...], field: str, sizes: Sizes) -> None:
        if len(found) != len(port.shape):
            raise RequestError(field, f"{port.of(field)} of shape {list(found)}", f"shape {port.words}")
        for axis, (dim, size) in enumerate(zip(port.shape, found, strict=True)):
            if isinstance(dim, str):
                expected = self._misfit(dim, size, port.name, sizes)
            else:
                expected = "" if size == dim else f"{dim} (shape {port.words})"
            if expected:
                raise RequestError(field, f"axis {axis} of {port.of(field)} is {size}", expected)

    def _misfit(self, dim: str, size: int, name: str, sizes: Sizes) -> str:
        """What was expected, where the size does not fit; `sizes` collects what each dim was first."""
        first, other = sizes.setdefault(dim, (size, name))
        if first != size:
            return f"{first}, as {dim} is in {other}"
        least, most, multiple = self._bounds.get(dim, (0, None, 1))
        if size < least:
            return f"at least {least} ({dim})"
        if most is not None and size > most:
            return f"at most {most} ({dim})"
        return f"a multiple of {multiple} ({dim})" if size % multiple else ""


def _insert(shape: tuple[int | str, ...], batch: str | None) -> tuple[slice | None, ...] | None:
    """The index that gives one item its batch axis; None where the input has none."""
    if batch in shape:
        return (*(slice(None) for _ in range(shape.index(batch))), None)
    return (None,) if shape and shape[0] == 1 else None


def _check_names(inputs: Mapping[str, Any], tensors: Mapping[str, Any]) -> None:
    for name in tensors:
        if name not in inputs:
            raise RequestError(str(name), "an unknown input", f"the inputs {', '.join(inputs)}")
    for name in inputs:
        if name not in tensors:
            raise RequestError(name, "nothing", f"the input {name}")
