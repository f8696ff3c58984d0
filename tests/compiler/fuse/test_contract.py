"""A build whose caller does the first and the last steps: what it ships, and whether another team could replay it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dspec.targets import catalogue

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
name: owed
model:
  factory: model.py:build
  inputs: {pixels: {dtype: float32, shape: [batch, 3, 32, 32]}}
  outputs: {logits: {dtype: float32, shape: [batch, 5]}}
  dims: {batch: {min: 1, max: 4}}
request: {photo: {type: image}}
preprocess:
  - {use: decode, id: decode, out: picture, place: contract}
  - {use: resize, id: small, size: [32, 32], place: contract}
  - {use: scale, id: unit, factor: 0.00392156862745098, place: graph}
  - {use: normalize, id: normal, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225], place: graph}
  - {use: layout, id: planes, to: chw, place: graph}
postprocess:
  - {use: softmax, id: shares, out: probabilities, place: graph}
  - {use: top_k, id: best, k: 2, place: contract}
  - {use: argmax, id: choice, in: probabilities, place: contract}
response: {shares: {from: probabilities}, best: {from: best}, choice: {from: choice}}
fixtures: [{file: fixtures.jsonl, golden: 3}]
targets: {fleet: {runtime: onnxruntime}}
tolerance: {outputs: {probabilities: {atol: 1.0e-5, rtol: 1.0e-4}}}
quality: [{metric: accuracy, of: choice, max_loss: 0.0}]
load: {rate_rps: 20, duration_s: 1, max_duration_s: 1}
"""
SIZES = [(60, 50), (61, 50), (32, 32), (40, 90), (33, 70)]


def _dspec(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dspec.compiler.cli", *arguments]
    done = subprocess.run(command, cwd=folder, env=os.environ, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project, published."""
    folder = tmp_path_factory.mktemp("owed") / "project"
    (folder / "photos").mkdir(parents=True)
    draw, rows = np.random.default_rng(0), []
    for number, size in enumerate(SIZES):
        coarse = draw.integers(0, 256, (6, 7 + number, 3), dtype=np.uint8) // (5 if number % 2 else 1)  # dark: class 2
        Image.fromarray(coarse).resize(size).save(folder / "photos" / f"{number}.png")
        rows.append(json.dumps({"photo": f"photos/{number}.png", "expected": {"choice": 2 * (number % 2)}}))
    (folder / "fixtures.jsonl").write_text("\n".join(rows) + "\n")
    (folder / "model.py").write_text(MODEL)
    (folder / "deploy.yaml").write_text(SPEC)
    done = _dspec(folder, "build")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PROVED" in done.stdout
    return folder


@pytest.fixture(scope="module")
def bundle(built: Path) -> Path:
    return built / "bundles" / "owed" / "fleet"


@pytest.fixture
def copy(bundle: Path, tmp_path: Path) -> Path:
    """A copy of the bundle, to be changed."""
    shutil.copytree(bundle, tmp_path / "bundle", copy_function=shutil.copyfile)
    return tmp_path / "bundle"


def _json(path: Path) -> Any:
    return json.loads(path.read_text())


def test_the_bundle_starts_after_the_callers_first_steps_and_ends_before_its_last(bundle: Path) -> None:
    pipeline = _json(bundle / "pipeline" / "pipeline.json")
    assert (pipeline["before"], pipeline["after"]) == ([], [])
    small = {"type": "tensor", "dtype": "uint8", "shape": [32, 32, 3]}
    assert {key: pipeline["request"]["small"][key] for key in small} == small
    assert pipeline["response"] == {"probabilities": "probabilities"}
    owed = pipeline["contract"]
    assert [step["id"] for step in owed["before"]] == ["decode", "small"]
    assert owed["before"][1]["params"]["filter"] == "bilinear"
    assert [step["id"] for step in owed["after"]] == ["best", "choice"]
    assert owed["response"] == {"shares": "probabilities", "best": "best", "choice": "choice"}
    assert _json(bundle / "bundle.json")["contract"] == owed
    shipped = {path.stem for path in (bundle / "dspec_bundle" / "steps").glob("*.py")} - {"__init__"}
    assert not shipped
    assert "pillow" not in (bundle / "requirements.txt").read_text().lower()


REPLAY = """
import io, json, sys
from pathlib import Path
import numpy as np
import onnxruntime
from PIL import Image

bundle = Path(sys.argv[1])
session = onnxruntime.InferenceSession(str(bundle / "model/model.onnx"), providers=["CPUExecutionProvider"])
for entry in json.loads((bundle / "golden/index.json").read_text())["fixtures"]:
    folder = bundle / "golden" / entry["folder"]
    trace, caller = np.load(folder / "trace.npz"), folder / "caller"
    raw = json.loads((caller / "request.json").read_text())
    picture = Image.open(io.BytesIO((caller / raw["photo"]["file"]).read_bytes())).convert("RGB")
    assert (np.asarray(picture) == trace["00.decode.picture"]).all()
    small = np.asarray(picture.resize((32, 32), Image.Resampling.BILINEAR))
    assert (small == trace["01.small.small"]).all()
    asked = json.loads((folder / "request.json").read_text())["small"]
    crossing = np.load(folder / asked["npy"]) if isinstance(asked, dict) else np.array(asked, np.uint8)
    assert crossing.dtype == np.uint8 and (small == crossing).all()
    (found,) = session.run(["probabilities"], {"small": small[np.newaxis]})
    answer = json.loads((folder / "answer.json").read_text())
    assert np.allclose(found[0], answer["response"]["probabilities"], 1e-5, 1e-6)
    whole = json.loads((caller / "answer.json").read_text())["response"]
    best = np.argsort(-found[0])[:2]
    assert [one["index"] for one in whole["best"]] == best.tolist(), whole
    assert np.allclose([one["score"] for one in whole["best"]], found[0][best], 1e-5, 1e-6)
    assert whole["choice"] == best[0] and whole["shares"] == answer["response"]["probabilities"]
    values = json.loads((caller / "values.json").read_text())["values"]
    assert values["06.best.best"]["value"] == whole["best"], sorted(values)
    assert values["00.decode.picture"]["shape"] == list(np.asarray(picture).shape)
loaded = {name.partition(".")[0] for name in sys.modules}
assert not loaded & {"torch", "dspec", "dspec_bundle", "onnx"}, loaded
print("replayed")
"""


def test_another_team_replays_the_golden_vectors(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "replay.py").write_text(REPLAY)
    command = [sys.executable, "-B", str(tmp_path / "replay.py"), str(bundle)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "replayed", done.stderr


def test_golden_vectors_hold_the_raw_request_and_every_value(bundle: Path) -> None:
    trace = np.load(bundle / "golden" / "0000" / "trace.npz")
    names = [key.partition(".")[2] for key in trace.files if key[0].isdigit()]
    assert names == [
        "decode.picture", "small.small", "unit.unit", "normal.normal", "planes.pixels", "shares.probabilities",
        "best.best (json)", "choice.choice",
    ]  # fmt: skip
    np.testing.assert_array_equal(trace["door.small"][0], trace["01.small.small"])
    assert _json(bundle / "golden" / "0000" / "caller" / "request.json")["expected"] == {"choice": 0}


@pytest.mark.slow
def test_quality_is_that_of_the_whole_answer(built: Path, bundle: Path, tmp_path: Path) -> None:
    evidence = _json(built / "bundles" / "owed" / "evidence" / "fleet.json")
    (figure,) = evidence["measurements"][0]["quality"]["figures"]
    assert (figure["of"], figure["n"], figure["broken"]) == ("choice", 5, "")
    assert figure["value"] == figure["reference"]
    measured = _dspec(built, "measure", str(bundle), "-o", str(tmp_path / "here.json"))
    assert measured.returncode == 0, measured.stderr
    (golden,) = _json(tmp_path / "here.json")["quality"]["figures"]
    assert (golden["n"], golden["broken"], golden["value"]) == (3, "", golden["reference"])


def test_the_readme_says_what_is_owed(bundle: Path) -> None:
    text = (bundle / "README.md").read_text()
    summary = catalogue().steps["top_k"].summary
    for words in (
        "## What the caller does",
        "2. `small`: `resize` of `picture` gives `small`. Resize a picture.\n   - size: [32, 32]",
        f"1. `best`: `top_k` of `probabilities` gives `best`. {summary}\n   - k: 2",
        "`caller/request.json`: the raw request (`photo`: image)",
        "what the bundle is asked then (`small`: tensor uint8 [32, 32, 3])",
        "The whole response is `shares` (the value `probabilities`), `best`, `choice`.",
        "A request is one item with the fields `small` (tensor); the answer has `probabilities`.",
    ):
        assert words in text, text


def test_plan_tells_what_crosses(built: Path) -> None:
    done = _dspec(built, "plan")
    assert done.returncode == 0
    assert "    the caller asks the bundle with: small tensor uint8 [32, 32, 3]\n" in done.stdout
    assert "    and takes from its response: probabilities\n" in done.stdout
    assert _json_of(_dspec(built, "plan", "--format", "json"))["asked"] == ["small tensor uint8 [32, 32, 3]"]


def _json_of(done: subprocess.CompletedProcess[str]) -> Any:
    return json.loads(done.stdout)


def test_it_is_run_as_it_is_asked(built: Path, bundle: Path) -> None:
    golden = bundle / "golden" / "0000"
    done = _dspec(built, "run", str(bundle), "--input", str(golden / "request.json"))
    assert done.returncode == 0, done.stderr
    whole = _json(golden / "caller" / "answer.json")["response"]
    assert json.loads(done.stdout)["probabilities"] == pytest.approx(whole["shares"], rel=1e-5)
    raw = _dspec(built, "run", str(bundle), "--input", "photo=@photos/0.png")
    assert raw.returncode == 2
    assert "no field photo; there are small" in raw.stderr


@pytest.mark.slow
def test_a_trace_lacks_no_step_of_the_callers(built: Path, bundle: Path, tmp_path: Path) -> None:
    request, trace = bundle / "golden" / "0001" / "request.json", tmp_path / "trace.npz"
    assert _dspec(built, "run", str(bundle), "--input", str(request), "--trace", str(trace)).returncode == 0
    done = _dspec(built, "trace-diff", str(trace), str(trace), "--spec", "deploy.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "they agree in every value" in done.stdout
    assert "decode" not in done.stdout


def test_verify_proves_it(built: Path, bundle: Path) -> None:
    done = _dspec(built, "verify", str(bundle))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 golden vectors replayed: within tolerance" in done.stdout


def _trace(folder: Path, name: str) -> None:
    """One number of an array in trace.npz, changed."""
    from dspec.targets.shipped.golden import read_npz, write_npz

    arrays = {key: np.array(array) for key, array in read_npz(folder / "trace.npz").items()}
    arrays[name].flat[0] += 1
    write_npz(folder / "trace.npz", arrays)


def _text(folder: Path, name: str, old: str, new: str) -> None:
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1))


CHANGED: dict[str, tuple[Callable[[Path], object], str]] = {
    "the first step's picture": (lambda at: _trace(at, "00.decode.picture"), "00.decode.picture is not the array"),
    "the last step's choice": (lambda at: _trace(at, "07.choice.choice"), "07.choice.choice is not the array"),
    "a value that is no array": (
        lambda at: _text(at, "caller/values.json", '"index": ', '"index": 1'),
        "06.best.best is not the value that was recorded",
    ),
    "the whole answer": (
        lambda at: _text(at, "caller/answer.json", '"choice": ', '"choice": 1'),
        "caller/answer.json is not what was recorded",
    ),
    "the raw request": (
        lambda at: _text(at, "caller/request.json", '"photo"', '"image"'),
        "caller/request.json is not what was recorded",
    ),
    "a missing value": (lambda at: (at / "caller" / "values.json").write_text("{}"), "a malformed fixture"),
}


@pytest.mark.parametrize("what", CHANGED)
def test_a_changed_value_of_the_callers_is_found(copy: Path, what: str) -> None:
    change, words = CHANGED[what]
    change(copy / "golden" / "0001")
    verified = _dspec(copy, "verify", str(copy), "--digests")
    assert verified.returncode == 1
    assert "golden/0001/" in verified.stderr
    command = [sys.executable, "-B", "-m", "dspec_bundle", "selftest"]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert words in done.stdout + done.stderr


@pytest.mark.slow
def test_moving_a_step_to_the_caller_captures_nothing_anew(built: Path, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    shutil.copytree(built, folder)
    spec = folder / "deploy.yaml"
    spec.write_text(spec.read_text().replace("size: [32, 32], place: contract", "size: [32, 32]"))
    done = _dspec(folder, "build")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "running the reference" not in done.stderr
    pipeline = _json(folder / "bundles" / "owed" / "fleet" / "pipeline" / "pipeline.json")
    assert [step["id"] for step in pipeline["before"]] == ["small"]
    picture = pipeline["request"]["picture"]
    assert (picture["type"], picture["dtype"], picture["shape"]) == ("tensor", "uint8", ["any0", "any1", 3])
