"""The captured program between the twins of its steps, as one flat module that can be exported again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule, Interpreter
from torch.fx.traceback import preserve_node_meta

from dspec.compiler.capture.flat import Flat
from dspec.spec.models import StepUse
from dspec.spec.records import Interface, Port
from dspec.targets.shipped.forward import Answers, Call

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True, kw_only=True, slots=True)
class Door:
    """How one tensor of the graph stands to one item of it. `axis`: where items are counted; None: it is one item."""

    name: str
    axis: int | None

    @classmethod
    def of(cls, name: str, port: Port, batch: str | None) -> Door:
        return cls(name=name, axis=port.shape.index(batch) if batch is not None and batch in port.shape else None)

    def lifted(self, tensor: torch.Tensor) -> torch.Tensor:
        """Items in front, as twins take them."""
        if self.axis is None:
            return tensor.unsqueeze(0)
        return tensor.movedim(self.axis, 0) if self.axis else tensor


class Chain(nn.Module):
    """Twins wired as the spec wires their steps. Values have items in front."""

    def __init__(self, steps: Sequence[StepUse], twins: Sequence[nn.Module]) -> None:
        super().__init__()
        self.steps = tuple(steps)
        self.twins = nn.ModuleList(twins)

    def forward(self, values: Tensors) -> Tensors:
        """The values given and those that the steps give."""
        values = dict(values)
        for step, twin in zip(self.steps, self.twins, strict=True):
            found = twin(*(values[name] for name in step.inputs))
            values.update(zip(step.outputs, found if isinstance(found, tuple) else (found,), strict=True))
        return values


class Fused(Flat):
    """Tensors of the fused interface in, in order; a tuple of those that leave out.

    The program's own weights keep their names: they hang on `module`, as in any flat module.
    """

    def __init__(
        self, module: GraphModule, model: Interface, before: Chain, after: Chain, entering: Mapping[str, Port],
        leaving: Sequence[str],
    ) -> None:  # fmt: skip
        super().__init__(module, _as_given(), Answers(names=tuple(leaving), paths=tuple(leaving), count=None))
        self.model, self.before, self.after = model, before, after
        self.entering = tuple(Door.of(name, port, model.batch) for name, port in entering.items())
        self.outputs = tuple(Door.of(name, port, model.batch) for name, port in model.outputs.items())

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Steps before, model, steps after."""
        given = dict(zip((door.name for door in self.entering), self.tied(tensors), strict=True))
        made = self.before({door.name: door.lifted(given[door.name]) for door in self.entering})
        written = {name for step in self.before.steps for name in step.outputs}
        inputs = [
            _lowered(made[name], port, self.model.batch) if name in written else given[name]
            for name, port in self.model.inputs.items()
        ]
        with preserve_node_meta():  # the model's nodes keep the user's lines
            results = Interpreter(self.module).run(*inputs)
        answers = dict(zip(self.model.outputs, results, strict=True))
        return self.answers.select(answers | self._after(answers))

    def _after(self, answers: Tensors) -> Tensors:
        found = self.after({door.name: door.lifted(answers[door.name]) for door in self.outputs})
        counted = {door.name: door.axis is not None for door in self.outputs}
        for step in self.after.steps:
            counted |= dict.fromkeys(step.outputs, any(counted[name] for name in step.inputs))
        return {
            name: found[name] if counted[name] else found[name].squeeze(0)
            for name in found
            if name not in answers
        }  # fmt: skip


def _as_given() -> Call:
    return Call(positional=(), spread=(), keywords={}, constants={})


def _lowered(value: torch.Tensor, port: Port, batch: str | None) -> torch.Tensor:
    """Items in front → what the model's input is: its dtype, its axis of items."""
    value = value.to(getattr(torch, port.dtype))
    if batch is not None and batch in port.shape:
        axis = port.shape.index(batch)
        return value.movedim(0, axis) if axis else value
    return value if value.ndim == len(port.shape) else value.squeeze(0)


def twins_of(steps: Sequence[StepUse]) -> list[nn.Module]:
    """The twins of the steps, with their parameters."""
    from dspec.spec.flows import instance
    from dspec.targets import catalogue, twins

    made: list[Any] = [twins.load(step.use)(instance(step, catalogue())) for step in steps]
    return made
