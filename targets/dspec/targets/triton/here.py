"""The Triton server of this machine: one of the user's own, or the one that `dspec triton install` unpacked."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dspec.targets.pinned import installed
from dspec.targets.triton.install import INSTALL, LIBRARIES, SERVER, server_folder

OWN = "DSPEC_TRITONSERVER"  # a folder as NVIDIA's images have it at /opt/tritonserver
CLIENT = ("tritonclient", "grpcio")


@dataclass(frozen=True, kw_only=True, slots=True)
class Installation:
    """A folder with `bin/tritonserver` and `backends/`; `libraries`: where the server's own lie, beside what the caller's variables say."""

    folder: Path
    libraries: tuple[Path, ...] = ()

    @property
    def binary(self) -> Path:
        return self.folder / "bin" / "tritonserver"

    @property
    def backends(self) -> tuple[str, ...]:
        """Those that it can load, sorted."""
        return tuple(sorted(library.parent.name for library in self.folder.glob("backends/*/libtriton_*.so")))

    @property
    def arguments(self) -> tuple[str, ...]:
        """The command that starts the server, without a repository."""
        return (str(self.binary), "--backend-directory", str(self.folder / "backends"))

    @property
    def variables(self) -> Mapping[str, str]:
        """What the server and its stubs need to find their libraries, that of Python among them."""
        told = os.environ.get("LD_LIBRARY_PATH", "")
        places = [*map(str, self.libraries), sysconfig.get_config_var("LIBDIR") or "", told]
        return {"LD_LIBRARY_PATH": os.pathsep.join(place for place in places if place)}


def server_here() -> Installation:
    """The server, whether it is there or not: see `why_none`."""
    if own := os.environ.get(OWN):
        folder = Path(own).absolute()  # the server starts in a folder of its own
        return Installation(folder=folder, libraries=(folder / "lib",))
    folder = server_folder()
    return Installation(folder=folder / SERVER, libraries=(folder / LIBRARIES,))


def why_none() -> str:
    """Why this machine has no server, in words; empty where it has one."""
    if server_here().binary.is_file():
        return ""
    if own := os.environ.get(OWN):
        return f"{OWN} names {own}, and there is no bin/tritonserver in it"
    return f"no Triton server is installed on this machine: `{INSTALL}` fetches one"


def remedy() -> str:
    """What to do where `why_none` or `why_not` has a reason."""
    if os.environ.get(OWN):
        return f"let {OWN} name a folder with bin/tritonserver and backends/, or unset it"
    return f"{INSTALL}, or let {OWN} name the folder of a server that you have"


def why_not(shape: str) -> str:
    """Why this machine has no server for bundles of that shape, in words; empty where it has one."""
    if absent := [name for name in CLIENT if not installed(name)]:
        return f"this machine lacks {', '.join(absent)} to ask a Triton server: pip install 'dspec[triton]'"
    if words := why_none():
        return words
    backend, there = "onnxruntime" if shape == "onnxruntime" else "python", server_here().backends
    if backend not in there:
        whose = os.environ.get(OWN) or f"the Triton server of `{INSTALL}`"
        return f"{whose} has no {backend} backend (it has {', '.join(there) or 'none'}), and this bundle needs it"
    return ""
