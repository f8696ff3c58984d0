"""EfficientNet-Lite0: the architecture of `efficientnet-lite-pytorch`; dspec loads the weights."""

from __future__ import annotations

import torch
from efficientnet_lite_pytorch import EfficientNet


class Classifier(EfficientNet):
    """Normalised photographs in, one logit per ImageNet class out."""

    def forward(self, pixels: torch.Tensor) -> dict[str, torch.Tensor]:
        """`pixels`: float32 [batch, 3, 224, 224]. Gives `logits`, float32 [batch, 1000]."""
        return {"logits": super().forward(pixels)}


def build(variant: str = "efficientnet-lite0") -> Classifier:
    """The module without its weights. `from_pretrained` would unpickle them, so it is not used."""
    return Classifier.from_name(variant).eval()
