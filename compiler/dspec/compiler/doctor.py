"""`dspec doctor`: what this machine has, which profiles it matches, what it lacks. Executes nothing and asks no network."""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from dspec.compiler.environment import environments_folder
from dspec.compiler.fitness import lacks, unserved_by, why_not_here
from dspec.compiler.hostfacts import Accelerator, Cpu, Memory, accelerators, cpu, memory
from dspec.compiler.machine import cpu_facts
from dspec.compiler.offered import offered
from dspec.spec.errors import DspecError
from dspec.spec.hardware import PROFILES, Profile, matches, profile, profiles
from dspec.spec.load import Loaded
from dspec.targets import runtime, runtime_names

NOT_SHOWN = ("dev", "all")  # extras that only repeat others, or that no user needs
_REQUIREMENT = re.compile(r"^([\w.-]+)\s*([^;]*?)\s*(?:;\s*extra == '([\w-]+)')?$")
_BOUND = re.compile(r"(==|>=|<=|<|>|!=)\s*(\d+(?:\.\d+)*)")
# What a program is for → the names it goes by, and where it lies beside PATH.
PROGRAMS: dict[str, tuple[str, ...]] = {
    "git": ("git",),
    "docker": ("docker",),
    "Chromium": ("chromium", "chromium-browser", "google-chrome", "chrome"),
    "chromedriver": ("chromedriver",),
}
ENGINE_SOCKET = "/var/run/docker.sock"
ENGINE_WAIT_S = 0.3


@dataclass(frozen=True, kw_only=True, slots=True)
class Package:
    """A distribution that dspec asks for: `installed` is '' where it is absent, `fits` whether its version is in range."""

    name: str
    wanted: str
    extras: tuple[str, ...]
    installed: str

    @property
    def fits(self) -> bool:
        return bool(self.installed) and in_range(self.installed, self.wanted)


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """`path` is '' where it is not installed; `note` says what else matters."""

    name: str
    path: str
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Disk:
    """Free bytes where something will be written; `path` may not exist yet."""

    use: str
    path: str
    free: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimeState:
    """`missing` are the distributions that lowering for it lacks here; `install` is the command, '' where nothing lacks.

    `measure` says why its bundles can't run here, '' where they can.
    """

    name: str
    missing: tuple[str, ...]
    install: str
    measure: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TargetState:
    """'' where the target can be built, or measured, on this machine; else why not, and what to do."""

    target: str
    optional: bool
    build: str
    measure: str
    to_do: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Findings:
    """Everything that doctor found. `profiles` maps each hardware profile to '' or the reason it does not match."""

    versions: dict[str, str]
    cpu: Cpu
    memory: Memory
    accelerators: tuple[Accelerator, ...]
    packages: tuple[Package, ...]
    programs: tuple[Program, ...]
    disks: tuple[Disk, ...]
    profiles: dict[str, str]
    runtimes: tuple[RuntimeState, ...]
    targets: tuple[TargetState, ...]

    @property
    def lacking(self) -> bool:
        """Whether a target that is not optional can't be built here."""
        return any(target.build and not target.optional for target in self.targets)


def examine(loaded: Loaded | None = None, store: Path = Path(".dspec")) -> Findings:
    """This machine; with a spec, also which of its targets can be built and measured here."""
    return Findings(
        versions=_versions(),
        cpu=cpu(),
        memory=memory(),
        accelerators=accelerators(),
        packages=packages(requires("dspec") or ()),
        programs=tuple(_program(name, places) for name, places in PROGRAMS.items()),
        disks=(_disk("cache", store), _disk("environments", environments_folder())),
        profiles=_profiles(loaded.folder if loaded else None),
        runtimes=tuple(_runtime(name) for name in runtime_names()),
        targets=tuple(_target(loaded, name) for name in loaded.spec.targets) if loaded else (),
    )


def _versions() -> dict[str, str]:
    # platform.platform() would start `uname -p`.
    return {
        "dspec": version("dspec"),
        "python": f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}",
        "platform": " ".join(
            (platform.system(), platform.release(), platform.machine(), *filter(None, platform.libc_ver()))
        ),
    }


def packages(requirements: Iterable[str]) -> tuple[Package, ...]:
    """The distributions of a `Requires-Dist` list, each once, with the extras that ask for it."""
    wanted: dict[str, tuple[str, list[str]]] = {}
    for line in requirements:
        found = _REQUIREMENT.match(line)
        if found and found[3] not in NOT_SHOWN:
            _, extras = wanted.setdefault(found[1], (found[2], []))
            extras.append(found[3] or "core")
    return tuple(
        Package(name=name, wanted=bounds, extras=tuple(extras), installed=_installed(name))
        for name, (bounds, extras) in sorted(wanted.items())
    )


def in_range(installed: str, wanted: str) -> bool:
    """Whether a version keeps bounds such as `<2.14,>=2.13`, by its release numbers alone."""
    have = _release(installed)
    for sign, bound in _BOUND.findall(wanted):
        size = max(len(have), len(limit := _release(bound)))
        a, b = (part + (0,) * (size - len(part)) for part in (have, limit))
        kept = {"==": a == b, "!=": a != b, ">=": a >= b, "<=": a <= b, "<": a < b, ">": a > b}
        if not kept[sign]:
            return False
    return True


def _release(text: str) -> tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, found[0].split("."))) if found else ()


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _program(name: str, places: tuple[str, ...]) -> Program:
    path = next((found for place in places if (found := shutil.which(place))), "")
    return Program(name=name, path=path, note=_engine() if name == "docker" and path else "")


def _engine() -> str:
    """Whether a container engine answers beside the client."""
    address = os.environ.get("DOCKER_HOST", f"unix://{ENGINE_SOCKET}")
    if not address.startswith("unix://"):
        return f"engine at {address}, not asked"
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(ENGINE_WAIT_S)
        try:
            probe.connect(address.removeprefix("unix://"))
        except OSError as error:
            return f"no engine at {address}: {error.strerror or error}"
    return "engine running"


def _disk(use: str, path: Path) -> Disk:
    there = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.is_dir())
    return Disk(use=use, path=str(path), free=shutil.disk_usage(there).free)


def _profiles(folder: Path | None) -> dict[str, str]:
    """Every profile that a spec may name, those of files beside the spec included; a file may be wrong."""
    found = {name: _mismatch(known) for name, known in PROFILES.items()}
    for name in profiles(folder) if folder else ():
        try:
            found[name] = _mismatch(profile(name, folder or Path()))
        except DspecError as error:
            found[name] = str(error.diagnostics[0]).partition("\n")[0]
    return found


def _mismatch(known: Profile) -> str:
    model, flags = cpu_facts()
    kinds = {found.kind for found in accelerators()}
    return matches(known, platform.system(), platform.machine(), kinds, flags, model)


def _runtime(name: str) -> RuntimeState:
    missing = runtime(name).missing()
    install = _install(name, missing) if missing else ""
    return RuntimeState(name=name, missing=missing, install=install, measure="" if missing else unserved_by(name, {}))


def _install(name: str, missing: tuple[str, ...]) -> str:
    """An extra of ours where there is one of that name; a runtime of someone else's names its distributions."""
    extras = {found[3] for line in requires("dspec") or () if (found := _REQUIREMENT.match(line))}
    return f"pip install 'dspec[{name}]'" if name in extras else f"pip install {' '.join(missing)}"


def _target(loaded: Loaded, name: str) -> TargetState:
    target = loaded.spec.targets[name]
    try:
        offered(loaded, name)
        lacking: DspecError | None = lacks(loaded.spec, target)
    except DspecError as error:
        lacking = error
    found = lacking.diagnostics[0] if lacking else None
    return TargetState(
        target=name,
        optional=target.optional,
        build=found.message if found else "",
        measure=why_not_here(target, loaded.folder),
        to_do=found.hint if found else "",
    )
