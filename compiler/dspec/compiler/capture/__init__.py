"""Capture: the user's module becomes a Program (what is lowered) and a Reference (what everything is held against).

Beside them lies the module itself, as far as it is the user's own files.

Runs in a child process and imports torch when called, not when imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dspec.spec.errors import Diagnostic
from dspec.spec.models import Spec
from dspec.spec.records import Interface

Report = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptureRequest:
    """What to capture.

    Attributes:
        folder: the spec's folder; `spec_file`: how diagnostics call the spec.
        weights: the checkpoint, already found and checked; None: the module keeps its factory's.
        pipeline: a pipeline folder, as it ships.
        program_out, reference_out: folders to fill.
        module_out: another, where the user's module is to run again elsewhere.
    """

    spec: Spec
    folder: Path
    spec_file: str
    weights: Path | None
    pipeline: Path
    program_out: Path
    reference_out: Path
    module_out: Path | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptureResult:
    """What became known.

    Attributes:
        interface: with the outputs that the spec left to be found.
        warnings: diagnostics of severity warning.
        read: files that user code and fixtures read, in the spec's folder.
        distributions: those that user code imported.
    """

    interface: Interface
    warnings: tuple[Diagnostic, ...]
    read: tuple[Path, ...]
    distributions: tuple[str, ...]


def capture(request: CaptureRequest, report: Report) -> CaptureResult:
    """Build, load, check, export and run the module; fill both folders.

    Raises SpecError where the spec and the code disagree, ExportError where the module can't be captured.
    """
    from dspec.compiler.capture.flow import capture as run

    return run(request, report)
