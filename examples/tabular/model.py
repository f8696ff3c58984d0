"""A small network over the features of one wine; dspec loads the weights."""

from __future__ import annotations

import torch
from torch import nn

FEATURES = 16  # twelve measurements, and the colour as one of four
CLASSES = 3


class Classifier(nn.Module):
    """Standardised features in, one logit per cultivator out."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(FEATURES, hidden), nn.ReLU(), nn.Linear(hidden, CLASSES))

    def forward(self, features: torch.Tensor) -> dict[str, torch.Tensor]:
        """`features`: float32 [batch, 16]. Gives `logits`, float32 [batch, 3]."""
        return {"logits": self.layers(features)}


def build(hidden: int = 16) -> Classifier:
    """The module without its weights."""
    return Classifier(hidden).eval()
