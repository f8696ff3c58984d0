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

BUILD = """
import json, sys
from pathlib import Path
from dspec.spec.records import Interface
from dspec.targets.artifacts.pte import BUILDER
from dspec.targets.protocol import Program

here = Path.cwd()
told = json.loads((here / "program.json").read_text())
program = Program(path=here / "model.pt2", interface=Interface.model_validate_json(json.dumps(told["interface"])),
                  symbols=told["symbols"], sources=told["sources"], tensors=())
BUILDER.build(program, {}, here / "artifact")
"""


class Net(torch.nn.Module):
    """Delegated parts with portable ones between them, and weights in both."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = torch.nn.Embedding(50, 16)
        self.first, self.second = torch.nn.Linear(16, 16), torch.nn.Linear(16, 8)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.first(self.embed(ids)).cumsum(1)
        found: torch.Tensor = self.second(hidden).softmax(-1)
        return found


def _start(folder: Path, seed: str) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", BUILD], cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


@pytest.mark.filterwarnings("ignore")  # what torch and executorch remark while they import
def test_same_bytes_anywhere(lab: Any, tmp_path: Path) -> None:
    program = lab.capture(Net(), {"ids": ("int64", ["batch", "seq"])}, {"y": ("float32", ["batch", "seq", 8])})
    told = {
        "interface": program.interface.model_dump(mode="json"),
        "symbols": dict(program.symbols),
        "sources": dict(program.sources),
    }
    folders = [tmp_path / "here", tmp_path / "another" / "place"]
    for folder in folders:
        folder.mkdir(parents=True)
        shutil.copyfile(program.path, folder / "model.pt2")
        (folder / "program.json").write_text(json.dumps(told))
    runs = [_start(folder, seed) for folder, seed in zip(folders, ("1", "77"), strict=True)]
    for run in runs:
        said, _ = run.communicate()
        assert run.returncode == 0, said
    for name in ("model.pte", "graph.txt", "origins.json"):
        one, other = ((folder / "artifact" / name).read_bytes() for folder in folders)
        assert one == other, name
        assert str(tmp_path).encode() not in one
