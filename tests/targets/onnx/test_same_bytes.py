"""Two folders, two hash seeds, two processes: the same bytes, and no trace of either folder in them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from dspec.targets.artifacts.onnx_listing import listing

BUILD = """
import json, sys
from pathlib import Path
from dspec.spec.records import Interface
from dspec.targets.artifacts.onnx import BUILDER
from dspec.targets.protocol import Program

here = Path.cwd()
told = json.loads((here / "program.json").read_text())
program = Program(path=here / "model.pt2", interface=Interface.model_validate_json(json.dumps(told["interface"])),
                  symbols=told["symbols"], sources=told["sources"], tensors=())
BUILDER.build(program, {}, here / "artifact")
"""


class Attention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = torch.nn.Embedding(50, 16)
        self.attend = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.attend(self.embed(ids))
        found: torch.Tensor = torch.cond(hidden.sum() > 0, lambda h: h * 2, lambda h: h - 1, (hidden,))
        return found


def _start(folder: Path, seed: str) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", BUILD], cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


@pytest.mark.filterwarnings("ignore::UserWarning:torch")
def test_same_bytes_anywhere(lab: Any, tmp_path: Path) -> None:

    program = lab.capture(Attention(), {"ids": ("int64", ["batch", "seq"])}, {"y": ("float32", ["batch", "seq", 16])})
    told = {
        "interface": program.interface.model_dump(mode="json"),
        "symbols": dict(program.symbols),
        "sources": dict(program.sources),
    }
    (program.path.parent / "program.json").write_text(json.dumps(told))
    folders = [tmp_path / "first", tmp_path / "another" / "deeper"]
    for folder in folders:
        shutil.copytree(program.path.parent, folder)
    running = [_start(folder, seed) for folder, seed in zip(folders, ("1", "4242"), strict=True)]
    for process in running:
        said, _ = process.communicate(timeout=120)
        assert (process.returncode, said) == (0, "")
    files = [folder / "artifact" / "model.onnx" for folder in folders]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert listing(files[0]) == listing(files[1])
    for trace in (str(tmp_path), str(Path(__file__).parent), sys.prefix, str(Path.home())):
        assert trace.encode() not in files[0].read_bytes()
