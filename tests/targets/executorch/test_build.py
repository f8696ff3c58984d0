"""One whole `dspec build`: for this machine, proved; for a phone that is not here, proved on host kernels and waived."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

MODEL = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.prelu, self.dense = nn.Conv2d(3, 4, 3, padding=1), nn.PReLU(16), nn.Linear(16, 5)

    def forward(self, x):
        x = self.conv(x).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 16)
        x = self.prelu(x.transpose(1, 2))
        return self.dense(x.transpose(1, 2)).mean(1)


def build():
    torch.manual_seed(3)
    return Net()
"""
SPEC = """\
apiVersion: dspec/v1alpha1
name: tiny
owner: tests
model:
  factory: model.py:build
  inputs: {x: {dtype: float32, shape: [batch, 3, 8, 8]}}
  outputs: {scores: {dtype: float32, shape: [batch, 5]}}
  dims: {batch: {min: 1, max: 20}}
fixtures:
  - {file: fixtures.jsonl, golden: 2}
targets:
  here: {runtime: executorch, hardware: host, options: {min_delegated: 0.5}}
  phone: {runtime: executorch, hardware: android-arm64, slo: {latency_ms: {p50: 40}}}
load: {rate_rps: 100, duration_s: 1, max_duration_s: 2}
"""
WAIVERS = """\
waivers:
  - {target: phone, gate: latency, verdict: unmeasured, reason: no phone in CI, owner: tests, expires: 2999-01-01}
  - {target: phone, gate: smoke, verdict: unmeasured, reason: no phone in CI, owner: tests, expires: 2999-01-01}
"""


@dataclass(frozen=True)
class Project:
    folder: Path

    def dspec(self, *arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "dspec.compiler.cli", *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=dict(os.environ), capture_output=True, text=True, check=False
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    import random

    folder = tmp_path_factory.mktemp("tiny")
    draw = random.Random(1)
    rows = [
        {"x": [[[round(draw.gauss(0, 2), 2) for _ in range(8)] for _ in range(8)] for _ in range(3)]} for _ in range(4)
    ]
    (folder / "fixtures.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "model.py").write_text(MODEL)
    (folder / "deploy.yaml").write_text(SPEC)
    return Project(folder)


@pytest.mark.slow
def test_from_withheld_to_waived(project: Project) -> None:
    code, said = project.dspec("build", "--format", "json")
    result: dict[str, Any] = json.loads(said[said.index("{") :].rpartition("}")[0] + "}")
    assert code == 5, said
    here, phone = (verdicts(target) for target in result["targets"])
    assert [target["exit_code"] for target in result["targets"]] == [0, 5]
    assert {here[gate]["verdict"] for gate in ("parity", "smoke")} == {"pass"}
    assert phone["parity"]["verdict"] == "pass"
    (counted, *_) = phone["parity"]["detail"]
    assert (
        "on host kernels (XnnpackBackend and portable kernels) and not on the device: android-arm64 is android"
        in counted
    )
    assert {phone[gate]["verdict"] for gate in ("latency", "smoke")} == {"unmeasured"}
    refused = [warning for warning in result["warnings"] if warning["code"] == "E0533"]
    assert refused[0]["message"].startswith("XNNPACK refuses prelu.default, which portable kernels compute instead")
    assert (refused[0]["file"].rpartition("/")[2], refused[0]["line"]) == ("model.py", 13)

    (project.folder / "deploy.yaml").write_text(SPEC + WAIVERS)
    code, said = project.dspec("build")
    assert code == 0, said
    bundle = project.folder / "bundles" / "tiny" / "phone"
    manifest = json.loads((bundle / "bundle.json").read_text())
    assert manifest["model"]["backends"] == ["XnnpackBackend"]
    assert "aten::gt.Scalar_out" in manifest["model"]["kernels"]
    assert "prelu" not in json.dumps(manifest["model"]["operators"])
    assert {line.partition("==")[0] for line in (bundle / "requirements.txt").read_text().split()} >= {
        "executorch",
        "torch",
        "numpy",
    }
    assert not list(bundle.rglob("origins.json"))

    code, said = project.dspec("run", "bundles/tiny/here", "--input", "x=@one.json")
    assert code == 2, said
    (project.folder / "one.json").write_text(
        json.dumps(json.loads((project.folder / "fixtures.jsonl").read_text().splitlines()[0])["x"])
    )
    code, said = project.dspec("run", "bundles/tiny/here", "--input", "x=@one.json")
    assert code == 0, said
    answer, _ = json.JSONDecoder().raw_decode(said[said.index("{") :])
    assert len(answer["scores"]) == 5


def verdicts(target: dict[str, Any]) -> dict[str, Any]:
    return {found["gate"]: found for found in target["verdicts"]}
