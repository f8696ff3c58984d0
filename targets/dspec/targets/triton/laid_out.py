"""A bundle's repository in a folder of its own: a server's Python writes beside what it runs, and a bundle stays as it is."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dspec.targets.triton.repository import FOLDER

PREFIX = "dspec-triton-"  # followed by the process that it belongs to
SHARED = Path("/dev/shm")


@contextmanager
def laid_out(bundle: Path) -> Iterator[Path]:
    """The repository, each model's folder taken out of the bundle as a fleet takes it; links where the file system has them."""
    _sweep()
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-") as made:
        repository = Path(made) / FOLDER
        shutil.copytree(bundle / FOLDER, repository, copy_function=_link_or_copy)
        yield repository


def _sweep() -> None:
    """Remove what processes left that were killed: their repositories, and the memory their servers shared."""
    for path in (*Path(tempfile.gettempdir()).glob(f"{PREFIX}*"), *SHARED.glob(f"{PREFIX}*")):
        owner = path.name.removeprefix(PREFIX).partition("-")[0]
        if not owner.isdigit() or Path(f"/proc/{owner}").exists():
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
