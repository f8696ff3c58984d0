"""From a key path of the spec to its place in the file, and so to a diagnostic with excerpt."""

from __future__ import annotations

from collections.abc import Sequence as AnySequence
from dataclasses import dataclass
from typing import Literal

from dspec.spec.errors import Diagnostic, Severity
from dspec.spec.nodes import KeyPath, Mapping, Node, Scalar, Span, Text, child

_UNWRITTEN = ("params", "assets")  # in the typed step; in the file the parameters stand beside `use`


def dotted(path: AnySequence[str | int]) -> str:
    """`preprocess[0].max_length` for people."""
    parts = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return parts.removeprefix(".")


@dataclass(frozen=True)
class SourceMap:
    """The file as written: its text and its tree."""

    file: str
    text: Text
    root: Mapping

    def node(self, path: KeyPath) -> Node | None:
        """What stands at `path`; None where the file does not say it (a default, or an error above it)."""
        found, _, node = self._walk(path)
        return node if found else None

    def _walk(self, path: KeyPath) -> tuple[bool, Scalar | None, Node]:
        """Whether the path exists, the key that leads to its deepest existing part, and that part."""
        node: Node = self.root
        key: Scalar | None = None
        for part in path:
            below = child(node, part)
            if below is None and part in _UNWRITTEN:
                continue
            if below is None:
                return False, key, node
            key = node.items[part][0] if isinstance(node, Mapping) and isinstance(part, str) else None
            node = below
        return True, key, node

    def span(self, path: KeyPath, on: Literal["key", "value"] = "value") -> Span:
        """Where a finding about `path` is shown: its value if that is one line of text, else its key."""
        found, key, node = self._walk(path)
        if isinstance(node, Scalar) and found and on == "value" and node.span.end > node.span.start:
            return node.span
        if key is not None:
            return key.span
        return self.text.span(node.span.start, node.span.start + 1)

    def diagnostic(
        self,
        code: str,
        path: AnySequence[str | int],
        message: str,
        *,
        on: Literal["key", "value"] = "value",
        expected: str = "",
        hint: str = "",
        severity: Severity = "error",
        notes: tuple[str, ...] = (),
    ) -> Diagnostic:
        """A finding about a key path, with its place and excerpt."""
        span = self.span(tuple(path), on)
        return Diagnostic(
            code=code,
            message=message,
            file=self.file,
            line=span.line,
            col=span.col,
            length=span.length,
            key=dotted(path),
            expected=expected,
            hint=hint,
            excerpt=self.text.line(span.line),
            severity=severity,
            notes=notes,
        )
