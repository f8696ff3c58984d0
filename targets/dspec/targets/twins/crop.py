"""Twin of crop."""

from __future__ import annotations

import torch
from torch import nn

from dspec.targets.shipped.steps.crop import Crop


class Twin(nn.Module):
    """Exact."""

    def __init__(self, step: Crop) -> None:
        super().__init__()
        self.rows = slice(step.top, step.top + step.height)
        self.columns = slice(step.left, step.left + step.width)

    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        return picture[:, self.rows, self.columns]


TWIN = Twin
