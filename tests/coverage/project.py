"""An architecture as a project that dspec builds: model.py, fixtures, spec."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from tests.coverage.architectures import Architecture

FIXTURES = 6
BATCH = 16
TARGET = "here"
MODEL = '''import torch
import transformers
from torch import nn

{source}
class Output(nn.Module):
    """One tensor of what the model returns."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, {names}):
        found = self.model({given})
        return {result}


def livened(model):
    """Weights as large as keeps signals alive through every layer, and statistics of layers that are not fresh."""
    generator = torch.Generator().manual_seed(7)
    for name, tensor in model.named_parameters():
        if tensor.dim() >= 2:
            fan_in = tensor[0].numel()
            drawn = torch.randn(tensor.shape, generator=generator) * ({gain} / fan_in**0.5)
        else:
            drawn = torch.randn(tensor.shape, generator=generator) * 0.2 + (0.0 if name.endswith("bias") else 1.0)
        with torch.no_grad():
            tensor.copy_(drawn)
    for name, tensor in model.named_buffers():
        if name.endswith("running_mean"):
            tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.1)
        elif name.endswith("running_var"):
            tensor.copy_(torch.rand(tensor.shape, generator=generator) * 0.5 + 0.5)
    return model


def build():
    torch.manual_seed(3)
    return Output(livened({make}.eval()))
'''
_PORT = re.compile(r"^(\w+)\[(.*?)\](?: (\d+)\.\.(\d+))?$")


def write(architecture: Architecture, runtime: str, folder: Path) -> Path:
    """Write the project; gives its spec."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.py").write_text(_model(architecture))
    ports = {name: _port(text) for name, text in architecture.inputs.items()}
    draw = np.random.default_rng(1)
    rows = [{name: _drawn(port, draw, architecture.range) for name, port in ports.items()} for _ in range(FIXTURES)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    spec = {
        "apiVersion": "dspec/v1alpha1",
        "name": "coverage",
        "owner": "tests",
        "model": {
            "factory": "model.py:build",
            "inputs": {name: _declared(port, architecture.range) for name, port in ports.items()},
            "outputs": {"y": _declared(_port(architecture.output), 0)},
            "dims": {"batch": {"min": 1, "max": BATCH}},
        },
        "fixtures": [{"file": "rows.jsonl", "golden": 1}],
        "targets": {TARGET: {"runtime": runtime, "hardware": "host"}},
    }
    (folder / "deploy.yaml").write_text(json.dumps(spec, indent=1))
    return folder / "deploy.yaml"


def _model(architecture: Architecture) -> str:
    names = list(architecture.inputs)
    plain = not architecture.field
    return MODEL.format(
        source=architecture.source,
        names=", ".join(names),
        given=", ".join(names if plain else (f"{name}={name}" for name in names)),
        result="found" if plain else f"found.{architecture.field}",
        make=architecture.make,
        gain=architecture.gain,
    )


def _port(text: str) -> dict[str, Any]:
    found = _PORT.match(text)
    assert found, text
    shape = [int(size) if size.isdigit() else size for size in re.split(r",\s*", found[2])]
    return {"dtype": found[1], "shape": shape, "range": [int(found[3]), int(found[4])] if found[3] else None}


def _declared(port: dict[str, Any], end: int) -> dict[str, Any]:
    integer = port["dtype"].startswith("int")
    given = port["range"] or ([1, end - 1] if integer else None)
    return {"dtype": port["dtype"], "shape": port["shape"]} | ({"range": given} if given else {})


def _drawn(port: dict[str, Any], draw: Any, end: int) -> Any:
    shape = port["shape"][1:]
    if port["range"]:
        return np.full(shape, port["range"][0]).tolist()
    if port["dtype"].startswith("int"):
        return draw.integers(1, end, shape).tolist()
    return draw.standard_normal(shape).round(3).tolist()
