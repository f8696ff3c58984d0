"""What the manifests say: typed, and made from a target once."""

from __future__ import annotations

from dataclasses import dataclass

from dspec.spec.hardware import HOST, PROFILES
from dspec.spec.models import Spec, Target
from dspec.targets.kubernetes.names import label_value, object_name
from dspec.targets.kubernetes.quantities import quantity
from dspec.targets.kubernetes.serving import Serving

ARCH = {"x86_64": "amd64", "arm64": "arm64"}  # as nodes name it: kubernetes.io/arch
DEVICES = {"cuda": "nvidia.com/gpu"}  # as its device plugin names it


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """How long a start may take. Not from `slo.cold_start_s`: limits are judged, and change no byte of a bundle."""

    period_s: int = 2
    tries: int = 150
    progress_s: int = 900  # progressDeadlineSeconds: longer than a start that is tried twice


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """Names and amounts are as Kubernetes writes them.

    Attributes:
        name: of Deployment, Service, image and InferenceService.
        application: label app.kubernetes.io/name: the spec's.
        memory: '' where none is declared.
        device: an extended resource that one of is needed, or ''.
        own_hardware: name of a profile whose machines are not known here, since it is the user's own, or ''.
    """

    name: str
    application: str
    version: str
    component: str
    owner: str
    cores: int
    memory: str
    arch: str
    device: str
    own_hardware: str
    serving: Serving
    start: Start = Start()


def workload(spec: Spec, target_id: str, target: Target, serving: Serving) -> Workload:
    """The target as Kubernetes is to run it."""
    profile = PROFILES.get(target.hardware)
    return Workload(
        name=object_name(f"{spec.name}-{target_id}"),
        application=label_value(spec.name),
        version=label_value(spec.version),
        component=label_value(target.runtime),
        owner=spec.owner,
        cores=target.resources.cores,
        memory=quantity(target.resources.memory) if target.resources.memory else "",
        arch=ARCH.get(profile.arch, "") if profile else "",
        device=DEVICES.get(profile.accelerator, "") if profile else "",
        own_hardware="" if profile or target.hardware == HOST else target.hardware,
        serving=serving,
    )
