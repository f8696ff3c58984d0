"""The program folder: what a lowering needs, and not a trace of this machine in it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import torch

SOURCE = """import torch
from torch import nn
import torch.nn.functional as F

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
        self.register_buffer("bias", torch.linspace(0, 1, 8), persistent=False)

    def forward(self, x):
        return x + self.attend(self.norm(x), x, x)[0] + self.bias

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.out = nn.Linear(8, 8, bias=False)
        self.out.weight = self.blocks[0].attend.out_proj.weight

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.out(x)

def build():
    return Model().eval()
"""
IO = {"dtype": "float32", "shape": ["batch", "seq", 8]}
MODEL: dict[str, Any] = {
    "inputs": {"x": IO},
    "outputs": {"y": IO},
    "dims": {"batch": {"min": 1, "max": 16}, "seq": {"min": 2, "max": 12}},
}
CHILD = """
import sys, json
from pathlib import Path
from dspec.compiler.capture import CaptureRequest, capture
from dspec.compiler.pipeline import declared_interface, write_pipeline_json
from dspec.spec.models import Spec
folder, out = map(Path, sys.argv[1:])
spec = Spec.model_validate_json((folder / "spec.json").read_text())
write_pipeline_json(spec, declared_interface(spec), out / "pipeline")
capture(CaptureRequest(spec=spec, folder=folder, spec_file="deploy.yaml", weights=None, pipeline=out / "pipeline",
    program_out=out / "program", reference_out=out / "reference"), lambda text: None)
"""


def test_what_it_says(run: Any) -> None:
    captured = run(SOURCE, MODEL)
    said = captured.described
    assert said["interface"]["inputs"] == {"x": {**IO, "range": None}}
    assert said["interface"]["batch"] == "batch"
    assert sorted(said["symbols"].values()) == ["batch", "seq"]
    assert {"model.py:13", "model.py:26", "model.py:25"} & set(said["sources"].values())
    names = [tensor["name"] for tensor in said["tensors"]]
    assert "blocks.0.norm.weight" in names
    assert "blocks.1.bias" in names
    assert len([name for name in names if name in ("out.weight", "blocks.0.attend.out_proj.weight")]) == 1
    assert not [name for name in names if name.startswith("module.")]


def test_the_saved_program_is_flat_and_dynamic(run: Any) -> None:
    captured = run(SOURCE, MODEL)
    program = torch.export.load(captured.program / "model.pt2")
    symbols = captured.described["symbols"]
    given = next(node for node in program.graph.nodes if node.name in program.graph_signature.user_inputs)
    assert [symbols.get(str(size), size) for size in given.meta["val"].shape] == ["batch", "seq", 8]
    assert all(not name.startswith("module.") for name in program.state_dict)
    out = program.module(check_guards=False)(torch.ones(16, 12, 8))
    assert isinstance(out, tuple | list)
    assert out[0].shape == (16, 12, 8)


def test_same_bytes_from_any_folder_and_hash_seed(write_spec: Any, tmp_path: Path) -> None:
    outs = []
    for name, seed in (("one", "1"), ("another/place", "77")):
        write_spec(SOURCE, MODEL, tmp_path / name)
        _child(tmp_path / name, tmp_path / "out" / name, seed)
        outs.append(tmp_path / "out" / name)
    files = [path.relative_to(outs[0]) for path in sorted(outs[0].rglob("*")) if path.is_file()]
    assert {"model.pt2", "program.json", "index.json", "000.npz"} <= {path.name for path in files}
    for file in files:
        assert (outs[0] / file).read_bytes() == (outs[1] / file).read_bytes(), file
    with zipfile.ZipFile(outs[0] / "program" / "model.pt2") as archive:
        content = b"".join(archive.read(name) for name in archive.namelist())
    for trace in (str(tmp_path), sys.prefix, str(Path.cwd()), socket.gethostname()):
        assert trace.encode() not in content, trace
    assert b"model.py" in content


def _child(folder: Path, out: Path, seed: str) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    command = [sys.executable, "-W", "ignore", "-c", CHILD, str(folder), str(out)]
    subprocess.run(command, check=True, env=environment, capture_output=True)
