"""Steps in the graph: the fused program gives what the shipped steps around the captured one give, at every size."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from dspec.spec.errors import SpecError

Fusion = Any  # conftest.Fusion: importlib mode gives test folders no names
Fuse = Callable[[str, str, list[dict[str, Any]]], Fusion]
Pictures = Callable[..., list[dict[str, Any]]]

CONV = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.head = nn.Linear(4, 5)

    def forward(self, x):
        x = torch.relu(self.conv(x)).mean((2, 3))
        return self.head(x)


def build():
    torch.manual_seed(1)
    return Net().eval()
"""
PICTURE = """\
model:
  factory: model.py:build
  inputs: {x: {dtype: float32, shape: [batch, 3, 9, 11]}}
  outputs: {y: {dtype: float32, shape: [batch, 5]}}
  dims: {batch: {min: 1, max: 6}}
request: {raw: {type: tensor, dtype: uint8, shape: [9, 11, 3]}}
preprocess:
  - {id: turned, use: channels, to: bgr, place: graph}
  - {id: normal, use: normalize, mean: [120, 110, 100], std: [50, 60, 70], place: graph}
  - {id: planes, use: layout, to: chw, place: graph}
postprocess:
  - {id: shares, use: softmax, place: graph}
"""


def agrees(found: Fusion) -> None:
    """Every case, fixtures and shape points alike, and no case lost."""
    assert [case.id for case in found.cases] == [case.id for case in found.before]
    for case in found.cases:
        answers = found.run(case.inputs)
        assert answers.keys() == case.outputs.keys()
        for name, value in case.outputs.items():
            assert answers[name].dtype == value.dtype
            np.testing.assert_allclose(answers[name], value, rtol=1e-5, atol=1e-6)


def test_the_door_moves_to_what_the_steps_take(fuse: Fuse, pictures: Pictures) -> None:
    found = fuse(CONV, PICTURE, pictures(4, 9, 11, 3))
    agrees(found)
    inputs, outputs = found.program.interface.inputs, found.program.interface.outputs
    assert {name: (port.dtype, port.shape) for name, port in inputs.items()} == {"raw": ("uint8", ("batch", 9, 11, 3))}
    assert {name: (port.dtype, port.shape) for name, port in outputs.items()} == {"shares": ("float32", ("batch", 5))}
    assert found.program.interface.dims == found.captured.interface.dims
    sizes = [case["sizes"] for case in found.index["cases"] if case["kind"] == "shape"]
    assert {point["batch"] for point in sizes} >= {1, 6}


def test_the_reference_is_the_path_that_is_not_fused(fuse: Fuse, pictures: Pictures) -> None:
    found = fuse(CONV, PICTURE, pictures(4, 9, 11, 3))
    for fused, before in zip(found.cases, found.before, strict=True):
        raw = fused.inputs["raw"].astype(np.float32)[..., ::-1]
        by_hand = ((raw - np.array([120, 110, 100], np.float32)) / np.array([50, 60, 70], np.float32)).transpose(
            0, 3, 1, 2
        )
        np.testing.assert_array_equal(by_hand, before.inputs["x"])
        shares = np.exp(before.outputs["y"] - before.outputs["y"].max(-1, keepdims=True))
        np.testing.assert_allclose(fused.outputs["shares"], shares / shares.sum(-1, keepdims=True), rtol=1e-6)
    assert found.index["spread"]["shares"]["span"] > 0
    assert found.index["spread"]["shares"]["noise"] is None


def test_weights_and_lines_of_the_user_stay(fuse: Fuse, pictures: Pictures) -> None:
    found = fuse(CONV, PICTURE, pictures(3, 9, 11, 3))
    own = {tensor.name: tensor.sha256 for tensor in found.captured.tensors}
    fused = {tensor.name: tensor.sha256 for tensor in found.program.tensors}
    assert own.items() <= fused.items()
    assert {name for name in fused if name not in own} == {"before.twins.1.mean", "before.twins.1.std"}
    assert set(found.program.sources.values()) == set(found.captured.sources.values()) == {"model.py:13", "model.py:14"}
    nodes = {node.name: node for node in torch.export.load(found.program.path).graph.nodes}
    assert all("conv" in name or "linear" in name or "relu" in name or "mean" in name for name in found.program.sources)
    assert nodes[next(name for name in found.program.sources if "linear" in name)].meta["stack_trace"]


def test_the_same_bytes_from_another_reference(fuse: Fuse, pictures: Pictures) -> None:
    """One more fixture re-lowers nothing."""
    first = fuse(CONV, PICTURE, pictures(2, 9, 11, 3)).program.path.read_bytes()
    assert fuse(CONV, PICTURE, pictures(3, 9, 11, 3)).program.path.read_bytes() == first


def test_a_response_that_asks_for_both_keeps_both(fuse: Fuse, pictures: Pictures) -> None:
    found = fuse(CONV, PICTURE + "response: {scores: {from: y}, shares: {from: shares}}\n", pictures(3, 9, 11, 3))
    agrees(found)
    assert list(found.program.interface.outputs) == ["y", "shares"]
    assert found.index["spread"]["y"]["noise"] is not None


def test_sizes_that_reach_the_model_stay_dims(fuse: Fuse) -> None:
    """A picture of any size: the flow does not know it, the model's input declares it."""
    spec = (
        PICTURE.replace("[batch, 3, 9, 11]", "[batch, 3, height, width]")
        .replace("{batch: {min: 1, max: 6}}", "{batch: {min: 1, max: 3}, height: {min: 4, max: 20}, width: {min: 4, max: 24}}")
        .replace(", shape: [9, 11, 3]", ", shape: [height, width, 3]")
    )  # fmt: skip
    rows = [{"raw": np.random.default_rng(n).integers(0, 256, (5 + n, 9, 3)).tolist()} for n in range(4)]
    found = fuse(CONV, spec, rows)
    agrees(found)
    assert found.program.interface.inputs["raw"].shape == ("batch", "height", "width", 3)


SUM = """
class Net(nn.Module):
    def forward(self, x, weight):
        return {"total": x.sum(-1) * weight, "x": x * 2}


def build():
    return Net()
"""


def test_inputs_that_no_step_of_the_graph_makes_stay(fuse: Fuse) -> None:
    spec = """\
model:
  factory: model.py:build
  inputs: {x: {dtype: float32, shape: [batch, 4]}, weight: {dtype: float32, shape: [batch]}}
  outputs: {total: {dtype: float32, shape: [batch]}, x: {dtype: float32, shape: [batch, 4]}}
  dims: {batch: {min: 1, max: 5}}
request: {a: {type: tensor, dtype: int64, shape: [3]}, b: {type: tensor, dtype: int64, shape: [1]}, w: {type: number}}
preprocess:
  - {id: small_a, use: scale, factor: 0.1, in: a, out: a1, place: graph}
  - {id: small_b, use: scale, factor: 0.5, in: b, out: b1, place: graph}
  - {id: both, use: concat, in: [b1, a1], out: x, place: graph}
  - {id: weight, python: model.py:weight, in: w, out: weight}
postprocess:
  - {id: best, use: argmax, in: x, out: best, place: graph}
response: {total: {from: total}, best: {from: best}}
""".replace("outputs: {total: {dtype: float32, shape: [batch]}, x:", "outputs: {total: {dtype: float32, shape: [batch]}, twice:").replace("in: x, out: best", "in: twice, out: best")  # fmt: skip
    model = (
        SUM.replace('"x": x * 2', '"twice": x * 2')
        + "\n\ndef weight(w):\n    import numpy as np\n    return np.float32(w)\n"
    )
    rows = [{"a": [n, 2 * n, 7], "b": [9 - n], "w": n + 0.5} for n in range(5)]
    found = fuse(model, spec, rows)
    agrees(found)
    assert list(found.program.interface.inputs) == ["a", "b", "weight"]
    assert list(found.program.interface.outputs) == ["total", "best"]
    pipeline = json.loads((found.folder / "refer" / "pipeline" / "pipeline.json").read_text())
    assert [step["id"] for step in pipeline["before"]] == ["weight"]
    assert pipeline["after"] == []


def test_a_model_without_a_batch_axis(fuse: Fuse) -> None:
    spec = """\
model:
  factory: model.py:build
  inputs: {x: {dtype: float32, shape: [1, 3, 4]}}
  outputs: {y: {dtype: float32, shape: [1, 3]}}
request: {raw: {type: tensor, dtype: uint8, shape: [3, 4]}}
preprocess: [{use: scale, factor: 0.1, place: graph}]
postprocess: [{use: softmax, out: z, place: graph}]
"""
    model = "class Net(nn.Module):\n    def forward(self, x):\n        return x.sum(-1)\n\n\ndef build():\n    return Net()\n"
    found = fuse(model, spec, [{"raw": [[n, 1, 2, 3], [4, 5, n, 7], [8, 9, 10, 11]]} for n in range(3)])
    agrees(found)
    assert found.program.interface.inputs["raw"].shape == (3, 4)
    assert found.program.interface.outputs["z"].shape == (1, 3)


def test_items_counted_along_another_axis(fuse: Fuse) -> None:
    spec = """\
model:
  factory: model.py:build
  inputs: {x: {dtype: float32, shape: [4, batch]}}
  outputs: {y: {dtype: float32, shape: [4, batch]}}
  dims: {batch: {min: 1, max: 5}}
request: {raw: {type: tensor, dtype: uint8, shape: [4]}}
preprocess: [{use: scale, factor: 0.1, place: graph}]
postprocess: [{use: softmax, out: z, place: graph}]
"""
    model = (
        "class Net(nn.Module):\n    def forward(self, x):\n        return x * 2\n\n\ndef build():\n    return Net()\n"
    )
    found = fuse(model, spec, [{"raw": [n, 1, 2, 3]} for n in range(4)])
    agrees(found)
    assert found.program.interface.inputs["raw"].shape == ("batch", 4)
    assert found.program.interface.outputs["z"].shape == ("batch", 4)


def test_outputs_that_capture_finds(fuse: Fuse, pictures: Pictures) -> None:
    spec = PICTURE.replace("  outputs: {y: {dtype: float32, shape: [batch, 5]}}\n", "").replace(
        "{id: shares, use: softmax, place: graph}",
        "{id: shares, use: softmax, in: output, place: graph, out: shares}",
    )
    found = fuse(CONV, spec, pictures(3, 9, 11, 3))
    agrees(found)
    assert {name: port.shape for name, port in found.program.interface.outputs.items()} == {"shares": ("batch", 5)}


def test_a_step_that_reads_no_output_of_the_model(fuse: Fuse, pictures: Pictures) -> None:
    spec = PICTURE.replace("  outputs: {y: {dtype: float32, shape: [batch, 5]}}\n", "").replace(
        "use: softmax, place", "use: softmax, in: logits, out: shares, place"
    )
    with pytest.raises(SpecError, match="step `shares` reads `logits`, which nothing gives") as caught:
        fuse(CONV, spec, pictures(2, 9, 11, 3))
    assert caught.value.diagnostics[0].expected == "output"


REFUSED = {
    "a size that nothing fixes": (
        "request: {raw: {type: image}}\npreprocess:\n"
        "  - {use: decode}\n  - {id: cut, use: center_crop, size: [9, 11], place: graph}\n"
        "  - {use: normalize, mean: 0.0, std: 255.0}\n",
        "E0349",
        "step `normalize` (on the host) reads `cut` of step `cut` (in the graph)",
    ),
    "a crop of any picture": (
        "request: {raw: {type: image}}\npreprocess:\n"
        "  - {id: photo, use: decode}\n  - {id: cut, use: center_crop, size: [9, 11], place: graph}\n"
        "  - {use: layout, to: chw, place: graph}\n",
        "E0350",
        "step `cut` in the graph reads `photo`, whose sizes of axes 0 and 1 are not known before running",
    ),
    "labels are texts": (
        "request: {x: {type: tensor, dtype: float32, shape: [3, 9, 11]}}\n"
        "postprocess: [{id: best, use: argmax, labels: [a, b, c, d, e], place: graph}]\n",
        "E0350",
        "step `best` in the graph gives `best`, which is text: a graph gives arrays alone",
    ),
    "a step without a twin": (
        "request: {raw: {type: image}}\npreprocess: [{use: decode, place: graph}]\n",
        "E0328",
        "step `decode` can't run in place `graph`",
    ),
    "the caller's, too late": (
        "request: {raw: {type: image}}\npreprocess:\n"
        "  - {use: decode, id: photo}\n  - {use: resize, id: small, size: [9, 11], place: contract}\n"
        "  - {use: layout, to: chw, place: graph}\n",
        "E0349",
        "step `small` (by the caller) reads `photo` of step `photo` (on the host)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_at_the_step(fuse: Fuse, case: str) -> None:
    steps, code, words = REFUSED[case]
    with pytest.raises(SpecError) as caught:
        fuse(CONV, PICTURE.partition("request:")[0] + steps, [{"x": 0}])
    told = next(found for found in caught.value.diagnostics if found.code == code)
    assert words in f"{told.message} {told.hint}"
    assert "place:" in told.excerpt
