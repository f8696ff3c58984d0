"""Twin of layout."""

from __future__ import annotations

import torch
from torch import nn

from dspec.targets.shipped.steps.layout import ORDER, Layout


class Twin(nn.Module):
    """Exact."""

    def __init__(self, step: Layout) -> None:
        super().__init__()
        self.order = (0, *(axis + 1 for axis in ORDER[step.to]))

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return value.permute(self.order)


TWIN = Twin
