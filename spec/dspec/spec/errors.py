"""Every error dspec raises on purpose.

DspecError            one diagnostic or more; never shown as a traceback
├── SpecError         exit 2: the spec or the command is wrong
├── ExportError       exit 3: capture, export or lowering is blocked
├── MachineError      exit 4: something this machine lacks
├── GateError         exit 1: a proof failed, or a bundle is not what it says it is
└── NotProvedError    exit 5: inconclusive or unmeasured

Errors of other libraries are converted where they are met, with `from error`, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, Self

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnostic:
    """One finding: where, what was found, what was expected, what to do.

    `line` and `col` count from 1, in characters; 0 means that the finding has no place in a file. `length` is how many
    characters the caret underlines. `key` is the path inside the spec, as `targets.fleet.slo`.
    """

    code: str
    message: str
    file: str = ""
    line: int = 0
    col: int = 0
    length: int = 1
    key: str = ""
    expected: str = ""
    hint: str = ""
    excerpt: str = ""
    severity: Severity = "error"
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.col) if part)
        head = f"{place}: " if place else ""
        parts = [f"{head}{self.severity} {self.code}: {self.message}"]
        parts += [f"  {label}: {text}" for label, text in self._details() if text]
        return "\n".join(parts + [f"  {note}" for note in self.notes])

    def _details(self) -> tuple[tuple[str, str], ...]:
        return (("expected", self.expected), ("to do", self.hint))

    def to_json(self) -> dict[str, Any]:
        """The diagnostic as plain JSON values; `from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Diagnostic:
        return cls(**(value | {"notes": tuple(value.get("notes", ()))}))


class DspecError(Exception):
    """One diagnostic or more, with the exit code of section 8 of the design."""

    exit_code: ClassVar[int] = 2

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = (
            (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        )
        super().__init__("\n".join(str(found) for found in self.diagnostics))

    @classmethod
    def of(cls, code: str, message: str, **details: Any) -> Self:
        """The error with one diagnostic: `SpecError.of("E0301", "no such file", hint="…")`."""
        return cls(Diagnostic(code=code, message=message, **details))


class SpecError(DspecError):
    exit_code = 2


class ExportError(DspecError):
    exit_code = 3


class MachineError(DspecError):
    exit_code = 4


class GateError(DspecError):
    exit_code = 1


class NotProvedError(DspecError):
    exit_code = 5


BY_EXIT_CODE: dict[int, type[DspecError]] = {
    kind.exit_code: kind for kind in (SpecError, ExportError, MachineError, GateError, NotProvedError)
}


def unwritable(error: OSError) -> MachineError:
    """What the operating system refused: no space, no permission, a read-only or failing disk."""
    place = f" {error.filename}" if error.filename else ""
    return MachineError.of(
        "E0606",
        f"the system refused{place}: {error.strerror or error}",
        hint="make room, or give a folder that may be written (--store, --bundles, TMPDIR); nothing was published",
    )
