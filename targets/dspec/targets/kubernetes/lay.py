"""Writes `kubernetes/` of a bundle."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import DictLoader, Environment, StrictUndefined

from dspec.targets.kubernetes.quantities import quantity
from dspec.targets.kubernetes.serving import Serving
from dspec.targets.kubernetes.templates import (
    deployment,
    inference_service,
    kustomization,
    parts,
    readme,
    service,
)
from dspec.targets.kubernetes.workload import Workload, workload
from dspec.targets.protocol import Job

FOLDER = "kubernetes"
ALWAYS = {
    "README.md": readme.TEXT,
    "deployment.yaml": deployment.TEXT,
    "kustomization.yaml": kustomization.TEXT,
    "service.yaml": service.TEXT,
}
KSERVE = {"inference_service.yaml": inference_service.TEXT}


def lay_kubernetes(out: Path, job: Job, serving: Serving) -> None:
    """Write `kubernetes/` into the bundle's folder `out`: Deployment, Service, kustomization and, for Triton, InferenceService.

    `serving`: `serving.service_serving(…)` or `serving.triton_serving(…)`.
    """
    folder = out / FOLDER
    folder.mkdir()
    for name, text in manifests(workload(job.spec, job.target_id, job.target, serving)).items():
        (folder / name).write_text(text, encoding="utf-8")


def manifests(found: Workload) -> dict[str, str]:
    """File → text. A pure function: the same workload, the same bytes."""
    wanted = (*ALWAYS, *KSERVE) if found.serving.kserve_arguments else ALWAYS
    values = {"it": found, "serving": found.serving, "start": found.start}
    return {name: _environment().get_template(name).render(values) for name in wanted}


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=DictLoader({"parts": parts.TEXT, **ALWAYS, **KSERVE}),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # YAML: texts are quoted by tojson
    )
    environment.filters["quantity"] = quantity
    return environment
