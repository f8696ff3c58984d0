"""Diagnostics for people, programs, GitHub and code scanners."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

from dspec.spec.codes import entries
from dspec.spec.errors import Diagnostic

FORMATS = ("text", "json", "github", "sarif")

_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_BOLD, _RED, _YELLOW, _DIM, _RESET = "\033[1m", "\033[31m", "\033[33m", "\033[2m", "\033[0m"
_WIDTH = 120
_LONG_LINE = 2000
_GITHUB = {"note": "notice"}  # GitHub's own word; the other severities are called as ours


def render(diagnostics: Iterable[Diagnostic], format: str, color: bool = False) -> str:
    """The diagnostics as one text without a final line break, in one of FORMATS; `color` counts for `text` only."""
    found = tuple(diagnostics)
    if format == "text":
        return _text(found, color)
    return _FORMATS[format](found)


def _text(found: tuple[Diagnostic, ...], color: bool) -> str:
    return "\n".join(_one(diagnostic, color) for diagnostic in found)


def _one(found: Diagnostic, color: bool) -> str:
    def paint(style: str, text: str) -> str:
        return f"{style}{text}{_RESET}" if color and text else text

    shade = _RED if found.severity == "error" else _YELLOW
    place = ":".join(str(part) for part in (found.file, found.line, found.col) if part)
    head = f"{paint(_BOLD, place + ': ') if place else ''}{paint(shade, f'{found.severity} {found.code}:')}"
    lines = [f"{head} {_clean(found.message)}"]
    if found.excerpt.strip():
        shown, caret = _excerpt(found)
        lines += [f"    {shown}", f"    {paint(shade, caret)}"]
    labels = (("expected", found.expected), ("to do", found.hint))
    lines += [f"  {paint(_DIM, label + ':')} {_clean(text)}" for label, text in labels if text]
    return "\n".join([*lines, *(f"  {_clean(note)}" for note in found.notes)])


def _clean(text: str) -> str:
    """No control characters of a user's file reach a terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _excerpt(found: Diagnostic) -> tuple[str, str]:
    """The line and its caret; a long line is cut around the place."""
    line = found.excerpt
    start = max(0, found.col - 1)
    skip = max(0, start - _WIDTH // 2) if len(line) > _WIDTH else 0
    # Cut first, clean then: a long line may have thousands of findings.
    cut = _clean(line[skip : skip + _WIDTH].replace("\t", " "))
    shown = ("…" if skip else "") + cut + ("…" if len(line) > skip + _WIDTH else "")
    column = start - skip + (1 if skip else 0)
    length = max(1, min(found.length, len(shown) - column))
    pad = "".join("  " if _is_wide(char) else " " for char in shown[:column])
    under = sum(2 if _is_wide(char) else 1 for char in shown[column : column + length])
    return shown, pad + "^" * max(1, under)


def _is_wide(char: str) -> bool:
    return unicodedata.east_asian_width(char) in "WF"


def _json(found: tuple[Diagnostic, ...]) -> str:
    return json.dumps([_short(diagnostic.to_json()) for diagnostic in found], indent=1, ensure_ascii=False)


def _short(found: dict[str, Any]) -> dict[str, Any]:
    """Without the excerpt where that is a line which no one reads, repeated with every finding on it."""
    return found | {"excerpt": ""} if len(found["excerpt"]) > _LONG_LINE else found


def _github(found: tuple[Diagnostic, ...]) -> str:
    """Workflow commands: https://docs.github.com/actions/reference/workflow-commands-for-github-actions."""
    return "\n".join(_command(diagnostic) for diagnostic in found)


def _command(found: Diagnostic) -> str:
    properties = {"file": found.file, "line": found.line, "col": found.col, "title": found.code}
    if found.line:
        properties["endColumn"] = found.col + found.length
    pairs = ",".join(f"{key}={_escaped(str(value), ':,')}" for key, value in properties.items() if value)
    details = [f"expected: {found.expected}" * bool(found.expected), f"to do: {found.hint}" * bool(found.hint)]
    body = "\n".join([found.message, *filter(None, details), *found.notes])
    return f"::{_GITHUB.get(found.severity, found.severity)} {pairs}::{_escaped(body)}"


def _escaped(text: str, more: str = "") -> str:
    for char in "%\r\n" + more:
        text = text.replace(char, f"%{ord(char):02X}")
    return text


def _sarif(found: tuple[Diagnostic, ...]) -> str:
    known = entries()
    codes = sorted({diagnostic.code for diagnostic in found})
    rules = [_rule(code, known.get(code)) for code in codes]
    driver = {"name": "dspec", "rules": rules}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(diagnostic, codes.index(diagnostic.code)) for diagnostic in found],
    }
    return json.dumps({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1, ensure_ascii=False)


def _rule(code: str, entry: Any) -> dict[str, Any]:
    if entry is None:
        return {"id": code}
    return {
        "id": code,
        "shortDescription": {"text": entry.title},
        "fullDescription": {"text": entry.why},
        "help": {"text": entry.fix},
    }


def _result(found: Diagnostic, rule: int) -> dict[str, Any]:
    parts = [found.message, found.expected and f"Expected: {found.expected}.", found.hint and f"To do: {found.hint}"]
    result: dict[str, Any] = {
        "ruleId": found.code,
        "ruleIndex": rule,
        "level": found.severity,
        "message": {"text": "\n".join(part for part in (*parts, *found.notes) if part)},
    }
    if found.file:
        result["locations"] = [{"physicalLocation": _location(found)}]
    return result


def _location(found: Diagnostic) -> dict[str, Any]:
    location: dict[str, Any] = {"artifactLocation": {"uri": _uri(found.file)}}
    if found.line:
        location["region"] = {"startLine": found.line, "startColumn": max(1, found.col),
                              "endColumn": max(1, found.col) + found.length}  # fmt: skip
    return location


def _uri(file: str) -> str:
    return quote(file.replace("\\", "/"))


_FORMATS: dict[str, Callable[[tuple[Diagnostic, ...]], str]] = {"json": _json, "github": _github, "sarif": _sarif}
