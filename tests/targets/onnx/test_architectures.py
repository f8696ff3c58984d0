"""Small nets of real architectures: the file agrees with eager PyTorch at every batch size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.filterwarnings("ignore")  # transformers and torch warn about themselves


class Output(torch.nn.Module):
    """One tensor of what a transformers model returns."""

    def __init__(self, model: torch.nn.Module, field: str = "last_hidden_state") -> None:
        super().__init__()
        self.model, self.field = model, field

    def forward(self, **inputs: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = getattr(self.model(**inputs), self.field)
        return found


class Recurrent(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(8, 16, batch_first=True, bidirectional=True)
        self.gru = torch.nn.GRU(32, 12, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden, _ = self.lstm(x)
        hidden, _ = self.gru(hidden)
        found: torch.Tensor = hidden
        return found


def _swin() -> torch.nn.Module:
    config = transformers.SwinConfig(
        image_size=32, patch_size=2, embed_dim=16, depths=[2, 1], num_heads=[2, 4], window_size=4, num_labels=5
    )
    return Output(transformers.SwinForImageClassification(config), "logits")


def _t5() -> torch.nn.Module:
    config = transformers.T5Config(
        vocab_size=50, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, is_encoder_decoder=False, use_cache=False
    )
    return Output(transformers.T5EncoderModel(config))


def _gpt2() -> torch.nn.Module:
    config = transformers.GPT2Config(vocab_size=50, n_positions=64, n_embd=32, n_layer=1, n_head=4, use_cache=False)
    return Output(transformers.GPT2Model(config))


class InvertedResidual(torch.nn.Module):
    """A block of MobileNetV3: expand, depthwise, squeeze and excite, project, add."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.expand = torch.nn.Sequential(torch.nn.Conv2d(8, 32, 1), torch.nn.BatchNorm2d(32), torch.nn.Hardswish())
        self.depthwise = torch.nn.Sequential(
            torch.nn.Conv2d(32, 32, 5, padding=2, groups=32), torch.nn.BatchNorm2d(32), torch.nn.ReLU6()
        )
        self.squeeze = torch.nn.Sequential(
            torch.nn.AdaptiveAvgPool2d(1), torch.nn.Conv2d(32, 8, 1), torch.nn.ReLU(), torch.nn.Conv2d(8, 32, 1),
            torch.nn.Hardsigmoid(),
        )  # fmt: skip
        self.project = torch.nn.Conv2d(32, 8, 1)
        self.head = torch.nn.Linear(8, 5)

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        x = self.stem(pixel_values)
        wide = self.depthwise(self.expand(x))
        x = x + self.project(wide * self.squeeze(wide))
        found: torch.Tensor = self.head(x.mean((2, 3)))
        return found


IDS = {"input_ids": ("int64", ["batch", "seq"]), "attention_mask": ("int64", ["batch", "seq"])}
IMAGE = {"pixel_values": ("float32", ["batch", 3, 32, 32])}
Case = tuple[Callable[[], torch.nn.Module], Any, Any]
CASES: dict[str, Case] = {
    "swin": (_swin, IMAGE, {"logits": ("float32", ["batch", 5])}),
    "t5 encoder": (_t5, IDS, {"hidden": ("float32", ["batch", "seq", 32])}),
    "gpt2": (_gpt2, IDS, {"hidden": ("float32", ["batch", "seq", 32])}),
    "lstm and gru": (Recurrent, {"x": ("float32", ["batch", 6, 8])}, {"y": ("float32", ["batch", 6, 12])}),
    "inverted residual": (InvertedResidual, IMAGE, {"logits": ("float32", ["batch", 5])}),
}


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_eager_at_every_batch(lab: Any, name: str) -> None:
    make, inputs, outputs = CASES[name]
    torch.manual_seed(0)
    model = make().eval()
    program, artifact = lab.build(model, inputs, outputs)
    session = lab.session(artifact)
    for batch, seq in ((1, 2), (2, 9), (5, 31), (16, 64)):
        assert lab.worst(program, model, session, {"batch": batch, "seq": seq}) < 5e-5
