"""A small real project that `dspec build` builds once per session; tests then change one thing and build again."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

MODEL = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, width), nn.GELU(), nn.Linear(width, 3))

    def forward(self, x):
        return {"scores": self.layers(x), "top": self.layers(x).argmax(-1)}


def build(width):
    torch.manual_seed(3)
    return Net(width)
"""
SPEC = """\
apiVersion: dspec/v1alpha1
name: tiny
owner: tests
model:
  factory: model.py:build
  config: {width: 32}
  inputs: {x: {dtype: float32, shape: [batch, 4]}}
  outputs:
    scores: {dtype: float32, shape: [batch, 3]}
    top: {dtype: int64, shape: [batch]}
  dims: {batch: {min: 1, max: 16}}
fixtures:
  - {file: fixtures.jsonl, golden: 3}
targets:
  fleet: {runtime: onnxruntime, hardware: host}
load: {rate_rps: 100, duration_s: 1, max_duration_s: 5}
"""


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Project:
    """A folder with a spec, and the `dspec` command run in it."""

    folder: Path

    def dspec(self, *arguments: str, **environment: str) -> Done:
        command = [sys.executable, "-m", "dspec.compiler.cli", *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    def spec(self, text: str) -> None:
        (self.folder / "deploy.yaml").write_text(text)

    def add(self, line: str) -> None:
        """One more line at the end of the spec."""
        self.spec((self.folder / "deploy.yaml").read_text() + line + "\n")

    def edit(self, old: str, new: str) -> None:
        self.edit_file("deploy.yaml", old, new)

    def edit_file(self, name: str, old: str, new: str) -> None:
        text = (self.folder / name).read_text()
        assert old in text
        (self.folder / name).write_text(text.replace(old, new))

    @property
    def published(self) -> Path:
        return self.folder / "bundles" / "tiny"


@pytest.fixture(scope="session")
def new_project() -> Callable[[Path], Project]:
    """Writes the project into a folder."""
    return write_project


def write_project(folder: Path) -> Project:
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)
    rows = [{"x": [round(draw.gauss(0, 3), 3) for _ in range(4)]} for _ in range(16)]
    (folder / "fixtures.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "model.py").write_text(MODEL)
    (folder / "deploy.yaml").write_text(SPEC)
    return Project(folder)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project, published. Tests read it and leave it as it is."""
    project = write_project(tmp_path_factory.mktemp("built") / "tiny")
    done = project.dspec("build")
    assert done.code == 0, done.out + done.err
    return project


@pytest.fixture
def project(built: Project, tmp_path: Path) -> Project:
    """A copy of the published project with its store, to be changed."""
    shutil.copytree(built.folder, tmp_path / "tiny")
    return Project(tmp_path / "tiny")


@pytest.fixture(scope="session")
def label() -> Callable[[Path], list[int]]:
    """Labels the fixtures of a project's folder with the class that PyTorch gives the best score; gives the labels."""
    return write_labels


def write_labels(folder: Path) -> list[int]:
    import torch

    names: dict[str, Any] = {}
    exec((folder / "model.py").read_text(), names)
    rows = [json.loads(line) for line in (folder / "fixtures.jsonl").read_text().splitlines()]
    with torch.inference_mode():
        scores = names["build"](32)(torch.tensor([row["x"] for row in rows]))["scores"]
    labels: list[int] = scores.argmax(-1).tolist()
    labelled = [row | {"expected": best} for row, best in zip(rows, labels, strict=True)]
    (folder / "fixtures.jsonl").write_text("".join(json.dumps(row) + "\n" for row in labelled))
    return labels
