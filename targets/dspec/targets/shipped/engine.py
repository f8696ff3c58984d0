"""What a runner needs of an engine; `engine_<name>.py` holds one each, loaded by its name."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from .arrays import Array
from .errors import EngineError, MissingLibrary

CGROUP = Path("/sys/fs/cgroup")


class Engine(Protocol):
    """A loaded model; safe from several threads."""

    facts: Mapping[str, str]

    def run(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """The model's outputs by name; inputs have been checked. Raises EngineError."""


def open_engine(folder: Path, manifest: Mapping[str, Any]) -> Engine:
    """The engine that bundle.json names, with the bundle's model loaded."""
    name = str(manifest["engine"])
    try:
        opened: Callable[[Path, Mapping[str, Any]], Engine] = importlib.import_module(
            f"{__package__}.engine_{name}"
        ).open_engine
        return opened(folder, manifest)
    except ModuleNotFoundError as error:
        if error.name == f"{__package__}.engine_{name}":
            raise EngineError(f"this bundle ships no engine {name!r}") from error
        raise MissingLibrary(f"engine {name} needs {error.name}, which is not installed") from error


def usable_cores(granted: int) -> int:
    """The cores granted, capped by the process's affinity and its cgroup's quota."""
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(granted, here, quota_cores() or here))


def quota_cores(root: Path = CGROUP) -> int | None:
    """Whole cores of the cgroup's CPU quota (version 2, then 1), rounded up, or None."""
    try:
        quota, period = (root / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = (root / "cpu/cpu.cfs_quota_us").read_text()
            period = (root / "cpu/cpu.cfs_period_us").read_text()
        except OSError:
            return None
    try:
        share = int(quota) / int(period)
    except (ValueError, ZeroDivisionError):  # "max": no quota
        return None
    return max(1, -int(-share // 1)) if share > 0 else None
