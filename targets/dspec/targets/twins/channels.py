"""Twin of channels."""

from __future__ import annotations

import torch
from torch import nn

from dspec.targets.shipped.steps.channels import AXIS, Channels

_BITS = {"pillow": 16, "opencv": 15}


class Twin(nn.Module):
    """Exact: integers where the step takes integers, else the same float32 sum."""

    def __init__(self, step: Channels) -> None:
        super().__init__()
        self.step, self.axis = step, AXIS[step.layout]

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        if self.step.to == "bgr":
            return torch.flip(value, (self.axis,))
        if self.step.to == "rgb":
            return torch.cat((value, value, value), self.axis)
        return self._grey(value)

    def _grey(self, value: torch.Tensor) -> torch.Tensor:
        planes = [plane.unsqueeze(self.axis) for plane in value.unbind(self.axis)]
        if value.dtype is not torch.uint8 or self.step.rounding == "floor":
            first, second, third = (
                plane.to(torch.float32) * weight for plane, weight in zip(planes, self._floats(), strict=True)
            )
            grey = first + second + third
            return grey.to(torch.int32).to(torch.uint8) if value.dtype is torch.uint8 else grey
        bits = _BITS[self.step.rounding]
        whole = [round(weight * (1 << bits)) for weight in self.step.weights[:2]]
        whole.append((1 << bits) - sum(whole))
        first, second, third = (plane.to(torch.int32) * weight for plane, weight in zip(planes, whole, strict=True))
        total = first + second + third + (1 << bits - 1)
        return torch.div(total, 1 << bits, rounding_mode="floor").to(torch.uint8)

    def _floats(self) -> list[torch.Tensor]:
        return [torch.tensor(weight, dtype=torch.float32) for weight in self.step.weights]


TWIN = Twin
