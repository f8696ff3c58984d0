"""YAML events → tree, one event at a time: anchors, merge keys, duplicate keys and limits."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import events

from dspec.spec.errors import Diagnostic, SpecError
from dspec.spec.nodes import Mapping, Node, Scalar, Sequence, Span, Text
from dspec.spec.scalars import ScalarError, resolve

MAX_DEPTH = 64
MAX_NODES = 4_000  # after aliases are expanded

_VARIABLE = re.compile(r"\$\{\s*([^}:\s]*)[^}]*\}?")
_SURROGATE = re.compile("[\ud800-\udfff]")
_CORE_TAGS = "tag:yaml.org,2002:"


class RejectedError(Exception):
    """A fault of the YAML text, between two offsets."""

    def __init__(self, code: str, message: str, start: int, end: int, expected: str, hint: str) -> None:
        super().__init__(message)
        self.code, self.message, self.start, self.end = code, message, start, end
        self.expected, self.hint = expected, hint

    def diagnostic(self, text: Text, file: str) -> Diagnostic:
        span = text.span(self.start, self.end)
        return Diagnostic(
            code=self.code,
            message=self.message,
            file=file,
            line=span.line,
            col=span.col,
            length=span.length,
            expected=self.expected,
            hint=self.hint,
            excerpt=text.line(span.line),
        )

    def raised(self, text: Text, file: str) -> SpecError:
        return SpecError(self.diagnostic(text, file))


def variable(text: str, start: int) -> RejectedError:
    """The fault of a `${VAR}` that stands at an offset."""
    found = _VARIABLE.match(text, start)
    shown, name = (found[0], found[1]) if found else ("${…}", "…")
    return RejectedError(
        "E0114",
        f"`{shown[:60]}` is not expanded: the spec does not read the environment variable {name[:60]}",
        start,
        start + len(shown),
        "the value itself",
        "write the value, or have a tool write the file before dspec reads it; what the spec says is what is proved",
    )


@dataclass
class _Frame:
    """A collection that is still open."""

    event: Any
    start: int
    children: list[Node] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)


class TreeBuilder:
    """Feed it events with `add`, then `finish`; `faults` collects what does not stop the reading."""

    def __init__(self, text: Text) -> None:
        self.faults: list[RejectedError] = []
        self.guessed: set[int] = set()  # where scalars start whose value is a guess
        self._text = text
        self._stack: list[_Frame] = []
        self._anchors: dict[str, Node | None] = {}
        self._root: Node | None = None
        self._documents = 0
        self._count = 0

    def add(self, event: Any) -> None:
        match event:
            case events.DocumentStartEvent():
                self._document(event)
            case events.ScalarEvent():
                self._put(self._scalar(event), event.anchor)
            case events.AliasEvent():
                self._put(self._alias(event), None)
            case events.MappingStartEvent() | events.SequenceStartEvent():
                self._open(event)
            case events.MappingEndEvent():
                self._close(self._mapping, event)
            case events.SequenceEndEvent():
                self._close(self._sequence, event)

    def finish(self) -> Mapping | None:
        """The top mapping; None (with a fault) where the document is empty or something else."""
        if isinstance(self._root, Mapping):
            return self._root
        empty = self._root is None or (isinstance(self._root, Scalar) and self._root.value is None)
        found = "the file is empty" if empty else "the file is no mapping"
        self._fault("E0116", found, self._root.span if self._root else self._text.span(0, 1),
                    "keys with values: apiVersion, name, model …", "`dspec init` writes a starter")  # fmt: skip
        return None

    def _fault(self, code: str, message: str, span: Span, expected: str, hint: str) -> None:
        self.faults.append(RejectedError(code, message, span.start, span.end, expected, hint))

    def _document(self, event: Any) -> None:
        self._documents += 1
        start, end = event.start_mark.index, event.end_mark.index
        if self._documents > 1:
            raise RejectedError("E0106", "a second document starts here", start, end, "one document",
                           "put it into a file of its own, or remove the `---`")  # fmt: skip
        if event.version not in (None, (1, 2)):
            found = ".".join(map(str, event.version))
            raise RejectedError(
                "E0118", f"`%YAML {found}` asks for other rules", 0, 1, "YAML 1.2", "remove the directive"
            )

    def _scalar(self, event: Any) -> Scalar:
        span = self._text.span(event.start_mark.index, event.end_mark.index)
        quoted = event.style not in (None, "")
        tag = self._tag(event, ("str", "int", "float", "bool", "null"))
        written = event.value
        self._refuse_variable(written, event)
        if _SURROGATE.search(written):
            self._fault("E0103", "the escape stands for half a character (a surrogate)", span, "whole characters",
                        "write the character itself")  # fmt: skip
            written = _SURROGATE.sub("?", written)
        value: Any = written
        if tag not in ("str", "!") and not (quoted and tag is None):
            try:
                value = resolve(written)
            except ScalarError as error:
                self._fault(error.code, error.message, span, error.expected, error.hint)
                self.guessed.add(span.start)
                value = 1
        return Scalar(span=span, value=value, written=written, plain=not quoted)

    def _tag(self, event: Any, known: tuple[str, ...]) -> str | None:
        tag = str(event.tag) if event.tag is not None else None
        if tag is None or tag == "!":
            return tag
        name = tag.removeprefix(_CORE_TAGS)
        if name not in known:
            start = event.start_mark.index
            self.faults.append(RejectedError("E0110", f"the tag `{tag[:60]}` is not accepted", start, event.end_mark.index,
                                        "plain values", "remove the tag; nothing in the file can make objects"))  # fmt: skip
            return "str"
        return name

    def _refuse_variable(self, written: str, event: Any) -> None:
        if _VARIABLE.search(written):
            start, end = event.start_mark.index, event.end_mark.index
            self.guessed.add(start)
            self.faults.append(variable(self._text.text, max(start, self._text.text.find("${", start, end))))

    def _alias(self, event: Any) -> Node:
        start, end, name = event.start_mark.index, event.end_mark.index, event.anchor
        if name not in self._anchors:
            raise RejectedError("E0108", f"`*{name}` refers to no anchor", start, end,
                           f"an earlier `&{name}`", "define it above, or quote a text that starts with `*`")  # fmt: skip
        node = self._anchors[name]
        if node is None:
            raise RejectedError(
                "E0109", f"`*{name}` contains itself", start, end, "a finite value", "write the value out"
            )
        return node

    def _open(self, event: Any) -> None:
        if len(self._stack) >= MAX_DEPTH:
            raise RejectedError("E0109", "values are nested too deeply", event.start_mark.index, event.end_mark.index,
                           f"at most {MAX_DEPTH} levels", "flatten it")  # fmt: skip
        if event.anchor:
            self._anchors[event.anchor] = None
        self._stack.append(_Frame(event, event.start_mark.index))

    def _close(self, build: Any, event: Any) -> None:
        frame = self._stack.pop()
        ends = [node.span.end for node, at in zip(frame.children, frame.starts, strict=True) if at >= frame.start]
        end = event.end_mark.index if frame.event.flow_style else max([frame.start + 1, *ends])
        self._put(build(frame, self._text.span(frame.start, end)), frame.event.anchor)

    def _put(self, node: Node, anchor: str | None) -> None:
        self._count += 1
        self._refuse_excess(node)
        if anchor:
            self._anchors[anchor] = node
        if self._stack:
            self._stack[-1].children.append(node)
            self._stack[-1].starts.append(node.span.start)
        else:
            self._root = node

    def _refuse_excess(self, node: Node) -> None:
        if node.size > MAX_NODES or self._count > MAX_NODES:
            raise RejectedError("E0109", "the file holds too many values once its aliases are expanded", node.span.start,
                           node.span.end, f"at most {MAX_NODES}", "keep data in files of their own")  # fmt: skip

    def _sequence(self, frame: _Frame, span: Span) -> Sequence:
        self._tag(frame.event, ("seq",))
        size = 1 + sum(node.size for node in frame.children)
        return Sequence(span=span, items=tuple(frame.children), flow=bool(frame.event.flow_style), size=size)

    def _mapping(self, frame: _Frame, span: Span) -> Mapping:
        self._tag(frame.event, ("map",))
        own: dict[str, tuple[Scalar, Node]] = {}
        merged: dict[str, tuple[Scalar, Node]] = {}
        for key, value in zip(frame.children[::2], frame.children[1::2], strict=True):
            if isinstance(key, Scalar) and key.plain and key.written == "<<":
                self._merge(merged, key, value)
            elif (name := self._key(key)) is not None:
                self._add(own, name, key, value)
        items = own | {name: entry for name, entry in merged.items() if name not in own}
        size = 1 + sum(1 + value.size for _, value in items.values())
        return Mapping(span=span, items=items, flow=bool(frame.event.flow_style), size=size)

    def _key(self, key: Node) -> str | None:
        if isinstance(key, Scalar) and isinstance(key.value, str):
            return key.value
        shown = f"`{key.written}`" if isinstance(key, Scalar) else "a collection"
        hint = f'quote it: "{key.written}"' if isinstance(key, Scalar) else "use a text as key"
        self._fault("E0111", f"the key {shown} is no text", key.span, "a text", hint)
        return None

    def _add(self, own: dict[str, tuple[Scalar, Node]], name: str, key: Node, value: Node) -> None:
        assert isinstance(key, Scalar)
        if name in own:
            first = own[name][0].span.line
            self._fault("E0107", f"`{name}` stands twice: line {first} and line {key.span.line}", key.span,
                        "each key once", "remove one of them")  # fmt: skip
            return
        own[name] = (key, value)

    def _merge(self, merged: dict[str, tuple[Scalar, Node]], key: Scalar, value: Node) -> None:
        sources = value.items if isinstance(value, Sequence) else (value,)
        if not all(isinstance(source, Mapping) for source in sources):
            self._fault("E0115", "`<<` merges what is no mapping", key.span, "`<<: *anchor` of a mapping",
                        "name a mapping, or quote the key")  # fmt: skip
            return
        for source in sources:
            assert isinstance(source, Mapping)
            self._count += source.size
            self._refuse_excess(key)
            for name, entry in source.items.items():
                merged.setdefault(name, entry)
