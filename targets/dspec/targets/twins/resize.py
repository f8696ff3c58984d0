"""Twin of resize: Pillow's and OpenCV's fixed-point arithmetic as tensor operations."""

from __future__ import annotations

import torch
from torch import nn

from dspec.targets.shipped import opencv
from dspec.targets.shipped.steps.resize import Resize
from dspec.targets.twins import _pillow


class Twin(nn.Module):
    """Exact. Height and width are numbers when the graph is made.

    Pillow's filters run as two products of float64 matrices, whose numbers are whole and below 2**53. That is slower than
    Pillow itself (5 to 20 times, on a CPU): resize on the host where the host can.
    """

    def __init__(self, step: Resize) -> None:
        super().__init__()
        self.step = step

    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        found = (int(picture.shape[1]), int(picture.shape[2]))
        wanted = self.step._size(*found)
        if self.step.library == "opencv":
            return _opencv(self.step.filter, picture, wanted)
        if self.step.filter == "nearest":
            rows, columns = (_pillow.nearest(old, new) for old, new in zip(found, wanted, strict=True))
            return _taken(picture, rows, columns)
        planes = picture.permute(0, 3, 1, 2).to(torch.float64)
        if found[1] != wanted[1]:
            planes = _rounded(planes @ torch.from_numpy(_pillow.weights(found[1], wanted[1], self.step.filter)).T)
        if found[0] != wanted[0]:
            planes = _rounded(torch.from_numpy(_pillow.weights(found[0], wanted[0], self.step.filter)) @ planes)
        return planes.to(torch.uint8).permute(0, 2, 3, 1)


def _rounded(sums: torch.Tensor) -> torch.Tensor:
    """As Pillow after each pass: half up, then within a byte."""
    return torch.floor((sums + _pillow.ONE / 2) / _pillow.ONE).clamp(0, 255)


def _taken(picture: torch.Tensor, rows: object, columns: object) -> torch.Tensor:
    return picture[:, torch.as_tensor(rows)][:, :, torch.as_tensor(columns)]


def _opencv(rule: str, picture: torch.Tensor, wanted: tuple[int, int]) -> torch.Tensor:
    old = (int(picture.shape[1]), int(picture.shape[2]))
    if rule == "nearest":
        return _taken(picture, opencv._floors(old[0], wanted[0]), opencv._floors(old[1], wanted[1]))
    whole = picture.to(torch.int32)
    if old == (2 * wanted[0], 2 * wanted[1]):
        quads = whole[:, 0::2, 0::2] + whole[:, 0::2, 1::2] + whole[:, 1::2, 0::2] + whole[:, 1::2, 1::2]
        return _shifted(quads + 2, 2).to(torch.uint8)
    upper, lower, above, below = map(torch.as_tensor, opencv._weights(old[0], wanted[0], edge=False))
    left, right, before, after = map(torch.as_tensor, opencv._weights(old[1], wanted[1], edge=True))
    sides = whole[:, :, left] * before[:, None] + whole[:, :, right] * after[:, None]
    lines = _shifted(sides, 4)
    parts = (_shifted(weight[:, None, None] * lines[:, rows], 16) for weight, rows in ((above, upper), (below, lower)))
    first, second = parts
    return _shifted(first + second + 2, 2).clamp(0, 255).to(torch.uint8)


def _shifted(whole: torch.Tensor, bits: int) -> torch.Tensor:
    """`>>` of numbers that are never negative; ONNX shifts unsigned integers alone."""
    return torch.div(whole, 1 << bits, rounding_mode="trunc")


TWIN = Twin
