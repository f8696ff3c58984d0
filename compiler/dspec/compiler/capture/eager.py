"""The original module, called with arrays by name: the truth everything else is held against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from dspec.compiler.capture.shapes import Array, Arrays
from dspec.compiler.capture.usercode import UserCode
from dspec.spec.models import Tensor
from dspec.targets.shipped.forward import Answers, Call


@dataclass(frozen=True, kw_only=True, slots=True)
class Eager:
    """The module with its inputs' declared names and dtypes."""

    module: nn.Module
    call: Call
    inputs: Mapping[str, Tensor]
    code: UserCode

    def tensors(self, arrays: Arrays) -> tuple[torch.Tensor, ...]:
        """The arrays as tensors of the declared dtype, in spec order, each with storage of its own."""
        return tuple(
            torch.from_numpy(np.array(arrays[name], order="C", copy=True)).to(getattr(torch, tensor.dtype))
            for name, tensor in self.inputs.items()
        )

    def result(self, tensors: Sequence[torch.Tensor]) -> Any:
        """What forward returns; whatever it raises comes through."""
        args, keywords = self.call.arguments(tensors)
        with torch.inference_mode():
            return self.module(*args, **keywords)

    def answers(self, arrays: Arrays, answers: Answers) -> dict[str, Array]:
        """The outputs by name. bfloat16, which numpy lacks, comes as float32 of the same value."""
        with self.code.watch.running():
            selected = answers.select(self.result(self.tensors(arrays)))
        return {name: to_numpy(tensor) for name, tensor in zip(answers.names, selected, strict=True)}


def to_numpy(tensor: torch.Tensor) -> Array:
    """An array with storage of its own."""
    plain = tensor.detach().to(torch.float32) if tensor.dtype is torch.bfloat16 else tensor.detach()
    return np.array(plain.resolve_conj().resolve_neg().numpy(), order="C", copy=True)
