"""Bytes → tree: limits, encodings and positions."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import pytest

from dspec.spec.errors import SpecError
from dspec.spec.nodes import Mapping, Scalar, descend, plain
from dspec.spec.yamltext import MAX_BYTES, parse, read

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9)
)
MERGE_BOMB = "b: &b {" + ", ".join(f"k{n}: 1" for n in range(400)) + "}\nc:\n" + "  - {<<: *b}\n" * 300

HOSTILE: dict[str, tuple[bytes, str]] = {
    "not utf-8": (b"a: 1\nb: \xff\n", "f.yaml:2:4: error E0103: byte 0xff is not UTF-8"),
    "utf-16": ("a: 1".encode("utf-16"), "f.yaml:1:1: error E0103: the file starts with a UTF-16 byte-order mark"),
    "NUL": (b"a: 1\nb: x\x00\n", "f.yaml:2:5: error E0103: the character U+0000 may not stand in YAML"),
    "escape": (b"a: \x1b[2J\n", "f.yaml:1:4: error E0103: the character U+001B"),
    "late byte-order mark": ("a: x\ufeff\n".encode(), "f.yaml:1:5: error E0103: the character U+FEFF"),
    "line separator": ("a: x\u2028y\n".encode(), "f.yaml:1:5: error E0103: the character U+2028 is a line break"),
    "half a character": (b'a: "\\ud800"\n', "f.yaml:1:4: error E0103: the escape stands for half a character"),
    "too large": (b"#" * (MAX_BYTES + 1), f"f.yaml: error E0102: the file has {MAX_BYTES + 1} bytes"),
    "alias bomb": (BOMB.encode(), "f.yaml:4:4: error E0109: the file holds too many values once its aliases"),
    "merge bomb": (MERGE_BOMB.encode(), "error E0109: the file holds too many values once its aliases"),
    "self reference": (b"a: &a [*a]\n", "f.yaml:1:8: error E0109: `*a` contains itself"),
    "deep brackets": (b"[" * 5000, "f.yaml:1:1: error E0109: brackets are nested too deeply"),
    "deep lists": (b"[a, " * 3000, "f.yaml:1:257: error E0109: values are nested too deeply"),
    "deep blocks": ("".join(" " * n + "a:\n" for n in range(300)).encode(), "f.yaml:65:65: error E0109: values are"),
    "many values": (b"a:\n" + b"  - 1\n" * 20_000, "f.yaml:4001:5: error E0109: the file holds too many values"),
    "long tag": (b"!" * 200_000, "f.yaml:1:1: error E0110: a tag of this length"),
    "broken tag": (b"a: !%% x\n", "f.yaml:1:6: error E0104: not YAML: expected URI escape"),
    "tag handle": (b"a: !x!y z\n", "f.yaml:1:4: error E0110: found undefined tag handle"),
    "tab": (b"a:\n\tb: 1\n", "f.yaml:2:1: error E0105: a tab stands where YAML wants spaces"),
    "tab in brackets": (b"a: {b: 1}\n\tc: 2\n", "f.yaml:2:1: error E0105: a tab"),
    "open bracket": (b"a: [1, 2\nb: 3\n", "f.yaml:2:2: error E0104: not YAML: expected ',' or ']', but got ':'"),
    "empty": (b"", "f.yaml:1:1: error E0116: the file is empty"),
    "only comments": (b"# a\n", "f.yaml:1:1: error E0116: the file is empty"),
    "a list": (b"- a\n", "f.yaml:1:1: error E0116: the file is no mapping"),
    "older YAML": (b"%YAML 1.1\n---\na: on\n", "f.yaml:1:1: error E0118: `%YAML 1.1` asks for other rules"),
    "second document": (b"a: 1\n---\nb: 1\n", "f.yaml:2:1: error E0106: a second document starts here"),
    "merge of a text": (b"a: {<<: b}\n", "f.yaml:1:5: error E0115: `<<` merges what is no mapping"),
    "variable in brackets": (b"a: [${B}/c]\n", "f.yaml:1:5: error E0114: `${B}` is not expanded"),
    "variable as a key": (b'"${B}": 1\n', "f.yaml:1:2: error E0114: `${B}` is not expanded"),
    "variable in a block": (b"a: |\n  x\n  ${B}\n", "f.yaml:3:3: error E0114: `${B}` is not expanded"),
    "carriage returns": (b"a: 1\r\nb: 1\r\na: 3\r\n", "f.yaml:3:1: error E0107: `a` stands twice: line 1 and line 3"),
}


@pytest.mark.parametrize(("data", "message"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_files_are_refused_with_their_place(data: bytes, message: str) -> None:
    start = time.perf_counter()
    with pytest.raises(SpecError) as refused:
        parse(data, "f.yaml")
    assert message in str(refused.value)
    assert time.perf_counter() - start < 2  # the aim is 1 s; test machines are shared


@pytest.mark.parametrize("name", ["alias bomb", "merge bomb", "deep lists", "many values"])
def test_hostile_files_take_little_memory(name: str) -> None:
    tracemalloc.start()
    with pytest.raises(SpecError):
        parse(HOSTILE[name][0], "f.yaml")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50_000_000


def _plain(text: str) -> Any:
    return plain(parse(text.encode(), "f.yaml")[1])


def test_merge_keys_yield_to_what_is_written() -> None:
    assert _plain("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: {<<: [*a, {z: 4, x: 9}]}\nd: {'<<': 1}\n") == {
        "a": {"x": 1, "y": 2},
        "b": {"y": 3, "x": 1},
        "c": {"x": 1, "y": 2, "z": 4},
        "d": {"<<": 1},
    }


def test_core_tags_are_read() -> None:
    assert _plain('a: !!str 1.10\nb: !!int "7"\nc: ! 7\nd: !!map {e: !!seq [f]}\n') == {
        "a": "1.10",
        "b": 7,
        "c": "7",
        "d": {"e": ["f"]},
    }


def test_a_byte_order_mark_is_a_warning() -> None:
    found = read(b"\xef\xbb\xbfa: 1\n", "f.yaml")
    assert plain(found.root) == {"a": 1}
    assert str(found.faults[0]).startswith("f.yaml:1:1: warning E0117")


def test_an_anchor_may_be_set_again() -> None:
    assert _plain("a: &x 1\nb: *x\nc: &x 2\nd: *x\n") == {"a": 1, "b": 1, "c": 2, "d": 2}


def test_positions_count_characters() -> None:
    text, root = parse("größe: {日本: [1, 'zwei']}\n".encode(), "f.yaml")
    node = descend(root, ("größe", "日本", 1))
    assert isinstance(node, Scalar)
    assert (node.span.line, node.span.col, node.span.length) == (1, 17, 6)
    assert text.text[node.span.start : node.span.end] == "'zwei'"


def test_block_collections_end_with_their_last_entry() -> None:
    text, root = parse(b"a:\n  - x\n  - y   # note\n\nb: 1\n", "f.yaml")
    node = descend(root, ("a",))
    assert node is not None
    assert (node.span.line, node.span.col) == (2, 3)
    assert isinstance(root, Mapping)
    assert text.line(3) == "  - y   # note"
