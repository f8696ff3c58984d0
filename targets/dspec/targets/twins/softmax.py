"""Twin of softmax."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import nn

from dspec.targets.shipped.steps.softmax import Softmax


class Twin(nn.Module):
    """Within a few units in the last place of float32: the step's own order, with another exp and sums in another order.

    The greatest score is subtracted before the division: after it, what rounding leaves of scores / 0.07 is multiplied.
    """

    atol: ClassVar[float] = 1e-7
    rtol: ClassVar[float] = 2e-6

    def __init__(self, step: Softmax) -> None:
        super().__init__()
        self.axis = step.axis + 1 if step.axis >= 0 else step.axis
        self.temperature = step.temperature

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        given = scores.to(torch.float32)
        if self.temperature != 1:
            given = (given - given.amax(self.axis, keepdim=True)) / self.temperature
        return torch.softmax(given, self.axis)


TWIN = Twin
