"""Twin of unit_variance."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import nn

from dspec.targets.shipped.steps.unit_variance import UnitVariance


class Twin(nn.Module):
    """Within 2e-6 of a value: the step sums the squares in float32, whose error grows with their count.

    Measured: 3e-7 over 16,000 samples, 6e-7 over 160,000, 1.3e-6 over 480,000.
    """

    atol: ClassVar[float] = 1e-7
    rtol: ClassVar[float] = 2e-6

    def __init__(self, step: UnitVariance) -> None:
        super().__init__()
        self.step = step

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        given = value.to(torch.float64)
        centred = given - given.mean(-1, keepdim=True)
        count = value.shape[-1] - (self.step.deviation == "sample")
        deviation = ((centred * centred).sum(-1, keepdim=True) / count).sqrt()
        return (centred / deviation.clamp(min=self.step.floor)).to(torch.float32)


TWIN = Twin
