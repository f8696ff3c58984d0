"""What a person sees: progress on a terminal, plain lines elsewhere, and the table at the end of a build."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dspec.compiler.results import BuildResult, TargetResult
from dspec.compiler.stage import Report
from dspec.compiler.summary import HEADINGS, row
from dspec.spec.errors import DspecError
from dspec.spec.records import GateVerdict
from dspec.spec.render import render

LEAST_COLUMN = 16  # characters: no column is folded further


@contextmanager
def progress() -> Iterator[Report]:
    """Progress on standard error: one line rewritten in place on a terminal, one under the other elsewhere.

    The live line is gone before anything else is printed, whatever ends the work.
    """
    if not sys.stderr.isatty():
        yield _plain()
        return
    from rich.console import Console
    from rich.live import Live
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False)
    shown = Progress(*columns, console=Console(stderr=True))
    task = shown.add_task("starting", total=None)
    with Live(shown, console=shown.console, transient=True, redirect_stdout=False, redirect_stderr=False):
        yield lambda text: shown.update(task, description=text)


def _plain() -> Report:
    start = time.perf_counter()

    def report(text: str) -> None:
        print(f"[{time.perf_counter() - start:6.1f} s] {text}", file=sys.stderr, flush=True)

    return report


def show_build(result: BuildResult, seconds: float) -> None:
    """The table of targets, what stands behind each verdict that is not green, and where everything is."""
    for found in result.warnings:
        note = f"note {found.code}: {found.message}"
        print(note if found.severity == "note" else render([found], "text"), file=sys.stderr)
    print(table(HEADINGS, [row(target) for target in result.targets]))
    for target in result.targets:
        _show_target(target)
    print(_ending(result, seconds))


def _show_target(target: TargetResult) -> None:
    if target.error is not None:
        _show_error(target.target, target.error)
    for found in target.verdicts:
        if found.waived_by:
            print(f"\n{target.target}: {found.gate} {found.verdict}, waived by {found.waived_by}")
        elif found.verdict not in ("pass", "not asked"):
            _show_verdict(target.target, found)
        elif found.gate == "quality" and found.measured:
            print(f"\n{target.target}: quality {found.verdict}: {found.measured}; limit: {found.limit}")


def _show_error(target: str, error: DspecError) -> None:
    print(f"\n{target}: not built")
    print(render(error.diagnostics, "text"))


def _show_verdict(target: str, found: GateVerdict) -> None:
    print(f"\n{target}: {found.gate} {found.verdict}")
    lines = [
        ("measured", found.measured),
        ("limit", found.limit),
        *(("", line) for line in found.detail),
    ]
    for label, text in lines:
        if text:
            print(f"  {label + ': ' if label else ''}{text}")


def _ending(result: BuildResult, seconds: float) -> str:
    lines = [
        f"{target.target}: evidence from {', '.join(target.joined)} counted"
        for target in result.targets
        if target.joined
    ]
    if result.published:
        lines.append(f"published: {result.place}" if result.changed else f"unchanged: {result.place} is current")
    else:
        lines.append(f"withheld: {result.name} is not proved; what stands in bundles/ is untouched")
        lines += [f"kept for a look: {_shown(result.place)}"] if result.kept else []
    if not any(target.fresh for target in result.targets):
        hint = "" if result.published else " (--remeasure takes the numbers anew)"
        lines.append(f"every stage answered from the store{hint}")
    return "\n" + "\n".join((*lines, f"{seconds:.1f} s"))


def _shown(path: Path) -> str:
    """Relative where that is shorter."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int = 0) -> str:
    """A plain table, cells with several lines allowed; where it is wider than `width`, the longest cells are folded."""
    texts = [[cell.split("\n") for cell in line] for line in (headings, *rows)]
    limits = _limits(_widths(texts), width or _terminal_width())
    cells = [[_folded(cell, limit) for cell, limit in zip(line, limits, strict=True)] for line in texts]
    widths = _widths(cells)
    lines = []
    for line in cells:
        for number in range(max(map(len, line))):
            parts = (cell[number] if number < len(cell) else "" for cell in line)
            lines.append("  ".join(part.ljust(size) for part, size in zip(parts, widths, strict=True)).rstrip())
    lines.insert(max(map(len, cells[0])), "  ".join("─" * size for size in widths))
    return "\n".join(lines)


def _terminal_width() -> int:
    """Where nobody watches, nothing is folded: logs and pipes take long lines."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize


def _widths(cells: Sequence[Sequence[Sequence[str]]]) -> list[int]:
    return [max(len(part) for line in cells for part in line[column]) for column in range(len(cells[0]))]


def _limits(widths: list[int], width: int) -> list[int]:
    """The widths of the columns, the widest ones cut until all fit."""
    limits = list(widths)
    while sum(limits) + 2 * (len(limits) - 1) > width and max(limits) > LEAST_COLUMN:
        limits[limits.index(max(limits))] -= 1
    return limits


def _folded(cell: Sequence[str], limit: int) -> list[str]:
    """The cell's lines, those beyond the limit broken between words and set in by two more."""
    folded: list[str] = []
    for line in cell:
        indent = " " * (len(line) - len(line.lstrip()))
        folded += textwrap.wrap(line.strip(), limit, initial_indent=indent, subsequent_indent=f"{indent}  ") or [""]
    return folded
