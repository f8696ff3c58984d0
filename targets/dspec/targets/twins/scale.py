"""Twin of scale."""

from __future__ import annotations

import torch
from torch import nn

from dspec.targets.shipped.steps.scale import Scale


class Twin(nn.Module):
    """Exact: the same two float32 operations."""

    factor: torch.Tensor
    offset: torch.Tensor | None

    def __init__(self, step: Scale) -> None:
        super().__init__()
        self.register_buffer("factor", torch.tensor(step.factor, dtype=torch.float32), persistent=False)
        shift = torch.tensor(step.offset, dtype=torch.float32) if step.offset else None
        self.register_buffer("offset", shift, persistent=False)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        scaled = value.to(torch.float32) * self.factor
        return scaled if self.offset is None else scaled + self.offset


TWIN = Twin
