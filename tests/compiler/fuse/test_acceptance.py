"""A build with steps in the graph: what it ships, who can run it, and the lies that it does not let pass."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

MODEL = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 5, 2, 2)
        self.head = nn.Linear(128, 5)

    def forward(self, pixels):
        x = nn.functional.adaptive_avg_pool2d(torch.relu(self.conv(pixels)), 4)
        return self.head(x.flatten(1)) * 4


def build():
    torch.manual_seed(0)
    return Net().eval()
"""
SPEC = """\
apiVersion: dspec/v1alpha1
name: fused
model:
  factory: model.py:build
  inputs: {pixels: {dtype: float32, shape: [batch, 3, 32, 32]}}
  outputs: {logits: {dtype: float32, shape: [batch, 5]}}
  dims: {batch: {min: 1, max: 4}}
request: {photo: {type: image}}
preprocess:
  - {use: decode, id: decode, out: picture}
  - {use: resize, id: small, size: [32, 32]}
  - {use: channels, id: turned, to: bgr, place: graph}
  - {use: scale, id: unit, factor: 0.00392156862745098, place: graph}
  - {use: normalize, id: normal, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225], place: graph}
  - {use: layout, id: planes, to: chw, place: graph}
postprocess:
  - {use: softmax, id: shares, out: probabilities, place: graph}
  - {use: top_k, id: best, k: 2, out: best}
response: {probabilities: {from: probabilities}, best: {from: best}}
fixtures: [{file: fixtures.jsonl, golden: 3}]
targets: {fleet: {runtime: onnxruntime}}
tolerance: {outputs: {probabilities: {atol: 1.0e-5, rtol: 1.0e-4}}}
load: {rate_rps: 20, duration_s: 1, max_duration_s: 1}
"""


def _write(folder: Path) -> None:
    (folder / "photos").mkdir(parents=True)
    draw, rows = np.random.default_rng(0), []
    for number in range(5):
        coarse = draw.integers(0, 256, (6, 7 + number, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((60 + number, 50)).save(folder / "photos" / f"{number}.png")
        rows.append(json.dumps({"photo": f"photos/{number}.png"}))
    (folder / "fixtures.jsonl").write_text("\n".join(rows) + "\n")
    (folder / "model.py").write_text(MODEL)
    (folder / "deploy.yaml").write_text(SPEC)


def _dspec(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dspec.compiler.cli", *arguments]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project, published."""
    folder = tmp_path_factory.mktemp("fused") / "project"
    _write(folder)
    done = _dspec(folder, "build")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def bundle(built: Path) -> Path:
    return built / "bundles" / "fused" / "fleet"


BARE = """
import json, sys
import numpy as np
import onnxruntime

folder, model = sys.argv[1:]
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
(entry,) = session.get_inputs()
assert (entry.name, entry.type, entry.shape[1:]) == ("small", "tensor(uint8)", [32, 32, 3]), (entry.name, entry.type, entry.shape)
picture = np.load(folder + "/trace.npz")["01.small.small"]
assert picture.dtype == np.uint8
found = session.run(["probabilities"], {"small": picture[np.newaxis]})[0][0]
answer = json.load(open(folder + "/answer.json"))["response"]["probabilities"]
assert np.abs(found - answer).max() < 1e-6, (found, answer)
assert abs(float(found.sum()) - 1) < 1e-5 and found.std() > 0.01
loaded = {name.partition(".")[0] for name in sys.modules}
assert not loaded & {"torch", "dspec", "dspec_bundle", "PIL", "onnx"}, loaded
print("same answer")
"""


def test_onnxruntime_and_numpy_alone_give_the_answer(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "bare.py").write_text(BARE)
    command = [
        sys.executable,
        "-B",
        str(tmp_path / "bare.py"),
        str(bundle / "golden" / "0001"),
        str(bundle / "model" / "model.onnx"),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "same answer", done.stderr


def test_the_bundle_ships_what_the_host_runs_and_no_more(bundle: Path) -> None:
    pipeline = json.loads((bundle / "pipeline" / "pipeline.json").read_text())
    assert [step["id"] for step in pipeline["before"]] == ["decode", "small"]
    assert [step["id"] for step in pipeline["after"]] == ["best"]
    shipped = {path.stem for path in (bundle / "dspec_bundle" / "steps").glob("*.py")} - {"__init__"}
    assert shipped == {"decode", "resize", "top_k"}
    manifest = json.loads((bundle / "bundle.json").read_text())
    assert list(manifest["interface"]["inputs"]) == ["small"]
    assert list(manifest["interface"]["outputs"]) == ["probabilities"]
    assert {"conv.weight", "head.bias", "before.twins.2.mean"} <= {weight["name"] for weight in manifest["weights"]}


def test_golden_vectors_keep_the_value_after_every_step(bundle: Path) -> None:
    trace = np.load(bundle / "golden" / "0000" / "trace.npz")
    assert [key.partition(".")[2] for key in trace.files if key[0].isdigit()] == [
        "decode.picture", "small.small", "turned.turned", "unit.unit", "normal.normal", "planes.pixels",
        "shares.probabilities", "best.best (json)",
    ]  # fmt: skip
    assert trace["05.planes.pixels"].shape == (3, 32, 32)
    np.testing.assert_array_equal(trace["door.small"][0], trace["01.small.small"])


def test_the_bundle_tests_itself(bundle: Path) -> None:
    command = [sys.executable, "-B", "-m", "dspec_bundle", "selftest"]
    done = subprocess.run(command, cwd=bundle, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("ok: 3 golden fixtures")


@pytest.mark.slow
def test_nothing_changed_does_nothing_and_a_moved_step_captures_nothing_anew(built: Path, tmp_path: Path) -> None:
    again = _dspec(built, "build")
    assert "every stage answered from the store" in again.stdout, again.stdout
    folder = tmp_path / "project"
    shutil.copytree(built, folder)
    spec = folder / "deploy.yaml"
    spec.write_text(spec.read_text().replace("to: bgr, place: graph", "to: bgr"))
    moved = _dspec(folder, "build")
    assert moved.returncode == 0, moved.stdout + moved.stderr
    assert "running the reference" not in moved.stderr
    assert "fusing the steps in the graph" in moved.stderr
    inputs = json.loads((folder / "bundles" / "fused" / "fleet" / "bundle.json").read_text())["interface"]["inputs"]
    assert list(inputs) == ["turned"]


# A twin that lies, planted where `fuse` takes it from; nothing else of the build knows.
LIES = {
    "the channels stay as they were": ("channels", "lambda value: value"),
    "normalised twice": ("normalize", "lambda value: honest(honest(value))"),
    "softmax over the batch": ("softmax", "lambda value: value.softmax(0)"),
    "rows and columns exchanged": ("layout", "lambda value: honest(value).transpose(2, 3)"),
}
PLANT = """
import dspec.targets.twins as twins

_load = twins.load


def load(name):
    if name != {step!r}:
        return _load(name)

    def lying(step):
        twin = _load(name)(step)
        honest = twin.forward
        twin.forward = {lie}
        return twin

    return lying


twins.load = load
"""


@pytest.fixture
def told(built: Path, tmp_path: Path) -> Callable[[str], dict[str, Any]]:
    """Builds the project with one lie; gives the command's JSON."""
    folder = tmp_path / "project"
    shutil.copytree(built, folder)
    shutil.rmtree(folder / "bundles")
    shutil.rmtree(folder / ".dspec" / "stages" / "fuse")  # the lie is no source of dspec's, so no key holds it

    def build(lie: str) -> dict[str, Any]:
        step, body = LIES[lie]
        (tmp_path / "plant").mkdir()
        (tmp_path / "plant" / "sitecustomize.py").write_text(textwrap.dedent(PLANT.format(step=step, lie=body)))
        done = _dspec(folder, "build", "--format", "json", PYTHONPATH=str(tmp_path / "plant"))
        assert not (folder / "bundles").exists() or not list((folder / "bundles").iterdir())
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return build


@pytest.mark.slow
@pytest.mark.parametrize("lie", LIES)
def test_parity_stops_a_twin_that_lies(told: Callable[[str], dict[str, Any]], lie: str) -> None:
    result = told(lie)
    assert (result["exit_code"], result["published"]) == (1, False), result
    verdicts = {found["gate"]: found for found in result["targets"][0]["verdicts"]}
    assert verdicts["parity"]["verdict"] == "fail"
    assert "outside" in "\n".join(verdicts["parity"]["detail"])
    assert "probabilities" in verdicts["parity"]["measured"]
