"""What this machine is: the fingerprint that measurements are keyed by, and the CPUs granted."""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path

from dspec.spec.records import Machine
from dspec.targets.shipped.cores import quota_cores


def granted_cpus() -> tuple[int, ...]:
    """CPUs this process may use: affinity, cut down to the cgroup's quota where that is less."""
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    return tuple(cpus[: quota_cores() or len(cpus)])


@cache
def cpu_facts() -> tuple[str, frozenset[str]]:
    """The CPU's model name and feature flags (empty where the system does not tell)."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown", frozenset()
    facts = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    return facts.get("model name", platform.machine()), frozenset(
        (facts.get("flags") or facts.get("Features") or "").split()
    )


def this_machine(cores: int, name: str = "") -> Machine:
    """The fingerprint of this machine, with the cores granted to the process under measurement."""
    model, flags = cpu_facts()
    return Machine(
        os=platform.system().lower(),
        arch=platform.machine(),
        cpu=model,
        flags=tuple(sorted(flags)),
        cores=cores,
        name=name,
    )


def reference_environment() -> dict[str, str]:
    """Variables that hold the reference to one instruction set and one thread, so that its bits travel.

    Kernel choice in ATen, oneDNN and MKL follows the CPU; AVX2 is the widest set that nearly every x86 server has.
    """
    held = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    if platform.machine() == "x86_64" and "avx2" in cpu_facts()[1]:
        held |= {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_CBWR": "AVX2"}
    return held
