"""Twin of standardize."""

from __future__ import annotations

import torch
from torch import nn

from dspec.targets.shipped.steps.standardize import Standardize


class Twin(nn.Module):
    """Exact: float64, rounded once. What float32 can't hold, which the step refuses, becomes infinite."""

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, step: Standardize) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(step.mean, dtype=torch.float64), persistent=False)
        self.register_buffer("std", torch.tensor(step.std, dtype=torch.float64), persistent=False)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return ((value.to(torch.float64) - self.mean) / self.std).to(torch.float32)


TWIN = Twin
