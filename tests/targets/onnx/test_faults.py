"""Known traps that end in a correct file: the same numbers as eager PyTorch, under the declared names."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch.nn import functional

SIZES = ({"batch": 1, "seq": 2}, {"batch": 2, "seq": 5}, {"batch": 5, "seq": 9}, {"batch": 16, "seq": 31})


class Numbers(torch.nn.Module):
    """One output per trap, so that one export serves all of them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(10, 4)
        self.dropout = torch.nn.Dropout(0.5)
        self.norm = torch.nn.BatchNorm1d(4)
        self.norm.running_mean += 0.5  # type: ignore[operator, assignment]

    def forward(
        self, image: torch.Tensor, ids: torch.Tensor, x: torch.Tensor, token_type_ids: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        sliced = x.clone()
        sliced[:, :2] = 0
        doubled = 2 * x
        return (
            functional.interpolate(image, size=(1, 1), mode="bilinear"),  # 39
            functional.interpolate(image, scale_factor=0.5, mode="bicubic", antialias=False),  # 40
            functional.avg_pool2d(functional.pad(image, (1, 1, 1, 1)), 3, stride=2),  # 42
            functional.gelu(x, approximate="tanh"),  # 43
            functional.gelu(x),
            torch.div(ids - 7, 3, rounding_mode="floor"),  # 61
            torch.topk(x, 2).values,  # 55
            self.dropout(self.norm(x)),  # 60
            self.embedding(ids),  # 153
            sliced,  # 20
            x,  # 17
            torch.tensor(1.0),
            doubled,  # 18
            doubled,
            torch.fft.rfft(x).abs(),  # 3
        )


NUMBERS_IN = {
    "image": ("float32", ["batch", 3, 8, 8]),
    "ids": ("int64", ["batch"]),
    "x": ("float32", ["batch", 4]),
    "token_type_ids": ("int64", ["batch", "seq"]),
}
NUMBERS_OUT = {
    "resize_1x1": ("float32", ["batch", 3, 1, 1]),
    "cubic": ("float32", ["batch", 3, 4, 4]),
    "pad_pool": ("float32", ["batch", 3, 4, 4]),
    "gelu_tanh": ("float32", ["batch", 4]),
    "gelu": ("float32", ["batch", 4]),
    "floor_division": ("int64", ["batch"]),
    "top_values": ("float32", ["batch", 2]),
    "eval_mode": ("float32", ["batch", 4]),
    "embedding": ("float32", ["batch", 4]),
    "slice_assigned": ("float32", ["batch", 4]),
    "x_back": ("float32", ["batch", 4]),
    "one": ("float32", []),
    "first": ("float32", ["batch", 4]),
    "second": ("float32", ["batch", 4]),
    "spectrum": ("float32", ["batch", 3]),
}


@pytest.fixture(scope="module")
def numbers(module_lab: Any) -> Any:
    model = Numbers().eval()
    program, artifact = module_lab.build(model, NUMBERS_IN, NUMBERS_OUT)
    return model, program, artifact, module_lab.session(artifact)


@pytest.mark.parametrize("output", NUMBERS_OUT)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_numbers_are_those_of_eager(numbers: Any, lab: Any, output: str, sizes: dict[str, int]) -> None:
    model, program, _, session = numbers
    feeds = {
        name: lab.example(port.dtype, port.shape, sizes, seed=index)
        for index, (name, port) in enumerate(program.interface.inputs.items())
    }
    with torch.inference_mode():
        wanted = dict(zip(NUMBERS_OUT, model(**feeds), strict=True))[output].numpy()
    (got,) = session.run([output], {name: tensor.numpy() for name, tensor in feeds.items()})
    np.testing.assert_allclose(got, wanted, atol=2e-6, rtol=1e-5)
    assert got.dtype == wanted.dtype


def test_names_order_and_dims_are_the_declared_ones(numbers: Any) -> None:
    _, program, artifact, session = numbers
    assert [value.name for value in session.get_inputs()] == list(NUMBERS_IN)
    assert [value.name for value in session.get_outputs()] == list(NUMBERS_OUT)
    for found in (*session.get_inputs(), *session.get_outputs()):
        port = {**program.interface.inputs, **program.interface.outputs}[found.name]
        assert tuple(found.shape) == port.shape
    assert artifact.facts["unused_inputs"] == ["token_type_ids"]


def test_tanh_gelu_keeps_its_attribute(numbers: Any) -> None:
    _, _, artifact, _ = numbers
    model = onnx.load(artifact.folder / artifact.file)
    kinds = {onnx.helper.get_node_attr_value(n, "approximate") for n in model.graph.node if n.op_type == "Gelu"}
    assert kinds == {b"tanh", b"none"}


def test_indices_of_ties_point_at_equal_values(lab: Any) -> None:
    class Top(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return tuple(torch.topk(x, 3))

    outputs = {"values": ("float32", ["batch", 3]), "indices": ("int64", ["batch", 3])}
    _, artifact = lab.build(Top(), {"x": ("float32", ["batch", 5])}, outputs)
    x = np.array([[1, 5, 5, 5, 0]], np.float32)
    values, indices = lab.session(artifact).run(None, {"x": x})
    assert values.tolist() == np.take_along_axis(x, indices, 1).tolist() == [[5, 5, 5]]


class Wild(torch.nn.Module):
    """Row 164: several outputs, bool in, int64 out, batch not first, smaller and derived sizes, even sizes, state."""

    def forward(
        self, signal: torch.Tensor, mask: torch.Tensor, picture: torch.Tensor, state: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        kept = torch.where(mask, signal, torch.zeros_like(signal))
        return (
            kept.transpose(0, 1),
            kept.argmax(1),
            signal[:, ::2],
            functional.avg_pool2d(picture, 2),
            state + kept.sum(1, keepdim=True),
            torch.cat([signal, signal, state[:, :1]], 1),
        )


WILD_IN = {
    "signal": ("float32", ["batch", "seq"]),
    "mask": ("bool", ["batch", "seq"]),
    "picture": ("float32", ["batch", 1, "height", "even"]),
    "state": ("float32", ["batch", 6]),
}
WILD_OUT = {
    "time_first": ("float32", ["seq", "batch"]),
    "best": ("int64", ["batch"]),
    "half": ("float32", ["batch", "(seq+1)//2"]),
    "pooled": ("float32", ["batch", 1, "height//2", "even//2"]),
    "next_state": ("float32", ["batch", 6]),
    "double": ("float32", ["batch", "2*seq+1"]),
}


def test_interfaces_in_the_wild(lab: Any) -> None:
    model = Wild().eval()
    program, artifact = lab.build(model, WILD_IN, WILD_OUT)
    session = lab.session(artifact)
    for sizes in SIZES:
        assert lab.worst(program, model, session, {**sizes, "height": 4, "even": 10}) <= 1e-6
    assert session.get_outputs()[2].shape == ["batch", "(seq+1)//2"]
    assert session.get_inputs()[2].shape == ["batch", 1, "height", "even"]


def test_control_flow_on_values_keeps_both_branches(lab: Any) -> None:
    class Branch(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))
            return found

    _, artifact = lab.build(Branch(), {"x": ("float32", ["batch", 1])}, {"mul": ("float32", ["batch", 1])})
    session = lab.session(artifact)
    assert session.run(None, {"x": np.array([[3.0]], np.float32)})[0].tolist() == [[6.0]]
    assert session.run(None, {"x": np.array([[-3.0]], np.float32)})[0].tolist() == [[-4.0]]


def test_swapped_names_do_not_meet(lab: Any) -> None:
    class Swap(torch.nn.Module):
        def forward(self, relu: torch.Tensor, model_weight: torch.Tensor) -> torch.Tensor:
            return torch.relu(relu) - 2 * model_weight

    inputs = {"model_weight": ("float32", ["batch"]), "relu": ("float32", ["batch"])}
    _, artifact = lab.build(Swap(), inputs, {"mul": ("float32", ["batch"])})
    feeds = {"model_weight": np.ones(2, np.float32), "relu": np.full(2, 10, np.float32)}
    assert lab.session(artifact).run(None, feeds)[0].tolist() == [8.0, 8.0]


def test_half_precision_runs_at_the_level_that_ships(lab: Any) -> None:
    class Half(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.norm, self.linear = torch.nn.LayerNorm(8).half(), torch.nn.Linear(8, 4).half()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.linear(self.norm(x))
            return found

    model = Half().eval()
    program, artifact = lab.build(model, {"x": ("float16", ["batch", 8])}, {"y": ("float16", ["batch", 4])})
    assert lab.worst(program, model, lab.session(artifact), {"batch": 5}) < 5e-3


def test_the_listing_reads_as_a_table(lab: Any) -> None:
    from dspec.targets.artifacts.onnx_listing import listing

    class Line(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(4, 2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x @ self.weight).softmax(-1)

    _, artifact = lab.build(Line(), {"x": ("float32", ["batch", 4])}, {"y": ("float32", ["batch", 2])})
    digest = hashlib.sha256(np.ones((4, 2), "<f4").tobytes()).hexdigest()[:12]
    assert listing(artifact.folder / artifact.file) == (
        "ir_version 10\nopset ai.onnx 20\n\ninputs\n  x float32[batch, 4]\n\noutputs\n  y float32[batch, 2]\n"
        f"\noperators\n  MatMul 1\n  Softmax 1\n\ninitializers\n  model.weight float32[4, 2] {digest}\n"
        "\nnodes\n  matmul float32[batch, 2] = MatMul(x, model.weight)\n"
        "  y float32[batch, 2] = Softmax(matmul) {axis=-1}\n"
    )
