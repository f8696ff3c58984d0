"""A `.pte`, laid into a bundle: held against the target's runtime, and loaded once as the bundle will load it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dspec.spec.errors import ExportError
from dspec.spec.records import Metric
from dspec.targets.artifacts.laid import lay
from dspec.targets.artifacts.pte import LISTING, ORIGINS
from dspec.targets.executorch.kernels import check_kernels
from dspec.targets.protocol import Artifact, Job
from dspec.targets.shipped import engine_executorch
from dspec.targets.shipped.errors import EngineError

FOLDER = "model"
SHOWN = 4  # operators of the rest, in an error


@dataclass(frozen=True, kw_only=True, slots=True)
class Laid:
    """`model` as it goes into bundle.json."""

    model: Mapping[str, Any]
    metrics: tuple[Metric, ...]


def lay_pte(job: Job, out: Path, options: Mapping[str, Any]) -> Laid:
    """Write `model/` with its listing. Errors as `ExecuTorch.lower`."""
    (artifact,) = job.artifacts
    check_kernels(artifact, artifact.folder / ORIGINS, job.spec, job.target_id)
    _check_share(artifact, float(options["min_delegated"]))
    lay(artifact, out / FOLDER)
    shutil.copyfile(artifact.folder / LISTING, out / FOLDER / LISTING)
    model = {"path": f"{FOLDER}/{artifact.file}", "format": "pte", **artifact.facts}
    _load_once(out, job, options, model)
    return Laid(model=model, metrics=_metrics(artifact))


def _check_share(artifact: Artifact, least: float) -> None:
    share = artifact.facts["delegated_flops"]
    if share >= least:
        return
    left = [f"{one['operator']} ({', '.join(one['from']) or 'unknown line'})" for one in artifact.facts["portable"]]
    raise ExportError.of(
        "E0535",
        f"the delegate takes {share:.1%} of the arithmetic; left to portable kernels: {', '.join(left[:SHOWN]) or 'all of it'}"
        + (f" and {len(left) - SHOWN} more" if len(left) > SHOWN else ""),
        expected=f"{least:.0%} at least, as `min_delegated` asks",
        hint="write those lines with operators that the delegate takes (model/graph.txt shows which it does), or lower `min_delegated`",
    )


def _load_once(out: Path, job: Job, options: Mapping[str, Any], model: Mapping[str, Any]) -> None:
    manifest = {
        "options": options,
        "cores": job.target.resources.cores,
        "model": model,
        "interface": job.program.interface.model_dump(mode="json"),
    }
    try:
        engine_executorch.open_engine(out, manifest)
    except EngineError as error:
        raise ExportError.of(
            "E0537",
            str(error),
            expected="a program that the bundle's runner loads on this machine",
            hint="try `delegate: none`; if that loads, report it with the model",
        ) from error


def _metrics(artifact: Artifact) -> tuple[Metric, ...]:
    facts = artifact.facts
    sizes = {f"{name}_bytes": size for name, size in facts["sections"].items() if size}
    return (
        Metric(name="model_bytes", value=facts["bytes"], unit="bytes", better="lower"),
        Metric(name="planned_bytes", value=sum(facts["planned_bytes"]), unit="bytes", better="lower"),
        Metric(name="delegated_flops", value=facts["delegated_flops"], unit="share", better="higher"),
        Metric(name="delegated_operators", value=facts["delegated_operators"], unit="share", better="higher"),
        Metric(name="delegates", value=facts["delegates"], unit="delegates"),
        Metric(name="flops", value=facts["flops"], unit="operations"),
        Metric(name="parameters", value=facts["parameters"], unit="numbers"),
        *(Metric(name=name, value=size, unit="bytes", better="lower") for name, size in sizes.items()),
    )
