"""What each engine needs in the bundle."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dspec.spec.records import Metric
from dspec.targets.fastapi.weights import check_memory
from dspec.targets.protocol import Job

FOLDER, PROGRAM = "model", "model.pt2"


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """`model` as it goes into bundle.json; `module`: the file that runs it."""

    model: Mapping[str, Any]
    module: Path
    toolchain: Mapping[str, str]
    metrics: tuple[Metric, ...]


def lay_engine(job: Job, out: Path, options: Mapping[str, Any]) -> Engine:
    """Write `model/` for the engine that the job's options name, and load it once. Errors as `FastApi.lower`."""
    return _eager(job, out) if job.options.engine == "eager" else _onnxruntime(job, out, options)


def _onnxruntime(job: Job, out: Path, options: Mapping[str, Any]) -> Engine:
    from dspec.targets.artifacts.onnx_laid import lay_onnx
    from dspec.targets.shipped.engine_onnxruntime import __file__ as module

    (artifact,) = job.artifacts
    check_memory(job, artifact.facts["bytes"], job.options)
    laid = lay_onnx(job, artifact, out, options)
    return Engine(model=laid.model, module=Path(module), toolchain=artifact.toolchain, metrics=laid.metrics)


def _eager(job: Job, out: Path) -> Engine:
    """The exported program as captured: flat, tensors in and out, readable without any class of the user's."""
    size = job.program.path.stat().st_size
    check_memory(job, size, job.options)
    (out / FOLDER).mkdir(parents=True, exist_ok=True)
    shutil.copyfile(job.program.path, out / FOLDER / PROGRAM)
    (out / FOLDER / "graph.txt").write_text(_listing(job.program.path), encoding="utf-8")
    parameters = sum(_count(tensor.shape) for tensor in job.program.tensors)
    return Engine(
        model={"path": f"{FOLDER}/{PROGRAM}", "format": "pt2", "bytes": size, "parameters": parameters},
        module=Path(__file__).with_name("engine_eager.py"),
        toolchain={"torch": version("torch")},
        metrics=(
            Metric(name="model_bytes", value=size, unit="bytes", better="lower"),
            Metric(name="parameters", value=parameters, unit="numbers"),
        ),
    )


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _listing(path: Path) -> str:
    """The graph as text: a node per line, what a reviewer can compare."""
    import torch

    graph = torch.export.load(path).graph
    return "".join(f"{node.op} {node.name} = {node.target}({', '.join(map(str, node.args))})\n" for node in graph.nodes)
