"""`.dspec/`: blobs by content, and the records of finished stages.

    blobs/ab/cdef…      one file per content; bundles and work folders hold hard links to them
    stages/<name>/…     what a stage gave for a key
    work/, withheld/    folders of running stages, and bundles that were not proved

A blob is hashed whenever it is read; a damaged one is dropped, and its stage runs again.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dspec.spec.errors import MachineError, SpecError
from dspec.spec.files import sha256_of
from dspec.spec.records import FileEntry, digest

Tree = tuple[FileEntry, ...]


class DamagedBlobError(Exception):
    """A blob is gone, or its content is not what its name says."""


def walk(folder: Path) -> Iterator[str]:
    """Every file below `folder`, as a relative path with forward slashes, sorted by its bytes."""
    names = (
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()
    )
    return iter(sorted(names, key=str.encode))


def describe(folder: Path) -> Tree:
    """The tree of a folder: path, size, run bit and sha256 of every file, sorted by the bytes of the path."""
    return tuple(_entry(folder, name) for name in walk(folder))


def _entry(folder: Path, name: str) -> FileEntry:
    status = (folder / name).stat()
    return FileEntry(
        path=name,
        size=status.st_size,
        sha256=sha256_of(folder / name),
        executable=bool(status.st_mode & 0o100),
    )


def tree_digest(tree: Tree) -> str:
    return digest([entry.model_dump(mode="json") for entry in tree])


def part(tree: Tree, folder: str) -> Tree:
    """What lies in a folder of a tree."""
    prefix = folder + "/"
    return tuple(
        entry.model_copy(update={"path": entry.path.removeprefix(prefix)})
        for entry in tree
        if entry.path.startswith(prefix)
    )


MARKER = "dspec-store"


@contextmanager
def locked(store: Store) -> Iterator[None]:
    """One build at a time per store; whatever a killed one left behind is removed.

    Raises MachineError E0604 while another build runs, SpecError E0608 for a folder that is something else.
    """
    if store.root.is_dir() and any(store.root.iterdir()) and not (store.root / MARKER).exists():
        raise SpecError.of("E0608", f"{store.root} is not a store of dspec", hint="name an empty or a new folder")
    store.root.mkdir(parents=True, exist_ok=True)
    (store.root / MARKER).touch()
    with (store.root / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            hint = "wait for it, or give --store"
            raise MachineError.of("E0604", f"another dspec is building with {store.root}", hint=hint) from None
        shutil.rmtree(store.root / "work", ignore_errors=True)
        yield


@dataclass(frozen=True, kw_only=True, slots=True)
class Store:
    """Blobs and stage records below `root`."""

    root: Path

    def blob(self, sha256: str) -> Path:
        return self.root / "blobs" / sha256[:2] / sha256[2:]

    def keep(self, folder: Path) -> Tree:
        """Take every file of `folder` into the store (the folder's files become links to the blobs)."""
        tree = describe(folder)
        for entry in tree:
            self._keep_file(folder / entry.path, entry)
        return tree

    def _keep_file(self, path: Path, entry: FileEntry) -> None:
        blob = self.blob(entry.sha256)
        if blob.exists() and sha256_of(blob) == entry.sha256:
            return
        blob.parent.mkdir(parents=True, exist_ok=True)
        blob.unlink(missing_ok=True)
        link_or_copy(path, blob)
        blob.chmod(0o555 if entry.executable else 0o444)

    def checkout(self, tree: Iterable[FileEntry], folder: Path) -> Path:
        """Lay the tree out in `folder`. Raises DamagedBlobError where a blob is not what its name says."""
        for entry in tree:
            blob = self.blob(entry.sha256)
            if not blob.is_file() or sha256_of(blob) != entry.sha256:
                blob.unlink(missing_ok=True)
                raise DamagedBlobError(entry.path)
            place = folder / entry.path
            place.parent.mkdir(parents=True, exist_ok=True)
            link_or_copy(blob, place)
            if bool(place.stat().st_mode & 0o100) != entry.executable:  # one content under two modes
                place.unlink()
                shutil.copyfile(blob, place)
                place.chmod(0o555 if entry.executable else 0o444)
        return folder

    def records(self, stage: str, key: str) -> list[dict[str, Any]]:
        """Records of a stage under a key, newest first: they differ in what the stage discovered while it ran."""
        folder = self.root / "stages" / stage / key
        if not folder.is_dir():
            return []
        newest = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
        return [record for path in newest if (record := _read_record(path)) is not None]

    def record(self, stage: str, key: str, value: dict[str, Any]) -> None:
        name = digest(value["discovered"])[:16]
        write_whole(self.root / "stages" / stage / key / f"{name}.json", json.dumps(value, indent=1))


def _read_record(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except ValueError:
        return None
    return found


def link_or_copy(source: Path, target: Path) -> None:
    """A hard link where the file system allows one, otherwise a copy with the same mode."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
