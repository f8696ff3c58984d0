"""The positioned tree that a YAML text becomes: values, and where each of them stands."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]

_BREAK = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """Where something stands: `start` and `end` are offsets in characters, `line` and `col` count from 1."""

    start: int
    end: int
    line: int
    col: int

    @property
    def length(self) -> int:
        return max(1, self.end - self.start)


@dataclass(frozen=True)
class Text:
    """A decoded file with its table of lines."""

    text: str

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(found.end() for found in _BREAK.finditer(self.text))]

    def span(self, start: int, end: int) -> Span:
        """The span of two offsets; what goes past the first line is cut off, so that a caret can underline it."""
        line = bisect.bisect_right(self._starts, start)
        first = self._starts[line - 1]
        stop = first + len(self.line(line))
        return Span(start=start, end=max(start, min(end, stop)), line=line, col=start - first + 1)

    @cached_property
    def _lines(self) -> dict[int, str]:
        return {}

    def line(self, number: int) -> str:
        """The text of a line, from 1, without its break. One object per line: thousands of findings may share it."""
        if number not in self._lines:
            self._lines[number] = self._cut(number)
        return self._lines[number]

    def _cut(self, number: int) -> str:
        if not 1 <= number <= len(self._starts):
            return ""
        end = self._starts[number] if number < len(self._starts) else len(self.text)
        return self.text[self._starts[number - 1] : end].rstrip("\r\n")


@dataclass(frozen=True, kw_only=True, slots=True)
class Scalar:
    """`value` is None, bool, int, float or str; `written` is what the file says, without quotes."""

    span: Span
    value: Any
    written: str
    plain: bool
    size: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Sequence:
    span: Span
    items: tuple[Node, ...]
    flow: bool
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Mapping:
    """Keys are texts; merge keys are already resolved, so `items` may hold nodes of another place in the file."""

    span: Span
    items: dict[str, tuple[Scalar, Node]]
    flow: bool
    size: int

    def get(self, key: str) -> Node | None:
        found = self.items.get(key)
        return found[1] if found else None


Node: TypeAlias = Scalar | Sequence | Mapping


def plain(node: Node | None) -> Any:
    """The tree as None, bool, int, float, str, list and dict."""
    match node:
        case None:
            return None
        case Scalar():
            return node.value
        case Sequence():
            return [plain(item) for item in node.items]
        case Mapping():
            return {key: plain(value) for key, (_, value) in node.items.items()}


def child(node: Node | None, key: str | int) -> Node | None:
    """The node below `key`, or None where there is none."""
    if isinstance(node, Mapping) and isinstance(key, str):
        return node.get(key)
    if isinstance(node, Sequence) and isinstance(key, int) and 0 <= key < len(node.items):
        return node.items[key]
    return None


def descend(node: Node | None, path: KeyPath) -> Node | None:
    """The node at the end of `path`, or None."""
    for key in path:
        node = child(node, key)
    return node
