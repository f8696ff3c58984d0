"""Twin of normalize."""

from __future__ import annotations

import torch
from torch import nn

from dspec.targets.shipped.steps.normalize import Normalize


class Twin(nn.Module):
    """Exact: the same two float32 operations."""

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, step: Normalize) -> None:
        super().__init__()
        for name, numbers in (("mean", step.mean), ("std", step.std)):
            self.register_buffer(name, _per_channel(numbers, step.layout), persistent=False)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return (value.to(torch.float32) - self.mean) / self.std


def _per_channel(numbers: float | tuple[float, ...], layout: str) -> torch.Tensor:
    """One number, or one per channel, in a shape that broadcasts over a batch."""
    if isinstance(numbers, int | float) or len(numbers) == 1:
        one = numbers if isinstance(numbers, int | float) else numbers[0]
        return torch.tensor(one, dtype=torch.float32)
    several = torch.tensor(numbers, dtype=torch.float32)
    return several if layout == "hwc" else several.reshape(-1, 1, 1)


TWIN = Twin
