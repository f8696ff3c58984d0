"""Twin of clip."""

from __future__ import annotations

import torch
from torch import nn

from dspec.targets.shipped.steps.clip import Clip


class Twin(nn.Module):
    """Exact."""

    low: torch.Tensor | None
    high: torch.Tensor | None

    def __init__(self, step: Clip) -> None:
        super().__init__()
        for name, bound in (("low", step.low), ("high", step.high)):
            whole = None if bound is None else torch.tensor(bound, dtype=torch.float64)
            self.register_buffer(name, whole, persistent=False)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        if self.low is not None:
            value = torch.maximum(value, self.low.to(value.dtype))
        return value if self.high is None else torch.minimum(value, self.high.to(value.dtype))


TWIN = Twin
