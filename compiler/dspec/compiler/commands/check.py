"""`dspec check FILES…`: every error of every file; nothing of the user's is imported or executed."""

from __future__ import annotations

import argparse
import glob
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dspec.compiler.offered import refusals
from dspec.spec.errors import Diagnostic, DspecError, SpecError
from dspec.spec.load import load
from dspec.spec.models import Spec
from dspec.targets import catalogue


def run(options: argparse.Namespace) -> int:
    """0 when every file is right, 2 for a wrong one, 4 for one that needs what this machine lacks."""
    paths = _expand(options.files)
    Spec.model_rebuild()  # before threads ask for it
    with ThreadPoolExecutor() as pool:  # one file's weights are hashed while the next is parsed
        checked = list(pool.map(_check, paths))
    found = [diagnostic for diagnostics, _ in checked for diagnostic in diagnostics]
    codes = {0, *(code for _, code in checked)}
    if found or options.format != "text":
        from dspec.spec.render import render

        print(render(found, options.format))
    if options.format == "text":
        errors = sum(one.severity == "error" for one in found)
        print(
            f"{_count(len(paths), 'file')} checked: {_count(errors, 'error')}, {_count(len(found) - errors, 'warning')}"
        )
    return 2 if 2 in codes else max(codes)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _check(path: Path) -> tuple[Sequence[Diagnostic], int]:
    try:
        loaded = load(path, catalogue())
        refused = tuple(refusals(loaded))
        return (*loaded.warnings, *refused), SpecError.exit_code if refused else 0
    except DspecError as error:
        return error.diagnostics, error.exit_code


def _expand(patterns: list[str]) -> list[Path]:
    paths: list[Path] = []
    for pattern in patterns:
        hits = sorted(glob.glob(pattern, recursive=True)) if glob.has_magic(pattern) else [pattern]
        if not hits:
            raise SpecError.of("E0001", f"no file matches {pattern}")
        paths += [path / "deploy.yaml" if (path := Path(hit)).is_dir() else path for hit in hits]
    return list(dict.fromkeys(paths))
