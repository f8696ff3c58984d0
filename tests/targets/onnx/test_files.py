"""The written file: its bytes, its size limit, and what is refused when it is read back."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
import torch

from dspec.spec.errors import ExportError, GateError
from dspec.targets.artifacts import onnx_check, onnx_limits, onnx_read, onnx_write
from dspec.targets.artifacts.onnx_listing import listing

X, Y = {"x": ("float32", ["batch", 16])}, {"y": ("float32", ["batch", 16])}


class Layers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.Linear(64, 16)
        )
        self.register_buffer("small", torch.arange(16.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layers(x) + self.small
        return found


@pytest.fixture(scope="module")
def built(module_lab: Any) -> Any:
    return module_lab.build(Layers(), X, Y)


def _rewritten(built: Any, folder: Path, limit: int | None = None) -> Path:
    _, artifact = built
    folder.mkdir(exist_ok=True)
    onnx_write.write(onnx_ir.load(artifact.folder / artifact.file), folder / "model.onnx", limit)
    return folder / "model.onnx"


def test_bytes_are_those_of_the_canonical_serializer(built: Any, tmp_path: Path) -> None:
    path = _rewritten(built, tmp_path)
    proto = onnx_read.read(path)
    assert path.read_bytes() == proto.SerializeToString(deterministic=True)
    assert path.read_bytes() == (built[1].folder / "model.onnx").read_bytes()


def test_initializers_stand_in_order_and_nothing_stands_beside_the_file(built: Any) -> None:
    _, artifact = built
    names = [tensor.name for tensor in onnx_read.read(artifact.folder / artifact.file).graph.initializer]
    assert names == sorted(names)
    assert artifact.facts["data"] == []
    assert artifact.facts["parameters"] == 16 * 64 + 64 + 64 * 64 + 64 + 64 * 16 + 16 + 16
    assert not (artifact.folder / "model.onnx.data").exists()


def test_past_the_limit_weights_lie_in_one_file_beside(built: Any, lab: Any, tmp_path: Path) -> None:
    program, artifact = built
    path = _rewritten(built, tmp_path / "big", limit=10_000)
    facts = onnx_check.check(path, program.interface, {})
    assert facts["data"] == ["model.onnx.data"]
    assert facts["bytes"] == sum(file.stat().st_size for file in path.parent.iterdir())
    entries = {t.name: {e.key: e.value for e in t.external_data} for t in onnx_read.read(path).graph.initializer}
    assert entries["model.small"] == {}
    assert all(int(found["offset"]) % 64 == 0 for found in entries.values() if found)
    assert listing(path) == listing(artifact.folder / artifact.file)
    moved = path.parent.rename(tmp_path / "moved")
    x = np.random.default_rng(0).standard_normal((5, 16), np.float32)
    other = type(artifact)(name="onnx", folder=moved, file="model.onnx", facts=facts, toolchain={})
    assert np.array_equal(lab.session(other).run(None, {"x": x})[0], lab.session(artifact).run(None, {"x": x})[0])


def test_a_builder_past_the_limit(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_write, "SINGLE_FILE_LIMIT", 10_000)
    model = Layers().eval()
    program, artifact = lab.build(model, X, Y)
    assert sorted(os.listdir(artifact.folder)) == ["model.onnx", "model.onnx.data", "origins.json"]
    assert lab.worst(program, model, lab.session(artifact), {"batch": 3}) < 1e-5


HOSTILE = {
    "../../etc/passwd": "lies at '../../etc/passwd'",
    "/etc/passwd": "lies at '/etc/passwd'",
    "..": "lies at '..'",
    "": "lies at ''",
    "a\\b": "lies at 'a\\\\b'",
    "absent": "is missing: no file 'absent'",
    "link": "lies at 'link', which is a link or no plain file",
    "folder": "lies at 'folder', which is a link or no plain file",
    "short": "runs past the end of 'short'",
}


@pytest.mark.parametrize("where", ["initializer", "attribute", "subgraph"])
@pytest.mark.parametrize("location", HOSTILE)
def test_external_data_that_leaves_the_folder(tmp_path: Path, location: str, where: str) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "folder").mkdir()
    (tmp_path / "short").write_bytes(b"abc")
    tensor = onnx.TensorProto(name="weight", data_type=1, dims=[1], data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", "0"), ("length", "4")):
        tensor.external_data.add(key=key, value=value)
    inner = onnx.GraphProto(name="inner")
    node = onnx.helper.make_node("Constant", [], ["c"])
    if where == "attribute":
        node.attribute.append(onnx.helper.make_attribute("value", tensor))
    if where == "subgraph":
        inner.initializer.append(tensor)
        node.attribute.append(onnx.helper.make_attribute("body", inner))
    outer = [tensor] if where == "initializer" else []
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [], [], outer))
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(GateError) as caught:
        onnx_read.read(tmp_path / "model.onnx", GateError)
    assert f"the external data of initializer weight {HOSTILE[location]}" in str(caught.value)
    assert "E0510" in str(caught.value)


@pytest.mark.parametrize("text", [b"", b"not onnx at all", b"\x08\x07\x12"])
def test_what_is_no_onnx_file(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "model.onnx").write_bytes(text)
    with pytest.raises(ExportError, match=r"E0508: model\.onnx can't be read as ONNX"):
        onnx_read.read(tmp_path / "model.onnx")


def _random(model: onnx.ModelProto) -> None:
    model.graph.node.append(onnx.helper.make_node("RandomNormal", [], ["r"], name="dice", shape=[1]))


def _custom(model: onnx.ModelProto) -> None:
    model.graph.node[0].domain = "com.acme"


def _path(model: onnx.ModelProto) -> None:
    model.graph.node[0].doc_string = f'File "{Path.home()}/net.py", line 3'


def _foreign_path(model: onnx.ModelProto) -> None:
    model.metadata_props.add(key="trace", value="at /opt/somebody/net.py:3")


def _ir(model: onnx.ModelProto) -> None:
    model.ir_version = 99


def _opset(model: onnx.ModelProto) -> None:
    model.opset_import[0].version = 29


def _input_name(model: onnx.ModelProto) -> None:
    model.graph.input[0].name = "z"


def _frozen(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 3


def _loosened(model: onnx.ModelProto) -> None:
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_param = "any"


def _dtype(model: onnx.ModelProto) -> None:
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.BFLOAT16


def _broken(model: onnx.ModelProto) -> None:
    model.graph.node[-1].input[0] = "nowhere"


TAMPERED: dict[str, tuple[Callable[[onnx.ModelProto], None], str, str]] = {
    "random": (_random, "E0506", "node dice (RandomNormal) draws random numbers"),
    "custom domain": (_custom, "E0509", "uses com.acme."),
    "home": (_path, "E0516", "the file holds an absolute path: File"),
    "other path": (_foreign_path, "E0516", "absolute path: at /opt/somebody/net.py:3"),
    "IR version": (_ir, "E0507", "the file has ONNX IR version 99"),
    "opset": (_opset, "E0507", "the file has ONNX opset 29"),
    "name": (_input_name, "E0515", "the file has the inputs z\n  expected: x, in that order"),
    "frozen": (_frozen, "E0503", "input x has the shape [3, 16] in the file\n  expected: ['batch', 16]"),
    "loosened": (_loosened, "E0503", "output y has the shape ['batch', 'any'] in the file"),
    "dtype": (_dtype, "E0505", "output y is bfloat16 in the file\n  expected: float32"),
    "broken": (_broken, "E0508", "is not valid ONNX"),
}


@pytest.mark.parametrize("kind", TAMPERED)
def test_a_broken_promise_is_named(built: Any, tmp_path: Path, kind: str) -> None:
    program, artifact = built
    tamper, code, text = TAMPERED[kind]
    model = onnx_read.read(artifact.folder / artifact.file)
    tamper(model)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ExportError) as caught:
        onnx_check.check(tmp_path / "model.onnx", program.interface, {})
    assert caught.value.diagnostics[0].code == code
    assert text in str(caught.value)


def test_limits_are_what_the_installed_runtime_says() -> None:
    onnx_limits.check_versions(onnx_limits.max_ir_version(), onnx_limits.max_opset())
    assert onnx_limits.max_opset() >= 20
    assert onnx_limits.max_ir_version() >= 10
    with pytest.raises(ExportError, match=rf"expected: {onnx_limits.max_opset()} at most: onnxruntime"):
        onnx_limits.check_versions(10, onnx_limits.max_opset() + 1)
