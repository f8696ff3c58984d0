"""Twin of center_crop."""

from __future__ import annotations

import torch
from torch import nn

from dspec.targets.shipped.steps.center_crop import CenterCrop


class Twin(nn.Module):
    """Exact. Height and width are numbers when the graph is made: a picture too small is told then, not when it runs."""

    def __init__(self, step: CenterCrop) -> None:
        super().__init__()
        self.step = step

    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        found = (int(picture.shape[1]), int(picture.shape[2]))
        height, width = self.step._size(found)
        top, left = self.step._margin(found[0] - height), self.step._margin(found[1] - width)
        return picture[:, top : top + height, left : left + width]


TWIN = Twin
