"""The path that is not fused: the shipped steps, item by item, on both sides of the captured program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dspec.compiler.capture.eager import to_numpy
from dspec.compiler.capture.shapes import Array, Arrays
from dspec.spec.models import Spec, StepUse
from dspec.spec.placement import at, fused_before
from dspec.spec.records import Interface, Port
from dspec.targets.protocol import Program
from dspec.targets.shipped.pipeline import Pipeline, open_step

Opened = tuple[StepUse, Callable[..., Any]]


class Unfused:
    """`whole`: the pipeline with every step on the host; `fused`: the interface that tensors come from and go to."""

    def __init__(self, spec: Spec, whole: Pipeline, folder: Path, program: Program, fused: Interface) -> None:
        self.whole, self.program, self.fused = whole, program, fused
        self.before = _opened(fused_before(spec), whole.declared["before"], folder)
        self.after = _opened(at(spec.postprocess, "graph"), whole.declared["after"], folder)

    def at_model(self, entering: Arrays) -> dict[str, Array]:
        """What the steps before the model make of what enters the graph."""
        model = self.program.interface
        made = []
        for item in self._items(entering, self.fused.inputs):
            values = _run(self.before, item)
            made.append(
                self.whole.door.enter(
                    {name: values[name] for name in model.inputs}, dict(zip(model.inputs, model.inputs, strict=True))
                )
            )
        return {name: self._joined([one[name] for one in made], port) for name, port in model.inputs.items()}

    def leaving(self, answers: Arrays) -> dict[str, Array]:
        """What the steps after the model make of its answers, as far as it leaves the graph."""
        items = [_run(self.after, item) for item in self._items(answers, self.program.interface.outputs)]
        return {
            name: answers[name] if name in answers else self._stacked([item[name] for item in items], port)
            for name, port in self.fused.outputs.items()
        }

    def answers(self, inputs: Arrays) -> dict[str, Array]:
        """The captured program's, in PyTorch."""
        model = self.program.interface
        tensors = [torch.from_numpy(inputs[name]).to(getattr(torch, port.dtype)) for name, port in model.inputs.items()]
        with torch.no_grad():
            results = self._module(*tensors)
        return {name: to_numpy(result) for name, result in zip(model.outputs, results, strict=True)}

    @cached_property
    def _module(self) -> Any:
        return torch.export.load(self.program.path).module()

    def _axis(self, port: Port) -> int | None:
        batch = self.fused.batch
        return port.shape.index(batch) if batch is not None and batch in port.shape else None

    def _items(self, arrays: Arrays, ports: Mapping[str, Port]) -> Iterable[dict[str, Array]]:
        """Each item's values, without the axis that counts them."""
        axes = {name: self._axis(ports[name]) for name in arrays}
        counts = [arrays[name].shape[axis] for name, axis in axes.items() if axis is not None]
        for number in range(max(counts, default=1)):
            yield {
                name: array if (axis := axes[name]) is None else array.take(number, axis)
                for name, array in arrays.items()
            }  # fmt: skip

    def _joined(self, arrays: Sequence[Array], port: Port) -> Array:
        axis = self._axis(port)
        return arrays[0] if axis is None else np.concatenate(arrays, axis)

    def _stacked(self, items: Sequence[Any], port: Port) -> Array:
        axis = self._axis(port)
        return np.asarray(items[0]) if axis is None else np.stack(items, axis)


def _opened(steps: Sequence[StepUse], declared: Sequence[Mapping[str, Any]], folder: Path) -> tuple[Opened, ...]:
    params = {use["id"]: use["params"] for use in declared}
    return tuple((step, open_step(step.use, params[step.id], folder)) for step in steps)


def _run(steps: Sequence[Opened], given: Mapping[str, Any]) -> dict[str, Any]:
    values = dict(given)
    for step, function in steps:
        found = function(*(values[name] for name in step.inputs))
        values.update(zip(step.outputs, (found,) if len(step.outputs) == 1 else found, strict=True))
    return values
