"""Where in the user's code something happened: frames of tracebacks, stacks and exporter traces reduced to one line."""

from __future__ import annotations

import linecache
import re
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import dspec

Line = tuple[str, int]  # file name as Python has it, line from 1
_TRACE_LINE = re.compile(r'File "(.+?)", line (\d+)')
_INTERNAL = ("torch/", "functorch/", "torchgen/")  # packages whose lines tell a user nothing


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A line of the user's own code.

    Attributes:
        file: relative to the spec's folder, or to the folder packages install into when no line of the folder is there.
        text: the line itself.
        inside: `package/file.py:line` of the library the line called into, where it did.
    """

    file: str
    line: int
    text: str = ""
    inside: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def details(self) -> dict[str, Any]:
        """Fields of a Diagnostic."""
        notes = (f"inside {self.inside}",) if self.inside else ()
        return {"file": self.file, "line": self.line, "excerpt": self.text, "notes": notes}


class Places:
    """Tells the user's lines from everybody else's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._packages = _roots(sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
        self._ours = _roots(*dspec.__path__)

    def own(self, name: str) -> str | None:
        """`name` relative to the spec's folder, or None where it lies elsewhere (a virtual environment in it included)."""
        path = Path(name)
        if not path.is_absolute() or any(path.is_relative_to(root) for root in (*self._packages, *self._ours)):
            return None
        return path.relative_to(self.folder).as_posix() if path.is_relative_to(self.folder) else None

    def library(self, name: str) -> str | None:
        """`transformers/models/…` for a file of an installed package other than torch; None otherwise."""
        found = next((root for root in self._packages if name.startswith(f"{root}/")), None)
        relative = Path(name).relative_to(found).as_posix() if found else ""
        return None if not relative or relative.startswith(_INTERNAL) else relative

    def of_error(self, error: BaseException) -> Place | None:
        """The innermost line of the user's on the way to `error`."""
        if isinstance(error, SyntaxError) and error.filename and (own := self.own(error.filename)):
            return Place(file=own, line=error.lineno or 0, text=(error.text or "").strip())
        return self.of_lines(_traceback_lines(error.__traceback__))

    def of_stack(self, frame: FrameType | None) -> Place | None:
        """The innermost line of the user's above `frame`."""
        return self.of_lines((f.f_code.co_filename, line) for f, line in reversed(list(traceback.walk_stack(frame))))

    def of_trace(self, trace: str) -> Place | None:
        """The same of an exporter's `stack_trace` text."""
        return self.of_lines((name, int(line)) for name, line in _TRACE_LINE.findall(trace))

    def of_lines(self, lines: Iterable[Line]) -> Place | None:
        """`lines` outermost first."""
        known = list(lines)
        at = max((number for number, (name, _) in enumerate(known) if self.own(name)), default=-1)
        further = ((library, line) for name, line in known[at + 1 :] if (library := self.library(name)))
        inside = next(reversed(list(further)), None)
        if at < 0:
            return Place(file=inside[0], line=inside[1]) if inside else None
        name, line = known[at]
        via = f"{inside[0]}:{inside[1]}" if inside else ""
        return Place(file=self.own(name) or "", line=line, text=linecache.getline(name, line).strip(), inside=via)


def _roots(*names: str) -> tuple[str, ...]:
    return tuple(sorted({str(Path(name).resolve()) for name in names} | set(names)))


def _traceback_lines(trace: TracebackType | None) -> Iterator[Line]:
    for frame, line in traceback.walk_tb(trace):
        yield frame.f_code.co_filename, line
