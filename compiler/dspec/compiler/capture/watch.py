"""What user code opens and imports while it runs, seen by an audit hook (native readers escape it)."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from dspec.compiler.capture.places import Places

_WATCHING: list[Watch] = []
_INSTALLED: list[bool] = []  # an audit hook can't be removed: one, for the life of the process


class Watch:
    """Files read and modules imported inside `running`."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.opened: set[Path] = set()
        self.imported: set[str] = set()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """User code runs in here. Nothing is written into the user's folder: no bytecode."""
        _install()
        before, bytecode, sys.dont_write_bytecode = set(sys.modules), sys.dont_write_bytecode, True
        _WATCHING.append(self)
        try:
            yield
        finally:
            _WATCHING.remove(self)
            sys.dont_write_bytecode = bytecode
            self.imported |= set(sys.modules) - before

    def note(self, path: Path, caller: FrameType | None) -> None:
        """One file opened for reading; what a library reads of its own while it is imported is its own business."""
        if not self._by_import_of_library(caller):
            self.opened.add(path)

    def _by_import_of_library(self, frame: FrameType | None) -> bool:
        while frame and not self.places.own(frame.f_code.co_filename):
            if frame.f_code.co_filename.startswith("<frozen importlib"):
                return True
            frame = frame.f_back
        return False

    def files(self) -> tuple[Path, ...]:
        """The regular files among those opened, links resolved, bytecode left out."""
        found = {path.resolve() for path in self.opened if path.suffix != ".pyc" and path.is_file()}
        return tuple(sorted(found))

    def modules(self) -> tuple[Path, ...]:
        """The source files of imported modules."""
        found = {getattr(sys.modules.get(name), "__file__", None) for name in self.imported}
        return tuple(sorted({Path(name).resolve() for name in found if name and Path(name).is_file()}))


def _install() -> None:
    if not _INSTALLED:
        _INSTALLED.append(True)
        sys.addaudithook(_hook)


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if event != "open" or not _WATCHING:
        return
    path, _, flags = arguments
    reads = not isinstance(flags, int) or flags & os.O_ACCMODE == os.O_RDONLY
    if reads and isinstance(path, str | bytes | os.PathLike):
        _WATCHING[-1].note(Path(os.path.abspath(os.fsdecode(path))), sys._getframe(1))
