"""Bytes → positioned tree, by YAML 1.2 core rules, within limits that hold against hostile files.

ruamel.yaml finds the events; the tree is built here without recursion, and what a scalar stands for is decided in
`scalars`. Nothing in a file can construct an object, name a class or read the environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from dspec.spec.errors import Diagnostic, SpecError
from dspec.spec.nodes import Mapping, Text
from dspec.spec.treebuilder import RejectedError, TreeBuilder, variable

MAX_BYTES = 256 * 1024  # ruamel's scanner needs about 2 s for a megabyte; the limit keeps `check` below one
MAX_TAG = 256
MAX_FAULTS = 200

_UNREADABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f\ufeff\ufffe\uffff\ud800-\udfff]")
_OTHER_BREAKS = re.compile("[\x85\u2028\u2029]")  # ruamel counts them as line breaks, YAML 1.2 does not
_LONG_TAG = re.compile(rf"![^\s,\[\]{{}}]{{{MAX_TAG}}}")
_DEEP_FLOW = re.compile(r"(?:[\[{]\s*){65}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Parsed:
    """A text that could be read to its end.

    Attributes:
        faults: what is wrong in it all the same (equal keys, `${VAR}`, `017`), and warnings.
        guessed: places (line, col) of scalars whose value is a guess because of a fault; what is found there later counts
            for nothing.
    """

    text: Text
    root: Mapping
    faults: tuple[Diagnostic, ...]
    guessed: frozenset[tuple[int, int]]


def read(data: bytes, file: str) -> Parsed:
    """The text and its top mapping; raises SpecError, with all faults so far, where nothing after it can be read."""
    text, warnings = decode(data, file)
    builder = TreeBuilder(text)
    root = None
    try:
        _precheck(text)
        for event in _events(text.text):
            builder.add(event)
            _refuse_many(builder)
        root = builder.finish()
    except RejectedError as rejected:
        builder.faults.append(rejected)
    faults = in_order([*warnings, *(fault.diagnostic(text, file) for fault in builder.faults)])
    if root is None:
        raise SpecError(faults)
    places = (text.span(start, start) for start in builder.guessed)
    guessed = frozenset((place.line, place.col) for place in places)
    return Parsed(text=text, root=root, faults=tuple(faults), guessed=guessed)


def _refuse_many(builder: TreeBuilder) -> None:
    if len(builder.faults) > MAX_FAULTS:
        last = builder.faults[-1]
        raise RejectedError("E0901", f"more than {MAX_FAULTS} faults: the rest of the file is not read", last.start,
                            last.end, "a file with fewer faults", "correct these, then check again")  # fmt: skip


def parse(data: bytes, file: str) -> tuple[Text, Mapping]:
    """The text and its top mapping; raises SpecError with every fault of the YAML."""
    found = read(data, file)
    if any(fault.severity == "error" for fault in found.faults):
        raise SpecError(found.faults)
    return found.text, found.root


def in_order(found: list[Diagnostic]) -> list[Diagnostic]:
    """Diagnostics by line, each once."""
    return sorted(dict.fromkeys(found), key=lambda one: (one.line, one.col, one.code))


def decode(data: bytes, file: str) -> tuple[Text, tuple[Diagnostic, ...]]:
    """UTF-8 → text; raises SpecError for a file too large, or not UTF-8."""
    if len(data) > MAX_BYTES:
        raise SpecError.of(
            "E0102",
            f"the file has {len(data)} bytes",
            file=file,
            expected=f"at most {MAX_BYTES} bytes",
            hint="keep data in files of their own and name them here",
        )
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _encoding("the file starts with a UTF-16 byte-order mark", file, Text(""), 0)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = Text(data[: error.start].decode("utf-8") + "?")
        byte = data[error.start]
        raise _encoding(f"byte 0x{byte:02x} is not UTF-8", file, before, len(before.text) - 1) from error
    if not text.startswith("\ufeff"):
        return Text(text), ()
    return Text(" " + text[1:]), (_bom(file),)


def _encoding(message: str, file: str, text: Text, offset: int) -> SpecError:
    return RejectedError("E0103", message, offset, offset + 1, "UTF-8 text", "save the file as UTF-8").raised(
        text, file
    )


def _bom(file: str) -> Diagnostic:
    return Diagnostic(
        code="E0117",
        message="the file starts with a byte-order mark",
        file=file,
        line=1,
        col=1,
        hint="save it as UTF-8 without a byte-order mark; some tools stumble over it",
        severity="warning",
    )


def _precheck(text: Text) -> None:
    if found := _UNREADABLE.search(text.text):
        name = f"U+{ord(found[0]):04X}"
        raise RejectedError(
            "E0103", f"the character {name} may not stand in YAML", *found.span(), "printable text",
            "remove it, or write it as an escape in double quotes",
        )  # fmt: skip
    if found := _OTHER_BREAKS.search(text.text):
        name = f"U+{ord(found[0]):04X}"
        raise RejectedError(
            "E0103", f"the character {name} is a line break to some readers and not to others", *found.span(),
            "ordinary line breaks", "replace it by a space, or by an escape in double quotes",
        )  # fmt: skip
    if found := _LONG_TAG.search(text.text):
        raise RejectedError("E0110", "a tag of this length", *found.span(), "no tags", "remove the tag")
    if found := _DEEP_FLOW.search(text.text):
        raise RejectedError("E0109", "brackets are nested too deeply", *found.span(), "at most 64 levels", "flatten it")


def _events(text: str) -> Iterator[Any]:
    try:
        yield from YAML(typ="safe", pure=True).parse(text)
    except MarkedYAMLError as error:
        raise _syntax(error, text) from error
    except YAMLError as error:
        raise RejectedError("E0104", f"not YAML: {error}", 0, 1, "YAML 1.2", "correct the file") from error
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, AssertionError) as error:
        # ruamel 0.19 lets these escape for malformed escapes in tags (`!%%`) and cut-off directives.
        raise RejectedError("E0104", f"not YAML: {error}", 0, 1, "YAML 1.2", "correct the file") from error


def _syntax(error: MarkedYAMLError, text: str) -> RejectedError:
    mark = error.problem_mark or error.context_mark
    offset = min(mark.index, len(text)) if mark else 0
    problem = (error.problem or error.context or "not YAML").replace("\n", " ")
    context = f" ({error.context.strip()})" if error.context and error.problem else ""
    if text[offset : offset + 1] == "\t":
        return RejectedError(
            "E0105", "a tab stands where YAML wants spaces", offset, offset + 1, "spaces", "indent with spaces"
        )
    if text[offset - 1 : offset + 1] == "${" or text[offset : offset + 2] == "${":
        return variable(text, text.rindex("$", 0, offset + 1))  # `${` opens a mapping inside brackets
    if "undefined tag handle" in problem:
        return RejectedError("E0110", problem, offset, offset + 1, "no tags", "quote a value that starts with `!`")
    return RejectedError("E0104", f"not YAML: {problem}{context}", offset, offset + 1, "YAML 1.2", _advice(problem))


def _advice(problem: str) -> str:
    if "mapping values are not allowed" in problem:
        return "quote the text before or after the second `: `, or correct the indentation"
    if "cannot start any token" in problem:
        return "quote a text that starts with this character"
    if "expected ',' or" in problem:
        return "close the bracket, or put a comma between the entries"
    return "correct the line, or quote its text"
