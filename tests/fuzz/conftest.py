"""What the fuzz tests share: the budget, values that readers do not expect, and ways to spoil a right document.

DSPEC_FUZZ_EXAMPLES sets the examples per test (default 60): 5000 is a night's run.
"""

from __future__ import annotations

import copy
import json
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

settings.register_profile(
    "dspec-fuzz",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=int(os.environ.get("DSPEC_FUZZ_EXAMPLES", "60")),
    suppress_health_check=list(HealthCheck),
)

DEEP = "[" * 5000 + "]" * 5000
ODD: Any = st.sampled_from([
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, -(10**30), 1.5, 1e308, float("nan"), float("inf"), "", "x", "x" * 5000,
    "\0", "\ud800", "../../etc/passwd", "/etc/passwd", "..", ".", "a\\b", "é" * 300, "nan", "float32", "object", "O", "f4,f4",
    "(9999999,9999999)f8", [], {}, [[]], [-1], [-2, -2], [0, 10**30], [10**9, 10**9], [True], [1.5], ["x"], {"x": 1},
    {"$array": [0, "<f4", [1]]}, {"$bytes": 0}, [[[[[[[[[[1]]]]]]]]]],
])  # fmt: skip
JSON: Any = st.recursive(
    ODD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place below a JSON value, as keys and indices."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield (*path, key)
        yield from places(inner, (*path, key))


def spoil(data: st.DataObject, value: Any) -> Any:
    """A copy with one to three places deleted, doubled, exchanged, renamed or replaced by something odd."""
    spoilt = copy.deepcopy(value)
    for _ in range(data.draw(st.integers(1, 3))):
        every = list(places(spoilt))
        if every:
            _spoil_at(data, spoilt, data.draw(st.sampled_from(every)))
    return spoilt


def _spoil_at(data: st.DataObject, value: Any, place: tuple[Any, ...]) -> None:
    holder = value
    for key in place[:-1]:
        holder = holder[key]
    key = place[-1]
    match data.draw(st.sampled_from(["replace", "replace", "delete", "double", "rename"])):
        case "replace":
            holder[key] = copy.deepcopy(data.draw(JSON))  # what is spoilt next is not the sample itself
        case "delete":
            del holder[key]
        case "double" if isinstance(holder, list):
            holder.insert(key, holder[key])
        case "rename" if isinstance(holder, dict):
            holder[data.draw(st.sampled_from(["", "x", key + "s", "..", "\ud800"]))] = holder.pop(key)


def spoil_bytes(data: st.DataObject, content: bytes) -> bytes:
    """A copy with some bytes cut out and others put in."""
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        end = min(len(content), start + data.draw(st.sampled_from([0, 1, 1, 4, 50])))
        content = (
            content[:start]
            + data.draw(st.binary(max_size=6) | st.sampled_from([b"NaN", b"1e999", b"\xff"]))
            + content[end:]
        )
    return content


def dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.fixture(scope="session")
def spoiler() -> Callable[..., bytes]:
    """(data, right value) → bytes of a document that is spoilt as a tree or as a text."""

    def make(data: st.DataObject, value: Any) -> bytes:
        match data.draw(st.sampled_from(["tree", "tree", "tree", "bytes", "odd", "deep"])):
            case "tree":
                return dumped(spoil(data, value))
            case "bytes":
                return spoil_bytes(data, dumped(value))
            case "odd":
                return dumped(data.draw(JSON))
        return b'{"x": ' + DEEP.encode() + b"}"

    return make


@pytest.fixture(autouse=True)
def _memory() -> Iterator[None]:
    """No reader may take memory that a header only announces: what is asked for beyond 6 GiB more is refused."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + 6 * 2**30, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
