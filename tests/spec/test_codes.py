"""Every code has an entry, every entry a code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dspec.spec.codes import FOLDER, entries, explain, titles
from dspec.spec.errors import SpecError

ROOT = Path(__file__).parents[2]
_CODE = re.compile(r"[\"'](E\d{4})[\"']")


def _used() -> set[str]:
    sources = [path for room in ("spec", "targets", "compiler", "dashboard") for path in (ROOT / room).rglob("*.py")]
    return {code for path in sources for code in _CODE.findall(path.read_text("utf-8"))}


def test_every_code_in_the_sources_is_explained() -> None:
    assert sorted(_used() - set(entries())) == []


def test_every_entry_is_used() -> None:
    assert sorted(set(entries()) - _used()) == []


def test_each_code_has_one_entry() -> None:
    texts = [file.read_text("utf-8") for file in sorted(FOLDER.glob("*.toml"))]
    codes = [code for text in texts for code in re.findall(r"^\[(E\d{4})\]", text, re.MULTILINE)]
    assert sorted(codes) == sorted(set(codes)) == list(entries())


def test_explain_says_what_to_do() -> None:
    assert explain("e0112").startswith("E0112: a number with a leading zero\n\n")
    assert "What to do: Write the number without the zero" in explain("E0112")
    assert titles()["E0112"] == "a number with a leading zero"


def test_an_unknown_code_gets_the_nearest() -> None:
    with pytest.raises(SpecError, match=r"unknown code `E01120`[\s\S]*did you mean `E0112`"):
        explain("E01120")
