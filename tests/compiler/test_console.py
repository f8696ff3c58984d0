from __future__ import annotations

import pytest

from dspec.compiler.console import table
from dspec.compiler.summary import HEADINGS

LONG = "sentence_embedding max |Δ| 3.09e-07\n  at [0, 70] of fixtures/sentences.jsonl:30, min cosine 1.0000000\n  limit atol 1e-05"
ROW = ("local", LONG, "p50 13.3 ms, p95 64 ms\n  limit p50 ≤ 60 ms, p95 ≤ 400 ms", "5%", "91.2 MB", "PROVED\n7 pass")


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_a_table_fits_the_terminal(width: int) -> None:
    lines = table(HEADINGS, [ROW, ROW], width).splitlines()
    assert max(map(len, lines)) <= width
    letters = "".join("".join(lines).split())
    for word in ("3.09e-07", "PROVED", "91.2", "1e-05"):
        assert word in letters
    assert len(lines) < 40


def test_a_wide_terminal_folds_nothing() -> None:
    lines = table(("a", "b"), [("x", "one\ntwo")], 80).splitlines()
    assert lines == ["a  b", "─  ───", "x  one", "   two"]


def test_a_stopped_target_has_a_cell_per_heading() -> None:
    from dspec.compiler.results import TargetResult
    from dspec.compiler.summary import row
    from dspec.spec.errors import MachineError

    stopped = TargetResult(target="t", optional=False, error=MachineError.of("E0601", "died"))
    assert len(row(stopped)) == len(HEADINGS)
    assert row(stopped)[-1] == "STOPPED E0601"
