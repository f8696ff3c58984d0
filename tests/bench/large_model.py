"""A model of 2.2 GB through capture, ONNX with external data, bundle and verify; prints the peak memory of any process.

Run by hand: `python tests/bench/large_model.py [FOLDER]` (about 15 GB of disk). The goal: below 4 times the weights, beside
what torch itself takes.
"""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

ROWS, WIDTH = 1_100_000, 500  # float32: 2.2 GB
MODEL = f"""
import torch
from torch import nn


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = nn.Embedding({ROWS}, {WIDTH})
        self.head = nn.Linear({WIDTH}, 8)

    def forward(self, ids):
        return self.head(self.rows(ids).mean(1))


def build():
    with torch.device("meta"):
        module = Table()
    return module.to_empty(device="cpu").eval()
"""
SPEC = f"""\
apiVersion: dspec/v1alpha1
name: large
model:
  factory: model.py:build
  weights: {{path: weights.safetensors}}
  inputs: {{ids: {{dtype: int64, shape: [batch, 4], range: [0, {ROWS - 1}]}}}}
  outputs: {{scores: {{dtype: float32, shape: [batch, 8]}}}}
  dims: {{batch: {{max: 4}}}}
fixtures: [{{file: requests.jsonl, golden: 2}}]
targets: {{local: {{runtime: onnxruntime}}}}
load: {{rate_rps: 20, duration_s: 2, max_duration_s: 2}}
"""


def write(folder: Path) -> None:
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    tensors = {
        "rows.weight": torch.randn(ROWS, WIDTH),
        "head.weight": torch.randn(8, WIDTH),
        "head.bias": torch.zeros(8),
    }
    save_file(tensors, str(folder / "weights.safetensors"))
    (folder / "model.py").write_text(MODEL)
    (folder / "deploy.yaml").write_text(SPEC)
    lines = [f'{{"ids": [{n}, {n * 7919 % ROWS}, {n * 104729 % ROWS}, {ROWS - 1 - n}]}}\n' for n in range(6)]
    (folder / "requests.jsonl").write_text("".join(lines))


def run(folder: Path, *arguments: str) -> None:
    """One command in a process of its own, whose children's peak is what getrusage tells it."""
    if os.fork():
        os.wait()
        return
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "dspec.compiler.cli", *arguments], cwd=folder, check=False)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    weights = (folder / "weights.safetensors").stat().st_size
    print(
        f"== dspec {' '.join(arguments)}: exit {done.returncode}, {time.perf_counter() - start:.0f} s, peak of any process "
        f"{peak / 1e9:.2f} GB, {peak / weights:.2f} times the weights",
        flush=True,
    )
    os._exit(0)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="dspec-large-", dir=sys.argv[1] if len(sys.argv) > 1 else None) as name:
        folder = Path(name)
        if os.fork() == 0:  # torch's memory stays out of what is reported
            write(folder)
            os._exit(0)
        os.wait()
        torch = subprocess.run(
            [sys.executable, "-c", "import torch, resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        print(f"{platform.platform()} · torch {version('torch')} · onnxruntime {version('onnxruntime')}")
        print(
            f"torch alone takes {int(torch.stdout) * 1024 / 1e9:.2f} GB; writing the weights took more and is not counted"
        )
        for arguments in (("build",), ("build",), ("verify", "bundles/large/local")):
            run(folder, *arguments)


if __name__ == "__main__":
    main()
