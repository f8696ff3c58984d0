"""`cases/*.yaml`: specs that are wrong, each with every finding it must get, in order.

A header line is `# expect: [warning] CODE LINE:COL message | what to do`.
"""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest

from dspec.spec.catalogue import Catalogue
from dspec.spec.errors import Diagnostic, DspecError
from dspec.spec.load import load

CASES = sorted((Path(__file__).parent / "cases").glob("*.yaml"))
TODAY = datetime.date(2026, 11, 30)
_EXPECT = re.compile(
    r"^# expect: (?P<warning>warning )?(?P<code>E\d{4}) (?P<place>\d+:\d+) (?P<text>.*)$", re.MULTILINE
)


def _findings(path: Path, catalogue: Catalogue) -> tuple[Diagnostic, ...]:
    try:
        return load(path, catalogue, today=TODAY).warnings
    except DspecError as error:
        return error.diagnostics


def _line(found: Diagnostic) -> str:
    warning = "warning " if found.severity == "warning" else ""
    todo = f" | {found.hint}" if found.hint else ""
    return f"# expect: {warning}{found.code} {found.line}:{found.col} {found.message}{todo}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_every_finding_is_told_at_its_place(case: Path, folder: Path, toy: Catalogue) -> None:
    text = case.read_text("utf-8")
    (folder / "deploy.yaml").write_text(text, "utf-8")
    expected = [match[0] for match in _EXPECT.finditer(text)]
    assert expected
    assert [_line(found) for found in _findings(folder / "deploy.yaml", toy)] == expected


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_every_finding_shows_its_line_and_what_was_expected(case: Path, folder: Path, toy: Catalogue) -> None:
    lines = case.read_text("utf-8").splitlines()
    (folder / "deploy.yaml").write_text(case.read_text("utf-8"), "utf-8")
    for found in _findings(folder / "deploy.yaml", toy):
        assert found.file == str(folder / "deploy.yaml")
        assert found.excerpt == lines[found.line - 1]
        assert 1 <= found.col <= found.col + found.length - 1 <= max(1, len(found.excerpt))
        assert found.expected or found.severity == "warning"
        assert found.hint
