"""One swap for a whole deployment: `bundles/<name>/` is the old publication or the new one, never a mixture."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
from pathlib import Path

from dspec.compiler.store import describe
from dspec.spec.errors import SpecError

AT_FDCWD = -100
RENAME_EXCHANGE = 2
EVIDENCE = "evidence"


def publish(staged: Path, published: Path) -> bool:
    """Put the staged folder in the place of the published one; False when both hold the same files already."""
    if published.is_dir() and describe(staged) == describe(published):
        return False
    _recover(published)
    _refuse_others(published)
    published.parent.mkdir(parents=True, exist_ok=True)
    beside = _on_same_file_system(staged, published)
    if published.exists():
        _exchange(beside, published)
        shutil.rmtree(beside)
    else:
        beside.rename(published)
    return True


def _refuse_others(published: Path) -> None:
    """Raise SpecError E0706 where the place holds anything that a publication does not: it would be lost."""
    if not published.exists():
        return
    entries = sorted(published.iterdir()) if published.is_dir() else [published]
    foreign = [path.name for path in entries if path.name != EVIDENCE and not (path / "bundle.json").is_file()]
    if foreign:
        raise SpecError.of(
            "E0706",
            f"{published} is not a publication of dspec: it holds {', '.join(foreign[:3])}",
            hint="move those files away, or publish elsewhere with --bundles",
        )


def _recover(published: Path) -> None:
    """Bring back what a kill between two renames (no exchange in the kernel) left aside."""
    aside = _aside(published)
    if aside.exists() and not published.exists():
        aside.rename(published)


def _aside(published: Path) -> Path:
    return published.with_name(f".{published.name}.old")


def _on_same_file_system(staged: Path, published: Path) -> Path:
    if staged.stat().st_dev == published.parent.stat().st_dev:
        return staged
    beside = published.parent / f".{published.name}.staged"
    shutil.rmtree(beside, ignore_errors=True)
    shutil.copytree(staged, beside)
    return beside


def _exchange(new: Path, old: Path) -> None:
    """Swap two folders in one step where the kernel can; elsewhere in two renames, the old one set aside between."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        paths = os.fsencode(new), os.fsencode(old)
        if libc.renameat2(AT_FDCWD, paths[0], AT_FDCWD, paths[1], RENAME_EXCHANGE) == 0:
            return
        if (code := ctypes.get_errno()) not in (errno.ENOSYS, errno.EINVAL):
            raise OSError(code, os.strerror(code), str(old))
    aside = _aside(old)
    shutil.rmtree(aside, ignore_errors=True)
    old.rename(aside)
    new.rename(old)
    aside.rename(new)


def withhold(staged: Path, kept: Path) -> None:
    """Keep an unproved publication for a look, outside `bundles/`."""
    shutil.rmtree(kept, ignore_errors=True)
    kept.parent.mkdir(parents=True, exist_ok=True)
    staged.rename(kept)
