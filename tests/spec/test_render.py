"""Diagnostics as text, JSON, GitHub commands and SARIF."""

from __future__ import annotations

import json

import pytest

from dspec.spec.errors import Diagnostic
from dspec.spec.render import FORMATS, render

FOUND = Diagnostic(
    code="E0201", message="unknown key `modle`", file="a, b/deploy.yaml", line=5, col=3, length=5, key="modle",
    expected="model", hint="did you mean `model`?", excerpt="  modle: {a: 1}", notes=("100% sure\nreally",),
)  # fmt: skip
BARE = Diagnostic(code="E0325", message="late", severity="warning")


def test_text_has_place_excerpt_caret_expected_and_what_to_do() -> None:
    assert render([FOUND, BARE], "text").splitlines() == [
        "a, b/deploy.yaml:5:3: error E0201: unknown key `modle`",
        "      modle: {a: 1}",
        "      ^^^^^",
        "  expected: model",
        "  to do: did you mean `model`?",
        "  100% sure\ufffdreally",
        "warning E0325: late",
    ]


@pytest.mark.parametrize(
    ("excerpt", "col", "length", "under"),
    [
        ("a: 'zwei' # x", 4, 6, "'zwei'"),
        ("\ta: b", 2, 1, "a"),
        ("x" * 500 + "HERE" + "y" * 500, 501, 4, "HERE"),
        ("a: bc", 4, 900, "bc"),
    ],
)
def test_the_caret_underlines_the_place(excerpt: str, col: int, length: int, under: str) -> None:
    found = Diagnostic(code="E0201", message="m", file="f", line=1, col=col, length=length, excerpt=excerpt)
    _, shown, caret = render([found], "text").splitlines()[:3]
    assert "".join(char for char, mark in zip(shown, caret.ljust(len(shown)), strict=True) if mark == "^") == under
    assert len(shown) < 140


def test_wide_characters_take_two_columns() -> None:
    found = Diagnostic(code="E0201", message="m", file="f", line=1, col=5, length=2, excerpt="日本: 東京")
    assert render([found], "text").splitlines()[1:] == ["    日本: 東京", "    " + " " * 6 + "^^^^"]


def test_a_terminal_gets_no_control_characters_of_the_file() -> None:
    found = Diagnostic(code="E0201", message="unknown key `\x1b[2J`", file="f", line=1, col=1, excerpt="\x1b[2J: 1")
    assert "\x1b" not in render([found], "text")
    assert "\x1b[31merror" in render([found], "text", color=True)


def test_json_reads_back() -> None:
    assert [Diagnostic.from_json(found) for found in json.loads(render([FOUND, BARE], "json"))] == [FOUND, BARE]


def test_github_commands_are_escaped() -> None:
    assert render([FOUND, BARE], "github").splitlines() == [
        "::error file=a%2C b/deploy.yaml,line=5,col=3,title=E0201,endColumn=8::unknown key `modle`%0Aexpected: model"
        "%0Ato do: did you mean `model`?%0A100%25 sure%0Areally",
        "::warning title=E0325::late",
    ]


def test_sarif_has_rules_and_places() -> None:
    log = json.loads(render([FOUND, BARE, FOUND], "sarif"))
    (run,) = log["runs"]
    assert (log["version"], run["columnKind"]) == ("2.1.0", "unicodeCodePoints")
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["E0201", "E0325"]
    assert [run["tool"]["driver"]["rules"][found["ruleIndex"]]["id"] for found in run["results"]] == [
        "E0201", "E0325", "E0201",
    ]  # fmt: skip
    (location,) = run["results"][0]["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "a%2C%20b/deploy.yaml"},
        "region": {"startLine": 5, "startColumn": 3, "endColumn": 8},
    }
    assert "locations" not in run["results"][1]
    assert run["results"][1]["level"] == "warning"


@pytest.mark.parametrize("format", FORMATS)
def test_nothing_found_is_a_valid_answer(format: str) -> None:
    text = render([], format)
    assert text == "" if format in ("text", "github") else json.loads(text) is not None
