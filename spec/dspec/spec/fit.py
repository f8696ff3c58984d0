"""Whether a value of the pipeline may enter the model: kind, dtype, rank, sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dspec.spec.catalogue import Size, Value
from dspec.spec.models import BATCH, Dim, Tensor
from dspec.spec.nodes import KeyPath

ANY = "any"
ARRAYS = ("tensor", "image", "number")  # kinds that are arrays of numbers, or become one
_RANK = {"bool": 0, "uint": 1, "int": 1, "float": 2, "bfloat": 2}


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """A value and where it comes from.

    Attributes:
        origin: in words; `path`: the key path of the step that wrote it, () for others.
        bound: the most its first axis may be where the size is not known before running; `multiple`: what such a size
            is a multiple of, None where the step does not tell.
    """

    value: Value
    origin: str
    path: KeyPath = ()
    bound: int | None = None
    multiple: int | None = None


def item_shape(shape: tuple[int | str, ...], dims: Mapping[str, Dim]) -> tuple[int | str, ...]:
    """The shape of one item: without the axis that counts items."""
    if BATCH not in dims or BATCH not in shape:
        return shape
    at = shape.index(BATCH)
    return shape[:at] + shape[at + 1 :]


def castable(dtype: str, to: str) -> bool:
    """Whether the door casts one dtype to the other: within a kind or upwards, never float → int, never to bool."""
    source, target = dtype.rstrip("0123456789"), to.rstrip("0123456789")
    if source not in _RANK or target not in _RANK:
        return True
    if "bool" in (source, target):
        return source == target
    return _RANK[source] <= _RANK[target]


def describe(value: Value) -> str:
    """`tensor float32 [3, 224, 224]`, unknown sizes as `?`."""
    shape = "" if value.shape is None else f" [{', '.join('?' if s is None else str(s) for s in value.shape)}]"
    return f"{value.kind}{f' {value.dtype}' if value.dtype else ''}{shape}"


def misfit(held: Held, tensor: Tensor, dims: Mapping[str, Dim]) -> str:
    """Why the value can't enter as this input, or ''."""
    value = held.value
    if value.kind == ANY:
        return ""
    if value.kind not in ARRAYS:
        return f"{value.kind} is no tensor"
    if value.dtype is not None and not castable(value.dtype, tensor.dtype):
        return f"{value.dtype} does not become {tensor.dtype} without loss"
    if value.shape is None:
        return ""
    return _shape_misfit(value.shape, held, tensor, dims)


def _shape_misfit(found: tuple[Size, ...], held: Held, tensor: Tensor, dims: Mapping[str, Dim]) -> str:
    wanted = item_shape(tensor.shape, dims)
    if len(found) != len(wanted) and wanted == tensor.shape and wanted[:1] == (1,):
        wanted = wanted[1:]
    if len(found) == len(tensor.shape):
        wanted = tensor.shape
    if len(found) != len(wanted):
        shown = ", ".join(map(str, wanted))
        return f"it has {len(found)} axes, one item of the input has {len(wanted)} ([{shown}])"
    unknown = Held(value=held.value, origin="")
    misfits = (
        _size_misfit(axis, size, unknown if axis else held, want, dims)
        for axis, (size, want) in enumerate(zip(found, wanted, strict=True))
    )
    return next((text for text in misfits if text), "")


def _size_misfit(axis: int, size: Size, held: Held, wanted: int | str, dims: Mapping[str, Dim]) -> str:
    dim = dims.get(wanted) if isinstance(wanted, str) else None
    if size is None and dim:
        return _loose_misfit(held, str(wanted), dim)
    if not isinstance(size, int):
        return ""
    if isinstance(wanted, int):
        return "" if size == wanted else f"axis {axis} is {size}, the input's is {wanted}"
    if dim is None:
        return ""
    if size < dim.min or (dim.max is not None and size > dim.max) or size % dim.multiple_of:
        most = "any" if dim.max is None else dim.max
        multiple = f" in steps of {dim.multiple_of}" if dim.multiple_of > 1 else ""
        return f"axis {axis} is {size}, `{wanted}` goes from {dim.min} to {most}{multiple}"
    return ""


def _loose_misfit(held: Held, wanted: str, dim: Dim) -> str:
    """Of a size that is known only when running: what it may be at most, and the steps it goes in."""
    if held.bound is not None and dim.max is not None and held.bound > dim.max:
        return f"it may be up to {held.bound} long, `{wanted}` is at most {dim.max}"
    if held.multiple is not None and held.multiple % dim.multiple_of:
        found = "of any length" if held.multiple == 1 else f"long a multiple of {held.multiple}"
        return f"it may be {found}, `{wanted}` goes in steps of {dim.multiple_of}"
    return ""
