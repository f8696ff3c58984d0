"""The flat module that is exported: tensors in spec order in, a tuple of tensors in spec order out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from dspec.targets.shipped.forward import Answers, Call

PREFIX = "module."  # where Flat keeps the user's module; taken off every name again


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """A dynamic size: which input, which axis, which declared dim."""

    input: int
    axis: int
    dim: str


@dataclass(kw_only=True, slots=True)
class Noted:
    """The symbol of each axis before user code ran. torch.export resets plain dicts that hang on a module."""

    symbols: dict[Axis, Any] = field(default_factory=dict)


class Flat(nn.Module):
    """No user class is needed to call it once it is exported."""

    def __init__(self, module: nn.Module, call: Call, answers: Answers) -> None:
        super().__init__()
        self.module, self.call, self.answers = module, call, answers
        self.axes: Sequence[Axis] = ()  # where declared dims stand; those of one name are told to be equal
        self.copied: frozenset[int] = frozenset()  # inputs that forward changes in place: it gets a copy of them
        self.noted = Noted()

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Tensors in spec order, in and out."""
        args, keywords = self.call.arguments(self.tied(tensors))
        return self.answers.select(self.module(*args, **keywords))

    def tied(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The tensors, sizes of one dim told to be equal, with copies of those that forward changes."""
        first: dict[str, Any] = {}
        for place in self.axes:
            size = tensors[place.input].shape[place.axis]
            self.noted.symbols[place] = size.node.expr if isinstance(size, torch.SymInt) else size
            torch._check(size == first.setdefault(place.dim, size))  # type: ignore[no-untyped-call]
        return [tensor.clone() if number in self.copied else tensor for number, tensor in enumerate(tensors)]
