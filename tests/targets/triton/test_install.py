"""`dspec triton install`: what is unpacked, what is refused, and what a machine without a server says."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dspec.spec.errors import MachineError
from dspec.spec.files import sha256_of
from dspec.targets.protocol import Environment
from dspec.targets.triton import install as installing
from dspec.targets.triton.here import OWN, remedy, server_here, why_not
from dspec.targets.triton.install import SERVER, binary, install, is_installed, server_folder
from dspec.targets.triton.runtime import RUNTIME
from dspec.targets.triton.session import TritonSession


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _wheel(folder: Path, minors: tuple[str, ...]) -> Path:
    """A wheel of the same layout, without the server itself."""
    path = folder / "nvidia_pytriton-0.7.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("pytriton/tritonserver/bin/tritonserver", "pytriton/tritonserver/backends/python/libtriton_python.so",
                     "nvidia_pytriton.libs/libb64.so", "nvidia_pytriton.libs/libpython3-1.so", "pytriton/client/client.py"):  # fmt: skip
            archive.writestr(name, name)
        for minor in minors:
            archive.writestr(f"pytriton/tritonserver/python_backend_stubs/{minor}/triton_python_backend_stub", minor)
    return path


def test_only_what_is_needed_with_run_bits_and_once(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = _wheel(tmp_path, ("3.8", installing.minor()))
    monkeypatch.setattr(installing, "SHA256", sha256_of(wheel))
    assert not is_installed()
    folder = install(lambda _: None, wheel)
    assert folder == server_folder()
    assert folder.is_relative_to(cache)
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert found == {
        "pytriton/tritonserver/bin/tritonserver", "pytriton/tritonserver/backends/python/libtriton_python.so",
        "pytriton/tritonserver/backends/python/triton_python_backend_stub", "nvidia_pytriton.libs/libb64.so",
    }  # fmt: skip
    assert os.access(binary(folder), os.X_OK)
    assert (
        folder / "pytriton/tritonserver/backends/python/triton_python_backend_stub"
    ).read_text() == installing.minor()
    wheel.unlink()
    assert install(lambda _: None, wheel) == folder
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_another_file_is_not_unpacked(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(
        MachineError, match=r"E1011: nvidia_pytriton-.*whl has sha256 [0-9a-f]{12}…, so it was not unpacked"
    ):
        install(lambda _: None, _wheel(tmp_path, (installing.minor(),)))
    assert not is_installed()


def test_no_stub_for_this_python(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = _wheel(tmp_path, ("3.8", "3.9", "3.7"))
    monkeypatch.setattr(installing, "SHA256", sha256_of(wheel))
    with pytest.raises(MachineError, match=r"E1012: .* runs Python models of 3.7, 3.8, 3.9, and this is Python 3\.\d+"):
        install(lambda _: None, wheel)
    assert not is_installed()


def test_no_server_for_this_machine(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(MachineError, match=r"E1012: .* and this is Linux on aarch64"):
        install(lambda _: None)


def test_pip_that_fails(cache: Path, tmp_path: Path) -> None:
    """In a process of its own, told of an index that is not there."""
    variables = {**os.environ, "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0", "PIP_CONFIG_FILE": os.devnull,
                 "PIP_NO_INDEX": "1"}  # fmt: skip
    done = subprocess.run([sys.executable, "-m", "dspec.compiler.cli", "triton", "install"], env=variables,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 4
    assert "E1010: pip did not fetch nvidia-pytriton==0.7.0 (exit code 1)" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_server_nothing_is_measured(cache: Path, bundle: Callable[..., Path]) -> None:
    served: dict[str, Any] = json.loads((bundle("texts") / "bundle.json").read_text())["options"]
    assert (
        RUNTIME.unserved(served) == "no Triton server is installed on this machine: `dspec triton install` fetches one"
    )
    with pytest.raises(MachineError, match="E1013: no Triton server is installed on this machine"):
        TritonSession(bundle("texts"), Environment(python=Path(sys.executable), cpus=()))


def test_a_backend_that_the_server_lacks(server: None) -> None:
    assert why_not("python") == ""
    assert "has no onnxruntime backend (it has python), and this bundle needs it" in why_not("onnxruntime")


def test_a_server_of_ones_own(
    bundle: Callable[..., Path], start: Callable[[Path], TritonSession], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same files, laid out as NVIDIA's images have them: the libraries in `lib`, and one more backend."""
    folder, own = server_folder(), tmp_path / "tritonserver"
    (own / "backends" / "onnxruntime").mkdir(parents=True)
    (own / "backends" / "onnxruntime" / "libtriton_onnxruntime.so").touch()
    for name in ("bin", "backends/python"):
        (own / name).symlink_to(folder / SERVER / name)
    (own / "lib").symlink_to(server_here().libraries[0])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "nothing"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(OWN, "tritonserver")  # of the folder that the command was given in
    assert why_not("python") == why_not("onnxruntime") == ""
    session = start(bundle("texts"))
    assert Path(f"/proc/{session.pids[0]}/cmdline").read_bytes().startswith(os.fsencode(own / "bin"))
    assert session.ask({"text": "red green"}).response["top"]["name"] == "größte"


def test_a_server_of_ones_own_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OWN, str(tmp_path))
    assert why_not("python") == f"DSPEC_TRITONSERVER names {tmp_path}, and there is no bin/tritonserver in it"
    assert remedy() == "let DSPEC_TRITONSERVER name a folder with bin/tritonserver and backends/, or unset it"


def test_the_cache_is_whole(server: None) -> None:
    folder = server_folder()
    assert shutil.which(str(binary(folder)))
    assert not list(folder.parent.glob(".part-*"))
