"""A bundle that was touched after publishing is not the bundle its manifest describes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dspec.compiler.bundle import check_digests, read_manifest
from dspec.compiler.store import describe
from dspec.spec.errors import GateError, SpecError
from dspec.spec.records import Manifest


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Two files and a manifest that tells the truth about them."""
    folder = tmp_path / "service"
    (folder / "model").mkdir(parents=True)
    (folder / "golden").mkdir()
    (folder / "model" / "model.onnx").write_bytes(b"graph")
    (folder / "golden" / "policy.json").write_text("{}")
    body = {
        "schema": "dspec/bundle/v1alpha1", "name": "demo", "version": "1", "target": "service", "owner": "",
        "hardware": "host", "runtime": "onnxruntime", "engine": "onnxruntime", "variant": "fp32",
        "command": ["python"], "cores": 1, "interface": {"inputs": {}, "outputs": {}}, "model": {}, "options": {},
        "toolchain": {}, "files": [entry.model_dump(mode="json") for entry in describe(folder)],
        "reference": {"torch": "2.13.0", "cpu": "x86-64-avx2", "threads": 1, "fixtures": 1, "source": "0" * 64},
    }  # fmt: skip
    manifest = Manifest.model_validate_json(json.dumps(body)).with_digests()
    (folder / "bundle.json").write_text(manifest.model_dump_json(by_alias=True, indent=1))
    return folder


def test_an_untouched_bundle_is_what_it_says(bundle: Path) -> None:
    assert check_digests(bundle).name == "demo"


def test_another_folder_has_the_same_digests(bundle: Path, tmp_path: Path) -> None:
    shutil.copytree(bundle, tmp_path / "elsewhere" / "deep")
    assert check_digests(tmp_path / "elsewhere" / "deep").digests == check_digests(bundle).digests


def test_golden_answers_change_the_bundle_digest_and_not_the_artifact(bundle: Path) -> None:
    before = check_digests(bundle)
    moved = [f.model_copy(update={"sha256": "1" * 64}) if f.path.startswith("golden/") else f for f in before.files]
    after = before.model_copy(update={"files": tuple(moved), "digests": None}).with_digests()
    assert before.digests is not None
    assert after.digests is not None
    assert after.digests.artifact == before.digests.artifact
    assert after.digests.bundle != before.digests.bundle


def _swap_digest(bundle: Path) -> None:
    text = (bundle / "bundle.json").read_text()
    (bundle / "bundle.json").write_text(text.replace('"version": "1"', '"version": "2"'))


TOUCHES: list[tuple[str, Callable[[Path], object]]] = [
    ("model/model.onnx: sha256", lambda b: (b / "model" / "model.onnx").write_bytes(b"Graph")),
    ("model/model.onnx: missing", lambda b: (b / "model" / "model.onnx").unlink()),
    ("model/extra.py: not listed", lambda b: (b / "model" / "extra.py").write_text("")),
    ("model/model.onnx: the run bit differs", lambda b: (b / "model" / "model.onnx").chmod(0o755)),
    ("model/link: a link", lambda b: os.symlink("/etc/passwd", b / "model" / "link")),
    ("model/gone: a link", lambda b: os.symlink("nowhere", b / "model" / "gone")),
    ("the digests in bundle.json are not those of its content", _swap_digest),
]


@pytest.mark.parametrize(("words", "touch"), TOUCHES, ids=[words for words, _ in TOUCHES])
def test_a_touched_bundle_is_refused(bundle: Path, words: str, touch: Callable[[Path], object]) -> None:
    touch(bundle)
    with pytest.raises(GateError) as caught:
        check_digests(bundle)
    assert caught.value.diagnostics[0].code == "E0712"
    assert any(words in note for note in caught.value.diagnostics[0].notes)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"schema": "other"}', "null", "[" * 100_000, "\x00"])
def test_a_manifest_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "bundle.json").write_text(text)
    with pytest.raises(SpecError, match="E0711"):
        read_manifest(tmp_path)


def test_no_manifest_at_all_says_which_folder_to_name(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="bundles/<name>/<target>"):
        read_manifest(tmp_path)
