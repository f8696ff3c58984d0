"""What enters and leaves the graph once steps are fused with the model: names, dtypes and shapes, as far as the spec tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dspec.spec.catalogue import Catalogue, Size, Value
from dspec.spec.fit import ANY, ARRAYS, item_shape
from dspec.spec.flows import Values, after, before, follow
from dspec.spec.models import BATCH, Spec, Tensor
from dspec.spec.placement import Misplaced, at, cone, entries, fused_before, leaving, reads
from dspec.spec.records import Interface, Port


@dataclass(frozen=True, kw_only=True, slots=True)
class Doors:
    """The ports of the fused model as far as the spec tells, and why some can't be."""

    inputs: Mapping[str, Port]
    outputs: Mapping[str, Port]
    problems: tuple[Misplaced, ...]

    def interface(self, spec: Spec) -> Interface:
        """The ports as an interface; the model's own where nothing is fused."""
        dims = spec.model.dims
        return Interface(
            inputs=dict(self.inputs), outputs=dict(self.outputs), dims=dims, batch=BATCH if BATCH in dims else None
        )


def doors(spec: Spec, catalogue: Catalogue) -> Doors:
    """What enters and leaves the graph. A size that is not known before running is the model's own where it gets there."""
    inputs = _Inputs(spec, catalogue)
    ports = {name: inputs.port(name) for name in entries(spec)}
    outputs, problems = _outputs(spec, catalogue)
    return Doors(
        inputs={name: port for name, port in ports.items() if isinstance(port, Port)},
        outputs=outputs,
        problems=(*(port for port in ports.values() if isinstance(port, Misplaced)), *problems),
    )


def _own(tensor: Tensor) -> Port:
    return Port(dtype=tensor.dtype, shape=tensor.shape, range=tensor.range)


class _Inputs:
    """The values that enter the graph, followed through its steps to the model's inputs."""

    def __init__(self, spec: Spec, catalogue: Catalogue) -> None:
        self.spec = spec
        self.steps = fused_before(spec)
        self.made = {name: reads(cone(self.steps, name)) for name in spec.model.inputs}
        values = before(spec, catalogue) if self.steps else {}
        self.marked = {name: _marked(name, values[name], catalogue) for name in reads(self.steps) if name in values}
        self.reached = follow(self.steps, self.marked, catalogue)
        self.sizes = self._sizes(self.reached)

    def _sizes(self, reached: Values) -> dict[str, int | str]:
        """Marked size → the size that the model's input has where it gets there."""
        found: dict[str, int | str] = {}
        for name in (name for name, made in self.made.items() if made):
            shape = reached[name].shape or ()
            wanted = self._item(name, len(shape))
            if len(shape) == len(wanted):
                found |= {size: want for size, want in zip(shape, wanted, strict=True) if self._loose(size)}  # type: ignore[misc]
        return found

    def _item(self, name: str, rank: int) -> tuple[int | str, ...]:
        """The shape of one item of a model's input; without a leading 1 where the value has one axis less."""
        tensor = self.spec.model.inputs[name]
        shape = item_shape(tensor.shape, self.spec.model.dims)
        return shape[1:] if shape == tensor.shape and shape[:1] == (1,) and rank == len(shape) - 1 else shape

    def _loose(self, size: Size) -> bool:
        return isinstance(size, str) and size not in self.spec.model.dims

    def port(self, name: str) -> Port | Misplaced:
        """The port of what enters under this name, or why it can't."""
        model = self.spec.model
        if name in model.inputs and not self.made[name]:
            return _own(model.inputs[name]) if name not in self.marked else self._refused(name, *_TWICE)
        value, feeds = self.marked.get(name), [fed for fed, made in self.made.items() if name in made]
        if value is None or value.kind == ANY or value.dtype is None or value.shape is None:
            return self._refused(name, *_UNTOLD)
        if value.kind not in ARRAYS:
            return self._refused(name, f"which is {value.kind}, no array", "an array", _HOST)
        if loose := [fed for fed in feeds if not self._within(fed)]:
            return self._refused(name, f"which becomes `{loose[0]}`, whose declared `range` nothing checks in the graph",
                                 "steps whose own range lies within it", f"{_HOST}, or drop the range")  # fmt: skip
        if len({BATCH in model.inputs[fed].shape for fed in feeds}) > 1:
            return self._refused(name, "which feeds inputs with a batch axis and without", "one of both", _HOST)
        open_axes = [axis for axis, size in enumerate(value.shape) if self._loose(size) and size not in self.sizes]
        if open_axes:
            return self._refused(name, *_unsized(name, open_axes))
        shape: Any = tuple(self.sizes.get(str(size), size) for size in value.shape)
        batched = BATCH in model.inputs[feeds[0]].shape
        return Port(dtype=value.dtype, shape=(BATCH, *shape) if batched else shape)

    def _within(self, fed: str) -> bool:
        """Whether what the steps give can't leave the declared range of a model's input: the door no longer sees it."""
        declared, found = self.spec.model.inputs[fed].range, self.reached[fed].range if fed in self.reached else None
        return declared is None or (found is not None and declared[0] <= found[0] and found[1] <= declared[1])

    def _refused(self, name: str, found: str, expected: str, hint: str) -> Misplaced:
        reader = next(step for step in self.steps if name in step.inputs)
        message = f"step `{reader.id}` in the graph reads `{name}`, {found}"
        return Misplaced(step=reader.id, message=message, expected=expected, hint=hint)


_HOST = "write `place: host` here"
_TWICE = ("which is an input of the model as well", "a value that only steps of the graph read", _HOST)
_UNTOLD = (
    "whose dtype and shape are not known before running",
    "a value whose step tells dtype and shape",
    f"{_HOST}; what a `python` step gives is only known when it runs",
)


def _unsized(name: str, axes: Sequence[int]) -> tuple[str, str, str]:
    of = f"size of axis {axes[0]} is" if len(axes) == 1 else f"sizes of axes {' and '.join(map(str, axes))} are"
    return (
        f"whose {of} not known before running",
        "sizes that a step on the host fixes, or that reach the model's input, where the spec declares them",
        f"let a step on the host fix the size of `{name}`: resize with `size: [height, width]`, center_crop with `size`",
    )


def _marked(name: str, value: Value, catalogue: Catalogue) -> Value:
    """The value with a name for each size that is not known, so that it is seen where that size gets to."""
    if value.shape is None:
        return value
    shape = tuple(f"{name}.{axis}" if size is None else size for axis, size in enumerate(value.shape))
    return catalogue.value(value.kind, value.dtype, shape)


def _outputs(spec: Spec, catalogue: Catalogue) -> tuple[dict[str, Port], list[Misplaced]]:
    """Ports of what leaves the graph, where the spec tells dtype and shape."""
    steps, outputs = at(spec.postprocess, "graph"), spec.model.outputs
    values = after(spec, catalogue) if steps else {}
    ports, problems = {}, []
    for name in leaving(spec, outputs):
        if name in outputs:
            ports[name] = _own(outputs[name])
            continue
        value = values[name]
        if value.kind not in (*ARRAYS, ANY):
            writer = next(step for step in steps if name in step.outputs)
            problems.append(_no_array(writer.id, name, value.kind))
        elif value.dtype is not None and value.shape is not None and None not in value.shape:
            batched = any(BATCH in outputs[read].shape for read in reads(cone(steps, name)) if read in outputs)
            shape: Any = (BATCH, *value.shape) if batched else value.shape
            ports[name] = Port(dtype=value.dtype, shape=shape)
    return ports, problems


def _no_array(step: str, name: str, kind: str) -> Misplaced:
    message = f"step `{step}` in the graph gives `{name}`, which is {kind}: a graph gives arrays alone"
    return Misplaced(step=step, message=message, expected="parameters with which it gives an array", hint=_HOST)
