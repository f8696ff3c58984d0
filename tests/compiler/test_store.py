from __future__ import annotations

from pathlib import Path

import pytest

from dspec.compiler.store import DamagedBlobError, Store, describe, tree_digest


def _folder(root: Path) -> Path:
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "x.txt").write_text("x")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    return root


def test_a_tree_comes_back_as_it_went_in(tmp_path: Path) -> None:
    store = Store(root=tmp_path / "store")
    tree = store.keep(_folder(tmp_path / "in"))
    back = store.checkout(tree, tmp_path / "out")
    assert describe(back) == tree
    assert [(entry.path, entry.executable) for entry in tree] == [("a/b/x.txt", False), ("run.sh", True)]


def test_a_digest_does_not_depend_on_where_or_when(tmp_path: Path) -> None:
    assert tree_digest(describe(_folder(tmp_path / "one"))) == tree_digest(describe(_folder(tmp_path / "two")))


def test_a_damaged_blob_is_noticed_and_dropped(tmp_path: Path) -> None:
    store = Store(root=tmp_path / "store")
    tree = store.keep(_folder(tmp_path / "in"))
    blob = store.blob(tree[0].sha256)
    blob.chmod(0o644)
    blob.write_text("y")
    with pytest.raises(DamagedBlobError):
        store.checkout(tree, tmp_path / "out")
    assert not blob.exists()
    assert Store(root=tmp_path / "store").keep(_folder(tmp_path / "again")) == tree
    assert blob.read_text() == "x"


def test_one_content_under_two_modes(tmp_path: Path) -> None:
    store = Store(root=tmp_path / "store")
    folder = tmp_path / "in"
    folder.mkdir()
    for name, mode in (("plain", 0o644), ("run", 0o755)):
        (folder / name).write_text("same")
        (folder / name).chmod(mode)
    tree = store.keep(folder)
    assert describe(store.checkout(tree, tmp_path / "out")) == tree


def test_records_are_per_stage_and_key_and_a_broken_one_is_no_record(tmp_path: Path) -> None:
    store = Store(root=tmp_path)
    store.record("capture", "k", {"discovered": {"files": {}}, "value": 1})
    store.record("capture", "k", {"discovered": {"files": {"a": "1"}}, "value": 2})
    assert sorted(record["value"] for record in store.records("capture", "k")) == [1, 2]
    assert store.records("capture", "other") == []
    for path in (tmp_path / "stages" / "capture" / "k").iterdir():
        path.write_text("{")
    assert store.records("capture", "k") == []
