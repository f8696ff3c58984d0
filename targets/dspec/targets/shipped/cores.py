"""How many cores a process may use: its affinity and its cgroup's quota."""

from __future__ import annotations

import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


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
