"""What the operating system says about this machine: CPU, memory, accelerators, and the limits of its cgroup.

Files are read; nothing is executed and nothing is asked over a network.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from dspec.compiler.machine import cpu_facts

ROOT = Path("/")
NO_LIMIT = 1 << 60  # cgroup v1 writes a number near 2**63 where there is no limit

# Instruction sets that kernels of ONNX Runtime, oneDNN and XNNPACK choose by, as /proc/cpuinfo names them.
INSTRUCTION_SETS = (
    "sse4_2", "avx", "fma", "f16c", "avx2", "avx_vnni", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16",
    "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16",
    "asimd", "neon", "asimdhp", "asimddp", "i8mm", "bf16", "sve", "sve2", "sme",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Cpu:
    """`affinity` counts CPUs this process may run on; `quota` is the cgroup's share in CPUs, None: no quota."""

    model: str
    instruction_sets: tuple[str, ...]
    present: int
    affinity: int
    quota: float | None

    @property
    def granted(self) -> int:
        """Whole cores that a measurement may be granted here: a part of a core is none."""
        return max(1, min(self.affinity, int(self.quota) if self.quota else self.affinity))


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """Bytes: of the machine, and the cgroup's limit. None: not told, or no limit."""

    total: int | None
    limit: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Accelerator:
    """`kind` as hardware profiles name it (cuda); `name` and `driver` as the driver tells."""

    kind: str
    name: str
    driver: str


def cpu(root: Path = ROOT) -> Cpu:
    model, flags = cpu_facts()
    present = os.cpu_count() or 1
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else present
    sets = tuple(name for name in INSTRUCTION_SETS if name in flags)
    return Cpu(model=model, instruction_sets=sets, present=present, affinity=affinity, quota=cpu_quota(root))


def cpu_quota(root: Path = ROOT) -> float | None:
    """The least quota over this process's cgroups and all above them, in CPUs (version 2, then 1)."""
    found = [_quotient(*_words(folder / "cpu.max")) for folder in _unified(root)]
    for folder in _legacy(root, "cpu"):
        found.append(_quotient(*_words(folder / "cpu.cfs_quota_us"), *_words(folder / "cpu.cfs_period_us")))
    return min((share for share in found if share is not None), default=None)


def memory(root: Path = ROOT) -> Memory:
    total = next((int(words[1]) * 1024 for line in _lines(root / "proc/meminfo")
                  if (words := line.split()) and words[0] == "MemTotal:"), None)  # fmt: skip
    return Memory(total=total, limit=memory_limit(root))


def memory_limit(root: Path = ROOT) -> int | None:
    """The least memory limit over this process's cgroups and all above them, in bytes."""
    files = [folder / "memory.max" for folder in _unified(root)]
    files += [folder / "memory.limit_in_bytes" for folder in _legacy(root, "memory")]
    limits = [int(words[0]) for file in files if (words := _words(file)) and words[0].isdecimal()]
    return min((limit for limit in limits if limit < NO_LIMIT), default=None)


def accelerators(root: Path = ROOT) -> tuple[Accelerator, ...]:
    """NVIDIA GPUs whose device files are there, so that a process can open them."""
    devices = sorted(file.name for file in (root / "dev").glob("nvidia[0-9]*"))
    version = " ".join(_words(root / "proc/driver/nvidia/version"))
    driver = next((word for word in version.split() if word[0].isdigit() and "." in word), "")
    names = [line.partition(":")[2].strip() for file in sorted(root.glob("proc/driver/nvidia/gpus/*/information"))
             for line in _lines(file) if line.startswith("Model:")]  # fmt: skip
    return tuple(
        Accelerator(kind="cuda", name=names[number] if number < len(names) else device, driver=driver)
        for number, device in enumerate(devices)
    )


def _unified(root: Path) -> list[Path]:
    return _upwards(root / "sys/fs/cgroup", _membership(root, ""))


def _legacy(root: Path, controller: str) -> list[Path]:
    return _upwards(root / "sys/fs/cgroup" / controller, _membership(root, controller))


def _membership(root: Path, controller: str) -> str:
    """This process's cgroup for a controller ('' for version 2), relative to where it is mounted."""
    for line in _lines(root / "proc/self/cgroup"):
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controller in controllers.split(","):
            return path.strip("/")
    return ""


def _upwards(mount: Path, member: str) -> list[Path]:
    """The folder of a cgroup and of all above it. In a container the member's own folder may not be visible."""
    steps = member.split("/") if member else []
    return [mount.joinpath(*steps[:count]) for count in range(len(steps), -1, -1)]


def _quotient(quota: str = "", period: str = "", *_: str) -> float | None:
    try:
        share = int(quota) / int(period)
    except (ValueError, ZeroDivisionError):  # "max", or no such file
        return None
    return share if share > 0 else None  # -1: no quota


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _words(file: Path) -> list[str]:
    return " ".join(_lines(file)).split()
