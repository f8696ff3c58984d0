"""Whether this machine can build a target, and whether numbers of a machine count for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from dspec.compiler.machine import granted_cpus, this_machine
from dspec.spec.errors import MachineError
from dspec.spec.hardware import matches, profile
from dspec.spec.models import Spec, Target
from dspec.spec.records import Machine, Manifest
from dspec.targets import catalogue, runtime

ELSEWHERE = "unknown"  # os of a machine that only its name is known of: answers made on a device


def lacks(spec: Spec, target: Target) -> MachineError | None:
    """What this machine lacks for building a target, as the error that names the command to install it."""
    steps = (catalogue().steps[step.use] for step in (*spec.preprocess, *spec.postprocess))
    needed = {name for step in steps for name in step.requires}
    absent = sorted({*runtime(target.runtime).missing(), *(name for name in needed if not _installed(name))})
    if not absent:
        return None
    return MachineError.of(
        "E0605",
        f"this machine lacks {', '.join(absent)} for {target.runtime}",
        hint=f"pip install 'dspec[{target.runtime}]'",
    )


def _installed(name: str) -> bool:
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False


def why_not_here(target: Target, folder: Path) -> str:
    """Why this machine can't measure the target; empty where it can. `folder` is the spec's."""
    cores, granted = target.resources.cores, len(granted_cpus())
    if cores > granted:
        return f"the target is granted {cores} cores and this machine grants {granted}"
    return why_not(this_machine(cores), target, folder)


def unserved(manifest: Manifest) -> str:
    """Why this machine can't run the server that the bundle takes, beside its own requirements; empty where it can."""
    return unserved_by(manifest.runtime, manifest.options)


def unserved_by(name: str, options: Mapping[str, Any]) -> str:
    """As `unserved`, for a runtime and a bundle's options; with none, for what a bundle of it takes by default."""
    found: Callable[[Mapping[str, Any]], str] | None = getattr(runtime(name), "unserved", None)
    return found(options) if found else ""


def why_not(machine: Machine, target: Target, folder: Path) -> str:
    """Why numbers taken on `machine` do not count for the target; empty where they do."""
    if machine.os == ELSEWHERE:
        return ""
    if machine.cores != target.resources.cores:
        return f"it was granted {machine.cores} cores, the target {target.resources.cores}"
    return matches(profile(target.hardware, folder), machine.os, machine.arch, (), machine.flags, machine.cpu)
