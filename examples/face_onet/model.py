"""O-Net, the last stage of MTCNN: is this window a face, and where in it are its box and its landmarks?

Zhang et al., *Joint Face Detection and Alignment using Multitask Cascaded Convolutional Networks*, 2016; the weights are
those of David Sandberg's facenet, as the package facenet-pytorch carries them.
"""

from __future__ import annotations

import torch
from torch import nn


class ONet(nn.Module):
    """The names are the checkpoint's own."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 32, 3), nn.PReLU(32)
        self.conv2, self.prelu2 = nn.Conv2d(32, 64, 3), nn.PReLU(64)
        self.conv3, self.prelu3 = nn.Conv2d(64, 64, 3), nn.PReLU(64)
        self.conv4, self.prelu4 = nn.Conv2d(64, 128, 2), nn.PReLU(128)
        # ceil_mode: Caffe, where the weights were trained, keeps the partial window at the edge.
        self.pool1 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.pool2 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.pool3 = nn.MaxPool2d(2, 2, ceil_mode=True)
        self.dense5, self.prelu5 = nn.Linear(1152, width), nn.PReLU(width)
        self.dense6_1, self.dense6_2, self.dense6_3 = nn.Linear(width, 2), nn.Linear(width, 4), nn.Linear(width, 10)

    def forward(self, pixels: torch.Tensor) -> dict[str, torch.Tensor]:
        """`pixels`: float32 [batch, 3, 48, 48], RGB, (value - 127.5) / 128.

        Gives `logits` [batch, 2] (no face, face), `box` [batch, 4] and `points` [batch, 10]: offsets in shares of the
        window's sides, x of five landmarks before their y.
        """
        features = self.pool1(self.prelu1(self.conv1(pixels)))
        features = self.pool2(self.prelu2(self.conv2(features)))
        features = self.pool3(self.prelu3(self.conv3(features)))
        features = self.prelu4(self.conv4(features))
        # The dense layer was trained on Caffe's order of the axes: width, height, channel.
        features = self.prelu5(self.dense5(features.permute(0, 3, 2, 1).flatten(1)))
        return {"logits": self.dense6_1(features), "box": self.dense6_2(features), "points": self.dense6_3(features)}


def build(width: int = 256) -> ONet:
    """The module without its weights."""
    return ONet(width).eval()
