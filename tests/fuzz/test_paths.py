"""`files.locate` and patterns of sources: whatever a spec says, only files of its folder or of the package are found."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dspec.spec.errors import DspecError
from dspec.spec.files import inside, locate, matching
from dspec.spec.models import Source

FUZZ = settings.get_profile("dspec-fuzz")
PACKAGE = f"pydantic=={distribution('pydantic').version}"
PIECES = ["..", ".", "/", "//", "\\", "a", "real.txt", "link", "loop", "out", "sub", "\0", "\ud800", "é", " ", "~", "C:", "a" * 300,
          "x/" * 600, "*", "**", "?", "[", "]", "[!a]", "main.py", "pydantic", "RECORD", "etc", "passwd", ":", "%2e%2e", "\n"]  # fmt: skip
PATHS: Any = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).flatmap(
    lambda parts: st.sampled_from(["".join(parts), "/".join(parts)])
)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """real.txt and sub/real.txt; links that lead out, to themselves, and back to the folder; a pipe."""
    root = tmp_path_factory.mktemp("paths")
    spec = root / "spec"
    (spec / "sub").mkdir(parents=True)
    (root / "secret.txt").write_text("secret")
    for name in ("real.txt", "sub/real.txt", "main.py"):
        (spec / name).write_text("x")
    (spec / "link").symlink_to(root / "secret.txt")
    (spec / "out").symlink_to(root)
    (spec / "loop").symlink_to(spec / "loop")
    (spec / "sub" / "again").symlink_to(spec)
    os.mkfifo(spec / "pipe")
    return spec


def _asked(look_up: Callable[[], Path]) -> tuple[str, Path | None]:
    """The code of the refusal and nothing, or '' and the file."""
    try:
        return "", look_up()
    except DspecError as error:
        return error.diagnostics[0].code, None


def _held(found: Path, root: Path) -> None:
    assert found.is_file()
    assert found.resolve().is_relative_to(root.resolve())


@given(written=PATHS)
@FUZZ
def test_any_path_of_the_folder(folder: Path, written: str) -> None:
    code, found = _asked(lambda: inside(written, folder))
    assert code in ("", "E0330", "E0331")
    if found:
        _held(found, folder)


@given(written=PATHS, verify=st.booleans(), pinned=st.booleans())
@FUZZ
def test_any_path_of_a_package(folder: Path, written: str, verify: bool, pinned: bool) -> None:
    source = Source.model_construct(package=PACKAGE, path=written, sha256="0" * 64 if pinned else None)
    code, found = _asked(lambda: locate(source, folder, verify=verify))
    assert code in ("", "E0330", "E0332", "E0333", "E0336", "E0337")
    if found:
        _held(found, Path(str(distribution("pydantic").locate_file(""))))


@given(package=PATHS | st.text(max_size=20))
@FUZZ
def test_any_package(folder: Path, package: str) -> None:
    """The model's pattern lets few of these through; the look-up must hold without it."""
    source = Source.model_construct(package=package, path="main.py", sha256=None)
    code, _ = _asked(lambda: locate(source, folder))
    assert code in ("E0330", "E0333", "E0334", "E0335", "E0336", "E0337")


@given(pattern=PATHS)
@FUZZ
def test_any_pattern(folder: Path, pattern: str) -> None:
    try:
        inside(pattern, folder, exists=False)
    except DspecError:
        return
    for found in matching(pattern, folder):
        assert (folder / found).exists()


PATTERNS = [
    "*",
    "*.py",
    "*.txt",
    "**/*.txt",
    "sub/*",
    "s?b/*.txt",
    "**/real.*",
    "[rm]*.*",
    "**/**/*.txt",
    "sub/**/*.txt",
    "x/*",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_mean_what_they_mean_to_pathlib(folder: Path, pattern: str) -> None:
    """Except that a folder which is a link is entered only by its name."""
    real = {path.relative_to(folder).as_posix() for path in folder.glob(pattern) if path.is_file()}
    assert set(matching(pattern, folder)) == {name for name in real if "again" not in name}


def test_a_pattern_enters_a_link_that_it_names(folder: Path) -> None:
    assert matching("sub/again/*.py", folder) == ["sub/again/main.py"]


def test_links_in_circles_end(folder: Path) -> None:
    for number in range(10):
        (folder / "sub" / f"circle{number}").symlink_to(folder)
    assert matching("*/*/*/*/*/*/*/*/*/*.pp", folder) == []
    assert matching("**/*.py", folder) == ["main.py"]
