"""Put an artifact's files into a bundle."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from dspec.targets.protocol import Artifact


def lay(artifact: Artifact, folder: Path) -> None:
    """Link (or copy, across file systems) the model and its external data into `folder`, and nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (artifact.file, *artifact.facts["data"]):
        _link_or_copy(artifact.folder / name, folder / name)


def _link_or_copy(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
