"""Clean environments: an interpreter with just a bundle's requirements, made once per set of requirements."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dspec.compiler.machine import granted_cpus
from dspec.compiler.stage import Report
from dspec.spec.errors import MachineError
from dspec.spec.records import digest
from dspec.targets.protocol import Environment

READY = "dspec-ready"  # written last: an environment without it was interrupted and is made again


def environments_folder() -> Path:
    """`$XDG_CACHE_HOME/dspec/envs`, shared by every deployment of this user."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "dspec" / "envs"


def clean_environment(requirements: Path, cores: int, report: Report) -> Environment:
    """The environment for a requirements.txt, with as many of this machine's CPUs as granted.

    Raises MachineError E0603 when the packages can't be installed.
    """
    text = requirements.read_text()
    folder = environments_folder() / digest([text, sys.version, sys.prefix])[:32]
    with _locked(folder):
        if not (folder / READY).is_file():
            report("making a clean environment for " + ", ".join(text.split()))
            shutil.rmtree(folder, ignore_errors=True)
            _make(folder, requirements)
            (folder / READY).write_text(text)
    return Environment(python=folder / "bin" / "python", cpus=granted_cpus()[:cores])


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(folder: Path, requirements: Path) -> None:
    try:
        venv.create(folder, symlinks=True, with_pip=True)
    except (subprocess.CalledProcessError, OSError) as error:
        hint = "install Python's venv and ensurepip (Debian: python3-venv)"
        raise MachineError.of("E0603", "this Python can't make a virtual environment", hint=hint) from error
    command = [
        str(folder / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--disable-pip-version-check",
    ]
    done = subprocess.run([*command, "-r", str(requirements)], capture_output=True, text=True, check=False)
    if done.returncode:
        last = tuple(done.stderr.splitlines()[-5:])
        shutil.rmtree(folder, ignore_errors=True)
        raise MachineError.of(
            "E0603",
            f"the packages of {requirements.name} could not be installed in a clean environment",
            hint="the proof needs the bundle's own requirements: give this machine access to a package index, or a mirror",
            notes=last,
        )
