"""The model's door: what a tensor must be to enter, and how a value becomes such a tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .arrays import NUMBERS, Array, cast, dtype
from .errors import RequestError


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
        self._dtypes = {name: dtype(port["dtype"]) for name, port in inputs.items()}

    def enter(self, values: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, Array]:
        """The tensors for the values of one item: batch axis inserted, cast, contiguous, checked.

        `fields` says, per input, which field of the request an error is to name.
        """
        tensors = {name: self._fit(name, values[name], fields[name]) for name in self.inputs}
        self.check(tensors, fields)
        return tensors

    def check(self, tensors: Mapping[str, Any], fields: Mapping[str, str] | None = None) -> None:
        """Nothing if the tensors may enter; RequestError names input, axis, size and bound."""
        fields = fields or {}
        _check_names(self.inputs, tensors)
        sizes: dict[str, tuple[int, str]] = {}
        for name, port in self.inputs.items():
            field = fields.get(name, name)
            self._check_dtype(name, tensors[name], field)
            self._check_sizes(name, tensors[name].shape, field, sizes)
            _check_range(name, port.get("range"), tensors[name], field)

    def _fit(self, name: str, value: Any, field: str) -> Array:
        array = np.asarray(value)
        if array.dtype.kind not in NUMBERS:
            raise RequestError(
                field,
                f"{_input(name, field)} is no array of numbers",
                f"{self.inputs[name]['dtype']}",
            )
        shape = self.inputs[name]["shape"]
        if self.batch in shape and array.ndim == len(shape) - 1:
            axis = shape.index(self.batch)
            array = array.reshape(*array.shape[:axis], 1, *array.shape[axis:])
        elif array.ndim == len(shape) - 1 and shape[0] == 1:
            array = array[np.newaxis]
        try:
            return cast(array, self._dtypes[name])
        except ValueError as error:
            raise RequestError(field, f"{_input(name, field)} has {error}", self._dtypes[name].name) from error

    def _check_dtype(self, name: str, tensor: Any, field: str) -> None:
        if not isinstance(tensor, np.ndarray) or tensor.dtype != self._dtypes[name]:
            found = tensor.dtype if isinstance(tensor, np.ndarray) else type(tensor).__name__
            raise RequestError(field, f"{_input(name, field)} of dtype {found}", f"{self._dtypes[name].name}")

    def _check_sizes(self, name: str, found: tuple[int, ...], field: str, sizes: dict[str, tuple[int, str]]) -> None:
        shape = self.inputs[name]["shape"]
        if len(found) != len(shape):
            raise RequestError(field, f"{_input(name, field)} of shape {list(found)}", f"shape {_words(shape)}")
        for axis, size in enumerate(found):
            expected = self._misfit(shape, axis, size, name, sizes)
            if expected:
                raise RequestError(field, f"axis {axis} of {_input(name, field)} is {size}", expected)

    def _misfit(self, shape: Any, axis: int, size: int, name: str, sizes: dict[str, tuple[int, str]]) -> str:
        """What was expected, where the size does not fit; `sizes` collects what each dim was first."""
        dim = shape[axis]
        if isinstance(dim, int):
            return "" if size == dim else f"{dim} (shape {_words(shape)})"
        first, other = sizes.setdefault(dim, (size, name))
        if first != size:
            return f"{first}, as {dim} is in {other}"
        least, most, multiple = self._bounds.get(dim, (0, None, 1))
        if size < least:
            return f"at least {least} ({dim})"
        if most is not None and size > most:
            return f"at most {most} ({dim})"
        return f"a multiple of {multiple} ({dim})" if size % multiple else ""


def _input(name: str, field: str) -> str:
    return "the tensor" if name == field else f"input {name}"


def _words(shape: Any) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _check_names(inputs: Mapping[str, Any], tensors: Mapping[str, Any]) -> None:
    for name in tensors:
        if name not in inputs:
            raise RequestError(str(name), "an unknown input", f"the inputs {', '.join(inputs)}")
    for name in inputs:
        if name not in tensors:
            raise RequestError(name, "nothing", f"the input {name}")


def _check_range(name: str, bounds: Any, tensor: Array, field: str) -> None:
    if bounds is None or not tensor.size:
        return
    least, most = tensor.min(), tensor.max()
    # NaN fails both comparisons, as it should.
    if not (least >= bounds[0] and most <= bounds[1]):
        found = most if least >= bounds[0] else least
        raise RequestError(
            field,
            f"{_input(name, field)} holds {found}",
            f"values from {bounds[0]} to {bounds[1]}",
        )
