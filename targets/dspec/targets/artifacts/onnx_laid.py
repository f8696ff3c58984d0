"""An ONNX artifact, laid into a bundle and loaded once as the bundle will load it: for every runtime that serves it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dspec.spec.records import Metric
from dspec.targets.artifacts.laid import lay
from dspec.targets.artifacts.onnx import ORIGINS
from dspec.targets.artifacts.onnx_listing import listing
from dspec.targets.artifacts.onnx_session import load_once
from dspec.targets.protocol import Artifact, Job

FOLDER = "model"


@dataclass(frozen=True, kw_only=True, slots=True)
class Laid:
    """`model` as it goes into bundle.json."""

    model: Mapping[str, Any]
    metrics: tuple[Metric, ...]


def lay_onnx(job: Job, artifact: Artifact, out: Path, options: Mapping[str, Any]) -> Laid:
    """Write `model/` with its listing. `options` are those of the session.

    Raises:
        ExportError: E0511, E0512, E0513: this ONNX Runtime can't run the graph.
    """
    lay(artifact, out / FOLDER)
    path = out / FOLDER / artifact.file
    path.with_name("graph.txt").write_text(listing(path), encoding="utf-8")
    load_once(path, job, options, _origins(artifact))
    model = {"path": f"{FOLDER}/{artifact.file}", "format": "onnx", **artifact.facts}
    return Laid(model=model, metrics=_metrics(artifact))


def _origins(artifact: Artifact) -> dict[str, str]:
    try:
        found: dict[str, str] = json.loads((artifact.folder / ORIGINS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return found


def _metrics(artifact: Artifact) -> tuple[Metric, ...]:
    facts = artifact.facts
    return (
        Metric(name="model_bytes", value=facts["bytes"], unit="bytes", better="lower"),
        Metric(name="parameters", value=facts["parameters"], unit="numbers"),
        Metric(name="nodes", value=facts["nodes"], unit="nodes"),
    )
