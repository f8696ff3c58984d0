"""Small nets that bare ExecuTorch narrows, breaks or refuses: each over its whole declared range, against PyTorch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

pytestmark = pytest.mark.filterwarnings("ignore")  # what torch and executorch remark while they import and lower


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 16), nn.GELU(), nn.Linear(16, 3))

    def forward(self, x: torch.Tensor) -> Any:
        return self.layers(x), self.layers(x).argmax(-1)


class Conv(nn.Module):
    """A plain convolution: choosing its kernel asks `batch < 16`."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 4, 1)

    def forward(self, x: torch.Tensor) -> Any:
        return self.conv(x)


class ChannelsLast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> Any:
        return functional.relu(self.conv(x.contiguous(memory_format=torch.channels_last))).mean((2, 3))


class Prelu(nn.Module):
    """PReLU after a permute and a view, before a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.prelu, self.dense = nn.Conv2d(3, 4, 3, padding=1), nn.PReLU(16), nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> Any:
        x = self.conv(x).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 16)
        return self.dense(self.prelu(x.transpose(1, 2)).transpose(1, 2))


class Maximum(nn.Module):
    """`x.max(dim)` for its values alone."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 8, 3), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> Any:
        return self.last(self.first(x).max(2).values.amax(-1))


class Recurrent(nn.Module):
    """Its operators that give lists freeze the batch while the verifier is on."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(5, 8, batch_first=True)

    def forward(self, x: torch.Tensor) -> Any:
        return self.gru(x)[0][:, -1]


class Attention(nn.Module):
    """As in GPT-2: one projection, split, attention, and a view over its strides."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> Any:
        size = (x.shape[0], x.shape[1], 4, 8)
        q, k, v = (part.view(size).transpose(1, 2) for part in self.qkv(x).split(32, dim=2))
        found = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        found = found.transpose(1, 2).contiguous().view(x.shape[0], x.shape[1], 32)
        return self.out(found.view(-1, 32)).view(x.shape)


class Bicubic(nn.Module):
    """ExecuTorch has no such operator: it becomes two products with constants."""

    def forward(self, x: torch.Tensor) -> Any:
        return functional.interpolate(x, size=(6, 9), mode="bicubic", antialias=True)


@dataclass(frozen=True, kw_only=True)
class Case:
    """`whole`: everything is delegated; `left`: operators that the delegate refuses. Sizes beside the minimum and the maximum."""

    model: type[nn.Module]
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    left: tuple[str, ...] = ()
    portable: tuple[str, ...] | None = ()
    sizes: tuple[dict[str, int], ...] = field(
        default=({"batch": 1, "seq": 2}, {"batch": 17, "seq": 9}, {"batch": 64, "seq": 24})
    )


X4 = {"x": ("float32", ("batch", 4))}
CASES = {
    "mlp": Case(model=Mlp, inputs=X4, outputs={"y": ("float32", ("batch", 3)), "top": ("int64", ("batch",))},
                portable=("aten.argmax.default",)),
    "conv": Case(model=Conv, inputs={"x": ("float32", ("batch", 8, 5, 5))}, outputs={"y": ("float32", ("batch", 4, 5, 5))}),
    "channels last": Case(model=ChannelsLast, inputs={"x": ("float32", ("batch", 3, 6, 7))},
                          outputs={"y": ("float32", ("batch", 4))}, portable=None),
    "prelu": Case(model=Prelu, inputs={"x": ("float32", ("batch", 3, 8, 8))}, outputs={"y": ("float32", ("batch", 16, 5))},
                  left=("prelu.default",), portable=None),
    "max": Case(model=Maximum, inputs={"x": ("float32", ("batch", 3, 6, 7))}, outputs={"y": ("float32", ("batch", 2))},
                left=("max.dim",), portable=None),
    "gru": Case(model=Recurrent, inputs={"x": ("float32", ("batch", 6, 5))}, outputs={"y": ("float32", ("batch", 8))},
                portable=None),
    "attention": Case(model=Attention, inputs={"x": ("float32", ("batch", "seq", 32))},
                      outputs={"y": ("float32", ("batch", "seq", 32))}, portable=None),
    "bicubic": Case(model=Bicubic, inputs={"x": ("float32", ("batch", 3, 12, 10))},
                    outputs={"y": ("float32", ("batch", 3, 6, 9))}, portable=None),
}  # fmt: skip


SLOW = {"attention", "bicubic"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in CASES]
)
def test_agrees_over_the_declared_range(name: str, lab: Any) -> None:
    case = CASES[name]
    torch.manual_seed(5)
    model = case.model().eval()
    program, artifact = lab.build(model, case.inputs, case.outputs)
    engine = lab.engine(program, artifact)
    for sizes in case.sizes:
        assert lab.worst(program, model, engine, sizes) < 2e-5, sizes
    assert [left["operator"] for left in artifact.facts["refused"]] == list(case.left)
    assert all("test_nets.py:" in left["from"] for left in artifact.facts["refused"])
    assert len(artifact.warnings) == len(case.left)
    if case.portable is not None:
        assert [one["operator"] for one in artifact.facts["portable"]] == list(case.portable)
    print((artifact.folder / "graph.txt").read_text(), artifact.facts)
