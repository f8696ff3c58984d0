"""The runtime `onnxruntime`: what it offers, what it refuses, what it leaves in a bundle."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from dspec.spec.errors import ExportError, SpecError
from dspec.spec.models import Fixtures, Model, Spec, Target, Tensor
from dspec.targets.onnxruntime import runtime as module
from dspec.targets.onnxruntime.options import Options
from dspec.targets.onnxruntime.runtime import RUNTIME
from dspec.targets.protocol import Artifact, Job, Program, Wanted


def spec_of(ports: Mapping[str, str]) -> Spec:
    inputs = {name: Tensor(dtype=cast(Any, dtype), shape=(2,)) for name, dtype in ports.items()}
    model = Model(factory="model.py:build", inputs=inputs)
    return Spec(
        api_version="dspec/v1alpha1",
        name="net",
        model=model,
        fixtures=(Fixtures(file="x.jsonl"),),
        targets={"fleet": Target(runtime="onnxruntime")},
    )


def job_of(program: Program, artifact: Artifact, **options: Any) -> Job:
    target = Target(runtime="onnxruntime", options=options)
    (candidate,) = RUNTIME.candidates(spec_of({"x": "float32"}), target)
    return Job(
        spec=spec_of({"x": "float32"}), target_id="fleet", target=target, candidate=candidate,
        options=Options(**options), program=program, artifacts=(artifact,),
    )  # fmt: skip


def test_one_candidate_with_the_artifact_it_asks_for() -> None:
    (found,) = RUNTIME.candidates(spec_of({"x": "float32"}), Target(runtime="onnxruntime", options={"opset": 21}))
    assert found.key == "onnxruntime/onnxruntime/fp32"
    assert found.artifacts == (Wanted(builder="onnx", options={"opset": 21}),)
    assert found.reasons


Refused = tuple[Mapping[str, str], dict[str, Any], tuple[str, ...]]
REFUSED: dict[str, Refused] = {
    "dtype": (
        {"x": "bfloat16"}, {},
        ("E0517", "input x is bfloat16, which ONNX Runtime can't serve on a CPU", "declare it float32"),
    ),
    "opset": ({"x": "float32"}, {"opset": 11}, ("E0518", "option opset is 11", "18 and above")),
    "threads": ({"x": "float32"}, {"inter_op_threads": 0}, ("E0518", "option inter_op_threads is 0", "1 and above")),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused_before_anything_runs(case: str) -> None:
    ports, options, texts = REFUSED[case]
    with pytest.raises(SpecError) as caught:
        RUNTIME.candidates(spec_of(ports), Target(runtime="onnxruntime", options=options))
    for text in texts:
        assert text in str(caught.value)


def test_every_refusal_at_once() -> None:
    with pytest.raises(SpecError) as caught:
        RUNTIME.candidates(
            spec_of({"a": "bfloat16", "b": "bfloat16"}), Target(runtime="onnxruntime", options={"opset": 3})
        )
    assert [found.key for found in caught.value.diagnostics] == [
        "model.inputs.a.dtype", "model.inputs.b.dtype", "options.opset",
    ]  # fmt: skip


def test_missing_names_distributions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert RUNTIME.missing() == ()
    monkeypatch.setattr(module, "NEEDED", ("torch", "no-such-distribution"))
    assert RUNTIME.missing() == ("no-such-distribution",)


def test_plan_imports_nothing_heavy() -> None:
    code = (
        "import sys; from dspec.targets import builder, runtime; runtime('onnxruntime').missing(); builder('onnx');"
        "print([name for name in ('torch', 'numpy', 'onnx', 'onnxruntime') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.linear(x)
        return found


class Narrow(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.linear(x).float()  # type: ignore[no-any-return]  # narrow


X, Y = {"x": ("float32", ["batch", 4])}, {"y": ("float32", ["batch", 2])}


@pytest.fixture(scope="module")
def net(module_lab: Any) -> tuple[Program, Artifact]:
    found: tuple[Program, Artifact] = module_lab.build(Net(), X, Y)
    return found


def test_lowering_leaves_the_model_and_its_listing(net: Any, tmp_path: Path) -> None:
    program, artifact = net
    lowered = RUNTIME.lower(job_of(program, artifact, optimization="basic"), tmp_path / "bundle")
    files = sorted(path.relative_to(tmp_path / "bundle").as_posix() for path in (tmp_path / "bundle").rglob("*"))
    assert files == ["model", "model/graph.txt", "model/model.onnx"]
    assert "y float32[batch, 2] = Gemm(x, " in (tmp_path / "bundle/model/graph.txt").read_text()
    assert lowered.model["path"] == "model/model.onnx"
    assert lowered.model["format"] == "onnx"
    assert (lowered.model["opset"], lowered.model["parameters"]) == (20, 10)
    assert lowered.command == ("python", "-m", "dspec_bundle", "pipe")
    assert [module.name for module in lowered.modules] == ["engine_onnxruntime.py"]
    assert lowered.requirements == (f"numpy=={version('numpy')}", f"onnxruntime=={version('onnxruntime')}")
    assert lowered.options == {
        "provider": "CPUExecutionProvider", "optimization": "basic", "intra_op_threads": 0, "inter_op_threads": 1,
        "spinning": False, "memory_arena": True, "opset": 0,
    }  # fmt: skip
    assert set(lowered.toolchain) == {"torch", "onnx", "onnxscript", "onnx_ir"}
    assert [(metric.name, metric.better) for metric in lowered.metrics] == [
        ("model_bytes", "lower"), ("parameters", "neither"), ("nodes", "neither"),
    ]  # fmt: skip
    json.dumps([dict(lowered.model), dict(lowered.options)])


def test_lowering_twice_is_no_harm(net: Any, tmp_path: Path) -> None:
    program, artifact = net
    first = RUNTIME.lower(job_of(program, artifact), tmp_path)
    assert RUNTIME.lower(job_of(program, artifact), tmp_path) == first


def test_bfloat16_inside_has_no_kernel(lab: Any, tmp_path: Path) -> None:
    program, artifact = lab.build(Narrow(), X, Y)
    with pytest.raises(ExportError) as caught:
        RUNTIME.lower(job_of(program, artifact), tmp_path)
    (found,) = caught.value.diagnostics
    lines = Path(__file__).read_text().splitlines()
    assert found.code == "E0511"
    assert (
        "ONNX Runtime has no CPU kernel of Gemm for bfloat16 (node node_linear, from test_runtime.py:" in found.message
    )
    assert found.file == Path(__file__).name
    assert found.line == next(number for number, text in enumerate(lines, 1) if text.endswith("# narrow"))
    assert "use float32 there" in found.hint


def test_a_graph_that_does_not_load(net: Any, tmp_path: Path) -> None:
    program, artifact = net
    other = program.interface.model_copy(update={"outputs": {"z": program.interface.outputs["y"]}})
    wrong = Program(path=program.path, interface=other, symbols={}, sources={}, tensors=())
    with pytest.raises(ExportError, match=r"E0512: the graph's outputs are y float32; bundle\.json declares z float32"):
        RUNTIME.lower(job_of(wrong, artifact), tmp_path)


def test_a_provider_that_is_not_here(net: Any, tmp_path: Path) -> None:
    program, artifact = net
    with pytest.raises(ExportError, match=r"E0513: this ONNX Runtime has .*CPUExecutionProvider, not TensorrtExec"):
        RUNTIME.lower(job_of(program, artifact, provider="TensorrtExecutionProvider"), tmp_path)
