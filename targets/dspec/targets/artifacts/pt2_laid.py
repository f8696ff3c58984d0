"""The exported program, laid into a bundle for the engine `eager`: for every runtime that serves it."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dspec.spec.records import Metric
from dspec.targets.protocol import Job

FOLDER, PROGRAM = "model", "model.pt2"
ENGINE = Path(__file__).with_name("engine_eager.py")  # the module that runs it


@dataclass(frozen=True, kw_only=True, slots=True)
class Laid:
    """`model` as it goes into bundle.json."""

    model: Mapping[str, Any]
    toolchain: Mapping[str, str]
    metrics: tuple[Metric, ...]


def lay_pt2(job: Job, out: Path) -> Laid:
    """Write `model/` with its listing: flat, tensors in and out, readable without any class of the user's."""
    import torch

    size = job.program.path.stat().st_size
    (out / FOLDER).mkdir(parents=True, exist_ok=True)
    shutil.copyfile(job.program.path, out / FOLDER / PROGRAM)
    (out / FOLDER / "graph.txt").write_text(listing(torch.export.load(job.program.path).graph), encoding="utf-8")
    parameters = sum(math.prod(tensor.shape) for tensor in job.program.tensors)
    return Laid(
        model={"path": f"{FOLDER}/{PROGRAM}", "format": "pt2", "bytes": size, "parameters": parameters},
        toolchain={"torch": version("torch")},
        metrics=(
            Metric(name="model_bytes", value=size, unit="bytes", better="lower"),
            Metric(name="parameters", value=parameters, unit="numbers"),
        ),
    )


def listing(graph: Any) -> str:
    """The graph as text: a node per line, what a reviewer can compare."""
    return "".join(f"{node.op} {node.name} = {node.target}({', '.join(map(str, node.args))})\n" for node in graph.nodes)
