"""Checks of shapes and dims."""

from __future__ import annotations

from collections.abc import Iterator

from dspec.spec.context import Context
from dspec.spec.dims import ExpressionError, is_name, names
from dspec.spec.errors import Diagnostic
from dspec.spec.models import BATCH
from dspec.spec.nearest import did_you_mean, listed, nearest
from dspec.spec.nodes import KeyPath
from dspec.spec.sources import dotted

Sized = tuple[KeyPath, int | str]


def _sizes(context: Context, side: str) -> Iterator[Sized]:
    tensors = context.spec.model.inputs if side == "inputs" else context.spec.model.outputs
    for name, tensor in tensors.items():
        for axis, size in enumerate(tensor.shape):
            yield ("model", side, name, "shape", axis), size


def _request_sizes(context: Context) -> Iterator[Sized]:
    for name, field in context.spec.request.items():
        for axis, size in enumerate(field.shape or ()):
            yield ("request", name, "shape", axis), size


def _names_in(size: int | str) -> tuple[str, ...]:
    try:
        return names(size) if isinstance(size, str) and not is_name(size) else (str(size),) * isinstance(size, str)
    except ExpressionError:
        return ()


def undeclared_in_inputs(context: Context) -> Iterator[Diagnostic]:
    """Inputs and request fields name dims; expressions are for outputs."""
    for path, size in [*_sizes(context, "inputs"), *_request_sizes(context)]:
        if isinstance(size, str) and not is_name(size):
            yield context.found("E0305", path, f"`{size}` is no dim", expected="a whole number or a declared dim",
                                hint="expressions stand in outputs only; declare the input's size as a dim")  # fmt: skip
        elif isinstance(size, str) and size not in context.spec.model.dims:
            yield _undeclared(context, path, size, size)


def undeclared_in_outputs(context: Context) -> Iterator[Diagnostic]:
    for path, size in _sizes(context, "outputs"):
        try:
            missing = [name for name in names(size) if name not in context.spec.model.dims]
        except ExpressionError as error:
            yield context.found("E0305", path, f"`{size}`: {error}", expected="a size, a dim, or seq//2, 2*batch, (h+1)//2",
                                hint="correct the expression")  # fmt: skip
            continue
        for name in missing:
            yield _undeclared(context, path, name, str(size))


def _undeclared(context: Context, path: KeyPath, name: str, size: str) -> Diagnostic:
    dims = context.spec.model.dims
    inside = "" if name == size else f" (in `{size}`)"
    return context.found("E0301", path, f"undeclared dim `{name}`{inside} in `{dotted(path[:3])}`",
                         expected=f"a dim of model.dims: {listed(dims)}",
                         hint=did_you_mean(name, dims, f"declare it: `dims: {{{name}: {{min: 1, max: …}}}}`"))  # fmt: skip


def unused_dims(context: Context) -> Iterator[Diagnostic]:
    sizes = [*_sizes(context, "inputs"), *_sizes(context, "outputs"), *_request_sizes(context)]
    used = {name for _, size in sizes for name in _names_in(size)}
    dims = context.spec.model.dims
    misspelt = {nearest(name, dims) for name in used if name not in dims}  # told where they are misspelt
    for name in dims:
        if name not in used | misspelt:
            yield context.found("E0302", ("model", "dims", name), f"the dim `{name}` stands in no shape", on="key",
                                expected="declared dims that a shape uses", hint="use it in a shape, or remove it")  # fmt: skip


def dim_bounds(context: Context) -> Iterator[Diagnostic]:
    for name, dim in context.spec.model.dims.items():
        path: KeyPath = ("model", "dims", name)
        if not context.draft.sound(f"model.dims.{name}"):
            continue
        if dim.max is not None and dim.min > dim.max:
            yield context.found("E0303", (*path, "min"), f"`{name}` has min {dim.min} above max {dim.max}",
                                expected="min ≤ max", hint="exchange or correct them")  # fmt: skip
        elif dim.max is not None and dim.max % dim.multiple_of:
            last = dim.max - dim.max % dim.multiple_of
            yield context.found("E0303", (*path, "max"), f"`{name}` can't be {dim.max}: no multiple of {dim.multiple_of}",
                                expected=f"a max that is a multiple of {dim.multiple_of}",
                                hint=f"write {last or dim.multiple_of}")  # fmt: skip
        elif dim.min % dim.multiple_of and context.sources.node((*path, "min")) is not None:
            first = dim.min + dim.multiple_of - dim.min % dim.multiple_of
            yield context.found("E0303", (*path, "min"), f"`{name}` can't be {dim.min}: no multiple of {dim.multiple_of}",
                                expected=f"a min that is a multiple of {dim.multiple_of}", hint=f"write {first}")  # fmt: skip


def fixed_sizes(context: Context) -> Iterator[Diagnostic]:
    for side in ("inputs", "outputs"):
        yield from _below_one(context, list(_sizes(context, side)))


def request_sizes(context: Context) -> Iterator[Diagnostic]:
    yield from _below_one(context, list(_request_sizes(context)))
    for path, size in _request_sizes(context):
        if size == BATCH:
            yield context.found("E0317", path, "a request is one item and has no batch axis",
                                expected="the shape of one item", hint="leave `batch` out of the field's shape")  # fmt: skip


def _below_one(context: Context, sizes: list[Sized]) -> Iterator[Diagnostic]:
    for path, size in sizes:
        if isinstance(size, int) and size < 1:
            yield context.found("E0306", path, f"the size {size} in `{dotted(path[:3])}`", expected="at least 1",
                                hint="name a dim where the size varies: shape: [batch, …]")  # fmt: skip


def missing_max(context: Context) -> Iterator[Diagnostic]:
    needy = [name for name, target in context.spec.targets.items()
             if (entry := context.catalogue.runtimes.get(target.runtime)) and entry.needs_max]  # fmt: skip
    in_inputs = {size for _, size in _sizes(context, "inputs")}
    for name, dim in context.spec.model.dims.items():
        sound = context.draft.sound(f"model.dims.{name}")
        if needy and sound and dim.max is None and name in in_inputs:
            runtimes = {context.spec.targets[target].runtime for target in needy}
            yield context.found("E0304", ("model", "dims", name), f"the dim `{name}` has no max, which target "
                                f"{listed(needy)} needs", on="key",
                                expected=f"`max`: {listed(sorted(runtimes))} plans its memory for the largest size",
                                hint="add `max`")  # fmt: skip


def ranges(context: Context) -> Iterator[Diagnostic]:
    for side, tensors in (("inputs", context.spec.model.inputs), ("outputs", context.spec.model.outputs)):
        for name, tensor in tensors.items():
            if tensor.range and tensor.range[0] > tensor.range[1]:
                path: KeyPath = ("model", side, name, "range")
                yield context.found("E0326", path, f"the range of `{name}` goes from {tensor.range[0]:g} down to "
                                    f"{tensor.range[1]:g}", expected="[least, greatest]", hint="exchange them")  # fmt: skip
