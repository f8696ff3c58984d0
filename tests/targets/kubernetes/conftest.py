"""Workloads of both serving runtimes, and their manifests read back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ruamel.yaml import YAML

from dspec.spec.models import Fixtures, Model, Resources, Slo, Spec, Target, Tensor
from dspec.targets.kubernetes.lay import manifests
from dspec.targets.kubernetes.serving import service_serving, triton_serving
from dspec.targets.kubernetes.workload import Workload, workload

Made = Callable[..., Workload]
SERVING = {"fastapi": service_serving(deadline_ms=30_000, workers=2), "triton": triton_serving()}


def make_workload(
    runtime: str = "fastapi",
    *,
    hardware: str = "linux-x86_64",
    cores: int = 2,
    memory: int | str | None = "2GiB",
    owner: str = "search-platform",
    target_id: str = "service",
    slo: Slo | None = None,
) -> Workload:
    resources = Resources.model_validate({"cores": cores, "memory": memory})
    target = Target(runtime=runtime, hardware=hardware, resources=resources, slo=slo or Slo())
    spec = Spec(
        api_version="dspec/v1alpha1",
        name="minilm-embedder",
        version="3",
        owner=owner,
        model=Model(factory="model.py:build", inputs={"x": Tensor(dtype="float32", shape=(2,))}),
        fixtures=(Fixtures(file="x.jsonl"),),
        targets={target_id: target},
    )
    return workload(spec, target_id, target, SERVING[runtime])


def read_manifests(found: Workload) -> dict[str, Any]:
    """Of every .yaml: what it says."""
    yaml = YAML(typ="safe", pure=True)
    return {name: yaml.load(text) for name, text in manifests(found).items() if name.endswith(".yaml")}


@pytest.fixture
def made() -> Made:
    return make_workload


@pytest.fixture
def read() -> Callable[[Workload], dict[str, Any]]:
    return read_manifests


VARIATIONS: dict[str, dict[str, Any]] = {
    "a service": {},
    "a service whose memory nobody declared": {"memory": None},
    "a service on arm64": {"hardware": "linux-arm64", "cores": 64, "memory": 1_500_000_001},
    "a service on whatever builds": {"hardware": "host", "owner": ""},
    "a service on hardware of one's own": {"hardware": "our-racks"},
    "an owner who writes YAML": {"owner": "a: \"b\"\n# {{ c }} & <d> \\ 'e' é"},
    "triton": {"runtime": "triton"},
    "triton whose memory nobody declared": {"runtime": "triton", "memory": None},
    "triton on GPUs": {"runtime": "triton", "hardware": "linux-x86_64-cuda"},
    "triton on GPUs whose memory nobody declared": {
        "runtime": "triton",
        "hardware": "linux-x86_64-cuda",
        "memory": None,
    },
}


@pytest.fixture(params=VARIATIONS)
def variation(request: pytest.FixtureRequest) -> Workload:
    return make_workload(**VARIATIONS[request.param])
