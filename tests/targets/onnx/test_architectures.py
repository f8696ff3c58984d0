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
        image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, num_labels=5
    )
    return Output(transformers.SwinForImageClassification(config), "logits")


def _t5() -> torch.nn.Module:
    config = transformers.T5Config(
        vocab_size=50, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, is_encoder_decoder=False, use_cache=False
    )
    return Output(transformers.T5EncoderModel(config))


def _gpt2() -> torch.nn.Module:
    config = transformers.GPT2Config(vocab_size=50, n_positions=64, n_embd=32, n_layer=2, n_head=4, use_cache=False)
    return Output(transformers.GPT2Model(config))


def _mobilenet() -> torch.nn.Module:
    config = transformers.MobileNetV2Config(image_size=32, depth_multiplier=0.35, num_labels=5)
    model = transformers.MobileNetV2ForImageClassification(config)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):  # random weights alone fade to 1e-37
            torch.nn.init.uniform_(module.weight, 2.0, 3.0)
            torch.nn.init.uniform_(module.bias, -1.0, 1.0)
    return Output(model, "logits")


IDS = {"input_ids": ("int64", ["batch", "seq"]), "attention_mask": ("int64", ["batch", "seq"])}
IMAGE = {"pixel_values": ("float32", ["batch", 3, 32, 32])}
Case = tuple[Callable[[], torch.nn.Module], Any, Any]
CASES: dict[str, Case] = {
    "swin": (_swin, IMAGE, {"logits": ("float32", ["batch", 5])}),
    "t5 encoder": (_t5, IDS, {"hidden": ("float32", ["batch", "seq", 32])}),
    "gpt2": (_gpt2, IDS, {"hidden": ("float32", ["batch", "seq", 32])}),
    "lstm and gru": (Recurrent, {"x": ("float32", ["batch", "seq", 8])}, {"y": ("float32", ["batch", "seq", 12])}),
    "mobilenet": (_mobilenet, IMAGE, {"logits": ("float32", ["batch", 5])}),
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
