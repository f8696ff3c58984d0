"""`dspec serve BUNDLE`: any bundle as a service, in an environment with just its requirements and the server's."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import dspec.targets.shipped as shipped
from dspec.compiler.bundle import read_manifest
from dspec.compiler.console import progress
from dspec.compiler.environment import clean_environment
from dspec.spec.errors import MachineError, SpecError
from dspec.spec.records import Manifest
from dspec.targets import runtime
from dspec.targets.protocol import Environment
from dspec.targets.shipped.parts import SERVE, parts

SERVED = "serve"  # the last word of the command of a bundle that is a service
PACKAGE = "dspec_bundle"


def run(options: argparse.Namespace) -> int:
    """The server's own exit code."""
    manifest = read_manifest(options.bundle)
    with tempfile.TemporaryDirectory(prefix="dspec-serve-") as folder:
        if (served := getattr(runtime(manifest.runtime), "serve", None)) is not None:  # it brings a server of its own
            environment = _environment(options.bundle, manifest, Path(folder), own=True)
            return int(served(options.bundle.resolve(), environment, options.host, options.port))
        own = manifest.command[-1] == SERVED
        code = options.bundle.resolve() if own else _beside(options.bundle, Path(folder))
        environment = _environment(options.bundle, manifest, Path(folder), own)
        command = [str(environment.python), "-P", "-m", PACKAGE, "--bundle", str(options.bundle.resolve()), "serve"]
        command += ["--host", options.host, "--port", str(options.port)]
        variables = {**os.environ, "PYTHONPATH": str(code), "PYTHONDONTWRITEBYTECODE": "1"}
        return _followed(subprocess.Popen(command, env=variables))


def _followed(process: subprocess.Popen[bytes]) -> int:
    """Until it ends; what tells us to stop is told to it."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: process.send_signal(number))
    return process.wait()


def _environment(bundle: Path, manifest: Manifest, folder: Path, own: bool) -> Environment:
    lines = (bundle / "requirements.txt").read_text().split()
    if not own:
        lines = sorted({*lines, *_server()})
    (folder / "requirements.txt").write_text("".join(f"{line}\n" for line in lines))
    with progress() as report:
        return clean_environment(folder / "requirements.txt", manifest.cores, report)


def _server() -> tuple[str, ...]:
    """What the server needs, in the versions of this machine. Raises MachineError E0605 where it lacks them."""
    from importlib.metadata import PackageNotFoundError

    from dspec.targets.fastapi.requirements import server_requirements

    try:
        return server_requirements()
    except PackageNotFoundError as error:
        message = f"this machine lacks {error.name} to serve a bundle that brings no server"
        raise MachineError.of("E0605", message, hint="pip install 'dspec[fastapi]'") from error


def _beside(bundle: Path, folder: Path) -> Path:
    """A folder with our modules and the engine of a bundle that ships no server."""
    root, out = Path(shipped.__path__[0]), folder / PACKAGE
    brought = {path.relative_to(bundle / PACKAGE).as_posix() for path in (bundle / PACKAGE).rglob("*.py")}
    steps = [Path(name).stem for name in brought if name.startswith("steps/") and not name.endswith("__init__.py")]
    engines = [name for name in brought if name.startswith("engine_")]
    if not engines:
        raise SpecError.of("E0711", f"{bundle} ships no engine", hint="build the bundle again")
    try:
        for name in (*parts(steps), *SERVE, *engines):
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            source = root / name if (root / name).is_file() else bundle / PACKAGE / name
            shutil.copyfile(source, out / name)
    except OSError as error:
        raise SpecError.of(
            "E0711", f"{bundle}: {error.filename} can't be read", hint="build the bundle again"
        ) from error
    return folder
