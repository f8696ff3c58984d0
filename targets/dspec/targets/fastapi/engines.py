"""What each engine needs in the bundle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dspec.spec.errors import SpecError
from dspec.spec.records import Metric
from dspec.targets.fastapi.requirements import declared
from dspec.targets.fastapi.weights import check_memory
from dspec.targets.pinned import pinned
from dspec.targets.protocol import Job, Module


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """`model` as it goes into bundle.json; `modules`: the files that run it; `requirements`: what it imports beside the engine's own library, pinned."""

    model: Mapping[str, Any]
    modules: tuple[Path, ...]
    toolchain: Mapping[str, str]
    metrics: tuple[Metric, ...]
    requirements: frozenset[str] = frozenset()


def lay_engine(job: Job, out: Path, options: Mapping[str, Any]) -> Engine:
    """Write `model/` for the engine that the job's options name, and load it once. Errors as `FastApi.lower`."""
    return _eager(job, out) if job.options.engine == "eager" else _onnxruntime(job, out, options)


def _onnxruntime(job: Job, out: Path, options: Mapping[str, Any]) -> Engine:
    from dspec.targets.artifacts.onnx_laid import lay_onnx
    from dspec.targets.shipped.engine_onnxruntime import __file__ as module

    (artifact,) = job.artifacts
    check_memory(job, artifact.facts["bytes"], job.options)
    laid = lay_onnx(job, artifact, out, options)
    return Engine(
        model=laid.model,
        modules=(Path(module),),
        toolchain=artifact.toolchain,
        metrics=laid.metrics,
    )


def _eager(job: Job, out: Path) -> Engine:
    from dspec.targets.artifacts.pt2_laid import ENGINE, lay_pt2

    check_memory(job, job.program.path.stat().st_size, job.options)
    if job.module and not _falls_back(job, job.module):
        return _sources(job, job.module, out)
    laid = lay_pt2(job, out)
    return Engine(
        model=laid.model,
        modules=(ENGINE,),
        toolchain=laid.toolchain,
        metrics=laid.metrics,
    )


def _falls_back(job: Job, module: Module) -> bool:
    """Whether the program ships after all: only capture knows of files outside. Raises SpecError where sources are a must."""
    if module.outside and job.options.eager_from == "sources":
        raise SpecError.of(
            "E0522",
            f"the module's sources can't ship: {', '.join(module.outside[:3])} comes from an editable install",
            key="options.eager_from",
            expected="every file of the module in the spec's folder or in a package with a version",
            hint="install the package from an index, or set `eager_from: program`",
        )
    return bool(module.outside)


def _sources(job: Job, module: Module, out: Path) -> Engine:
    from dspec.targets.artifacts.sources_laid import MODULES, lay_sources

    needed = declared(job.spec.model.code.requirements)
    laid = lay_sources(job, module, out)
    return Engine(
        model=laid.model,
        modules=MODULES,
        requirements=frozenset({*pinned(("numpy", "safetensors", *module.distributions)), *needed}),
        toolchain=laid.toolchain,
        metrics=laid.metrics,
    )
