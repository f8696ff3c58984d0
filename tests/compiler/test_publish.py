from __future__ import annotations

import os
from pathlib import Path

import pytest

from dspec.compiler.publish import publish, withhold


def _publication(folder: Path, text: str) -> Path:
    (folder / "service").mkdir(parents=True)
    (folder / "service" / "bundle.json").write_text(text)
    return folder


def _text(folder: Path) -> str:
    return (folder / "service" / "bundle.json").read_text()


def test_the_first_publication_appears(tmp_path: Path) -> None:
    place = tmp_path / "bundles" / "demo"
    assert publish(_publication(tmp_path / "new", "1"), place)
    assert _text(place) == "1"
    assert not (tmp_path / "new").exists()


def test_a_publication_replaces_the_former_one_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    place = _publication(tmp_path / "bundles" / "demo", "1")
    assert publish(_publication(tmp_path / "new", "2"), place)
    assert _text(place) == "2"
    assert os.listdir(tmp_path / "bundles") == ["demo"]


def test_the_same_files_are_not_published_again(tmp_path: Path) -> None:
    place = _publication(tmp_path / "bundles" / "demo", "1")
    before = place.stat().st_ino
    assert not publish(_publication(tmp_path / "new", "1"), place)
    assert place.stat().st_ino == before


def test_where_the_kernel_has_no_exchange_two_renames_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dspec.compiler.publish.sys.platform", "other")
    place = _publication(tmp_path / "bundles" / "demo", "1")
    assert publish(_publication(tmp_path / "new", "2"), place)
    assert _text(place) == "2"
    assert os.listdir(tmp_path / "bundles") == ["demo"]


def test_a_withheld_build_replaces_the_one_kept_before(tmp_path: Path) -> None:
    kept = tmp_path / ".dspec" / "withheld" / "demo"
    withhold(_publication(tmp_path / "one", "1"), kept)
    withhold(_publication(tmp_path / "two", "2"), kept)
    assert _text(kept) == "2"
