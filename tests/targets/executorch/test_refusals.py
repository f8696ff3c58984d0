"""What a spec asks of ExecuTorch in vain, and what the declared runtime lacks: words and places."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from dspec.spec.errors import ExportError, SpecError
from dspec.spec.models import Spec
from dspec.targets import catalogue, runtime
from dspec.targets.executorch import kernels
from dspec.targets.executorch.laid import lay_pte
from dspec.targets.protocol import Job
from dspec.targets.shipped.door import Door
from dspec.targets.shipped.engine_executorch import in_words
from dspec.targets.shipped.errors import EngineError, RequestError

pytestmark = pytest.mark.filterwarnings("ignore")  # what torch and executorch remark while they import and lower

X = {"x": ("float32", ("batch", 8))}


def spec_of(targets: dict[str, Any], dtype: str = "float32") -> Spec:
    return Spec.model_validate_json(
        json.dumps(
            {
                "apiVersion": "dspec/v1alpha1",
                "name": "tiny",
                "owner": "tests",
                "model": {
                    "factory": "model.py:build",
                    "inputs": {"x": {"dtype": dtype, "shape": ["batch", 8]}},
                    "outputs": {"y": {"dtype": "float32", "shape": ["batch", 8]}},
                    "dims": {"batch": {"min": 1, "max": 64}},
                },
                "fixtures": [{"file": "rows.jsonl"}],
                "targets": targets,
            }
        )
    )


def target(hardware: str = "host", **options: Any) -> dict[str, Any]:
    return {"runtime": "executorch", "hardware": hardware, "options": options}


ASKED = {
    "another delegate": (
        target(delegate="coreml"),
        "E0536",
        "delegate coreml can't be lowered for here: it needs coremltools",
    ),
    "a delegate on bare metal": (target("baremetal-cortex-m", delegate="xnnpack"), "E0536", "runs no XNNPACK"),
    "more than all": (target(min_delegated=1.5), "E0518", "option min_delegated is 1.5"),
    "a share of nothing": (target(min_delegated=0.5, delegate="none"), "E0518", "option min_delegated is 0.5"),
    "fewer threads than none": (target(threads=-1), "E0518", "option threads is -1"),
}


@pytest.mark.parametrize("name", ASKED)
def test_refused_before_anything_runs(name: str) -> None:
    asked, code, says = ASKED[name]
    spec = spec_of({"phone": asked})
    with pytest.raises(SpecError) as caught:
        runtime("executorch").candidates(spec, spec.targets["phone"])
    (found,) = caught.value.diagnostics
    assert (found.code, found.key.partition(".")[0]) == (code, "options")
    assert says in found.message
    assert found.expected
    assert found.hint


def test_bfloat16_is_no_request() -> None:
    spec = spec_of({"phone": target()}, dtype="bfloat16")
    with pytest.raises(SpecError, match="input x is bfloat16, which no request and no answer can carry"):
        runtime("executorch").candidates(spec, spec.targets["phone"])


def test_bare_metal_has_portable_kernels_alone() -> None:
    spec = spec_of({"board": target("baremetal-cortex-m", delegate="auto"), "phone": target("android-arm64")})
    for name, delegate in (("board", "none"), ("phone", "xnnpack")):
        (candidate,) = runtime("executorch").candidates(spec, spec.targets[name])
        assert candidate.artifacts[0].options == {"delegate": delegate}
        assert candidate.on_host_kernels


def test_a_dim_without_max_is_an_error() -> None:
    assert catalogue().runtimes["executorch"].needs_max


class Spectrum(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = torch.fft.rfft(x, norm="backward").abs()
        return torch.cat((found, found[:, :3]), 1)


class Mixed(torch.nn.Module):
    """A linear layer for the delegate, and a sort of its own kind for portable kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layer(x).cumsum(-1)
        return found


def job(lab: Any, model: torch.nn.Module, targets: dict[str, Any], target_id: str) -> Job:
    program, artifact = lab.build(model, X, {"y": ("float32", ("batch", 8))})
    spec = spec_of(targets)
    found = runtime("executorch")
    (candidate,) = found.candidates(spec, spec.targets[target_id])
    options = found.options(**spec.targets[target_id].options)
    return Job(
        spec=spec, target_id=target_id, target=spec.targets[target_id], candidate=candidate, options=options,
        program=program, artifacts=(artifact,),
    )  # fmt: skip


@pytest.mark.slow
def test_a_kernel_that_the_device_lacks(lab: Any, tmp_path: Path) -> None:
    """It runs here, whose wheel has it, and is refused where the declared runtime has not."""
    targets = {
        "phone": target("android-arm64"),
        "here": target(),
        "fleet": {"runtime": "onnxruntime", "hardware": "linux-x86_64"},
        "watch": target("ios-arm64"),
    }
    asked = job(lab, Spectrum(), targets, "phone")
    with pytest.raises(ExportError) as caught:
        lay_pte(asked, tmp_path / "bundle", dataclasses.asdict(asked.options))
    (found,) = caught.value.diagnostics
    assert found.code == "E0531"
    assert found.message.startswith(
        "the operator aten._fft_r2c (complex64) in model has no kernel in ExecuTorch's portable library"
    )
    assert "android-arm64" in found.message
    assert (found.file, found.line) == ("test_refusals.py", line_of("torch.fft.rfft(x, norm"))
    kernels.check_kernels(asked.artifacts[0], asked.artifacts[0].folder / "origins.json", asked.spec, "here")


def line_of(text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line and "line_of" not in line)


def test_the_floor_of_what_is_delegated(lab: Any, tmp_path: Path) -> None:
    asked = job(lab, Mixed(), {"phone": target(min_delegated=0.99)}, "phone")
    with pytest.raises(ExportError) as caught:
        lay_pte(asked, tmp_path / "bundle", dataclasses.asdict(asked.options))
    (found,) = caught.value.diagnostics
    assert found.code == "E0535"
    assert "of the arithmetic; left to portable kernels: aten.cumsum.default (test_refusals.py:" in found.message
    assert found.expected == "99% at least, as `min_delegated` asks"
    laid = lay_pte(asked, tmp_path / "enough", {"delegate": "xnnpack", "min_delegated": 0.5, "threads": 0})
    assert {metric.name for metric in laid.metrics} >= {
        "model_bytes",
        "planned_bytes",
        "delegated_flops",
        "program_bytes",
    }
    assert laid.model["kernels"] == ["aten::cumsum.out"]
    assert laid.model["backends"] == ["XnnpackBackend"]
    assert sum(laid.model["sections"].values()) == (tmp_path / "enough/model/model.pte").stat().st_size
    assert "cumsum" in (tmp_path / "enough/model/graph.txt").read_text()


def test_sizes_outside_the_range_and_channels_last(lab: Any) -> None:
    class Pixels(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.relu().mean((2, 3))

    program, artifact = lab.build(
        Pixels(), {"x": ("float32", ("batch", 3, "side", 9))}, {"y": ("float32", ("batch", 3))}
    )
    engine = lab.engine(program, artifact)
    given = lab.feeds(program, {"batch": 5, "side": 11})["x"]
    strided = torch.from_numpy(given).to(memory_format=torch.channels_last).numpy()
    assert not strided.flags.c_contiguous
    assert (engine.run({"x": strided})["y"] == engine.run({"x": given})["y"]).all()
    interface = program.interface.model_dump(mode="json")
    door = Door(interface["inputs"], interface["dims"], "batch")
    smaller = given[:, :, :4]  # fewer numbers than planned: ExecuTorch itself would take them
    with pytest.raises(RequestError, match=r"axis 2 of the tensor is 4; expected at least 8 \(side\)"):
        door.check({"x": smaller})
    too_many = lab.feeds(program, {"batch": 65, "side": 24})
    with pytest.raises(EngineError, match=r"did not run on x float32\[65, 3, 24, 9\]: .*error 0x"):
        engine.run(too_many)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "method->set_inputs() for method 'forward' failed with error 0x12",
            "an input does not fit what the program was planned for",
        ),
        (
            "loading method forward failed with error 0x14",
            "this runtime lacks a kernel that the program needs (error 0x14)",
        ),
        ("something else", "something else"),
    ],
)
def test_numbers_in_words(said: str, words: str) -> None:
    assert in_words(said).startswith(words)
