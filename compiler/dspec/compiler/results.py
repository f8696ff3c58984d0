"""What became of a build: values that the console, the JSON report and the exit code are made from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from dspec.compiler.judge import publishable
from dspec.spec.errors import Diagnostic, DspecError, ExportError
from dspec.spec.models import Spec
from dspec.spec.records import GateVerdict, Manifest, Measurement

EXIT_ORDER = (2, 3, 1, 4, 5)  # what a build with several troubles answers: the one nearest to its cause


@dataclass(frozen=True, kw_only=True, slots=True)
class TargetResult:
    """One target: its bundle, numbers and verdicts, or the error that stopped it.

    `joined` names the machines whose evidence counted; `fresh`: something ran for it now.
    """

    target: str
    optional: bool
    manifest: Manifest | None = None
    measurement: Measurement | None = None
    joined: tuple[str, ...] = ()
    verdicts: tuple[GateVerdict, ...] = ()
    error: DspecError | None = None
    warnings: tuple[Diagnostic, ...] = ()
    fresh: bool = True

    @property
    def proved(self) -> bool:
        return self.error is None and publishable(self.verdicts)

    @property
    def exit_code(self) -> int:
        if self.error is not None:
            return self.error.exit_code
        unproved = {found.verdict for found in self.verdicts if not found.waived_by}
        return 1 if "fail" in unproved else 5 if {"inconclusive", "unmeasured"} & unproved else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildResult:
    """Every target's fate, and where the whole publication lies; `kept`: withheld, and put aside for a look."""

    name: str
    targets: tuple[TargetResult, ...]
    published: bool
    changed: bool
    kept: bool
    place: Path
    warnings: tuple[Diagnostic, ...] = ()

    @property
    def exit_code(self) -> int:
        if self.published:
            return 0
        codes = {result.exit_code for result in self.targets if not result.optional} - {0} or {5}
        return next(code for code in EXIT_ORDER if code in codes)


def telling_what_stays_open(results: tuple[TargetResult, ...], spec: Spec) -> tuple[TargetResult, ...]:
    """The same, a target that could not be lowered with a note of those that could: only the whole build knows."""

    def named(targets: list[str]) -> str:
        return ", ".join(f"{name} ({spec.targets[name].runtime})" for name in targets)

    still = (
        named([found.target for found in results if not isinstance(found.error, ExportError)]) or "none of this spec"
    )
    return tuple(
        replace(found, error=_noting(found.error, f"blocked target: {named([found.target])}; still open: {still}"))
        if isinstance(found.error, ExportError)
        else found
        for found in results
    )


def _noting(error: DspecError, note: str) -> DspecError:
    first, *rest = error.diagnostics
    return type(error)((replace(first, notes=(*first.notes, note)), *rest))
