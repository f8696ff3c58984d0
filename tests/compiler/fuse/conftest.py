"""Small models with steps in the graph, captured and fused in this process."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dspec.compiler import stages
from dspec.compiler.captured import capture_stage
from dspec.compiler.fuse.program import fuse_program
from dspec.compiler.fuse.reference import fuse_reference
from dspec.compiler.lower import read_program
from dspec.compiler.measure.cases import Expected, reference_cases
from dspec.compiler.pipeline import write_pipeline
from dspec.spec.boundary import served
from dspec.spec.load import Loaded, load
from dspec.spec.placement import to_the_door
from dspec.targets import catalogue
from dspec.targets.protocol import Program

HEAD = "apiVersion: dspec/v1alpha1\nname: small\nfixtures: [{file: fixtures.jsonl}]\ntargets: {local: {runtime: onnxruntime}}\n"


def _silent(text: str) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class Fusion:
    """A spec after the stages capture, fuse and refer."""

    loaded: Loaded
    captured: Program
    program: Program
    index: Mapping[str, Any]
    cases: tuple[Expected, ...]
    before: tuple[Expected, ...]
    folder: Path

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The fused program's own answers, in PyTorch."""
        module = torch.export.load(self.program.path).module()
        tensors = [torch.from_numpy(np.array(inputs[name])) for name in self.program.interface.inputs]
        with torch.no_grad():
            found = module(*tensors)
        return {name: one.numpy() for name, one in zip(self.program.interface.outputs, found, strict=True)}


def _fuse(folder: Path, work: Path) -> Fusion:
    loaded = load(folder / "deploy.yaml", catalogue())
    spec = loaded.spec
    write_pipeline(to_the_door(spec), folder, work / "before")
    write_pipeline(served(spec, catalogue()), folder, work / "served")
    stage = stages.capture_stage(loaded, ())
    capture_stage(
        json.loads(json.dumps(stage.request)), stage.places, {"pipeline": work / "before"}, work / "capture", _silent
    )
    program, reference = work / "capture" / "program", work / "capture" / "reference"
    write_pipeline(spec, folder, work / "whole", read_program(program).interface)
    request = json.loads(json.dumps(stages.fuse_stage(loaded, ()).request))
    fuse_program(request, {"spec_file": "deploy.yaml"}, {"program": program}, work / "fuse", _silent)
    fused = work / "fuse" / "program"
    inputs = {
        "program": program,
        "fused": fused,
        "reference": reference,
        "whole": work / "whole",
        "served": work / "served",
    }
    fuse_reference(request, {}, inputs, work / "refer", _silent)
    whole = json.loads((work / "whole" / "pipeline.json").read_text())["request"]
    fields = json.loads((work / "refer" / "pipeline" / "pipeline.json").read_text())["request"]
    return Fusion(
        loaded=loaded,
        captured=read_program(program),
        program=read_program(fused),
        index=json.loads((work / "refer" / "reference" / "index.json").read_text()),
        cases=tuple(reference_cases(work / "refer" / "reference", fields)),
        before=tuple(reference_cases(reference, whole)),
        folder=work,
    )


@pytest.fixture
def fuse(tmp_path: Path) -> Callable[[str, str, list[dict[str, Any]]], Fusion]:
    """`fuse(model.py, spec without its head, fixtures)`."""

    def make(model: str, spec: str, rows: list[dict[str, Any]]) -> Fusion:
        folder = tmp_path / "spec"
        folder.mkdir(exist_ok=True)
        (folder / "model.py").write_text("import torch\nfrom torch import nn\n\n\n" + model)
        (folder / "deploy.yaml").write_text(HEAD + spec)
        (folder / "fixtures.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return _fuse(folder, tmp_path / "work")

    return make


def numbers(*shape: int, seed: int = 0, high: int = 255) -> Any:
    """Nested lists of whole numbers."""
    draw = random.Random(seed)
    if not shape:
        return draw.randint(0, high)
    return [numbers(*shape[1:], seed=draw.randint(0, 10**9), high=high) for _ in range(shape[0])]


@pytest.fixture
def pictures() -> Callable[..., list[dict[str, Any]]]:
    """`pictures(count, *shape)`: requests of a tensor field `raw`."""
    return lambda count, *shape: [{"raw": numbers(*shape, seed=seed)} for seed in range(count)]
