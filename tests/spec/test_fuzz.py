"""Whatever the bytes, the loader answers with a spec or with diagnostics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dspec.spec.catalogue import Catalogue
from dspec.spec.errors import Diagnostic, DspecError
from dspec.spec.load import load
from dspec.spec.render import FORMATS, render

WHOLE = (Path(__file__).parent / "whole.yaml").read_text("utf-8")
TOKENS = ["null", "~", "[]", "{}", "[a, b]", "{a: b}", "-1", "0", "1.5", "1e400", ".nan", "true", "''", '"x"', "*a", "&a ",
          "<<: ", "${X}", "017", "2**3", "- ", ": ", "\t", "\n", "!!str ", "---\n", "#", "'", '"', "{", "]", ",", "\\", "é",
          "\u2028", "\ufeff", "\x00", "batch", "x", "../a", "9" * 30, "from", "in", "use"]  # fmt: skip
BOUNDED = settings(derandomize=True, database=None, deadline=None, max_examples=120,
                   suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip


@pytest.fixture
def path(folder: Path) -> Path:
    return folder / "deploy.yaml"


def _answered(path: Path, data: bytes, toy: Catalogue) -> None:
    path.write_bytes(data)
    found: tuple[Diagnostic, ...] = ()
    try:
        load(path, toy)
    except DspecError as error:
        found = error.diagnostics
    for format in FORMATS:
        assert bool(render(found, format)) >= bool(found)
    assert all(one.line for one in found if one.code != "E0102")


@given(data=st.binary(max_size=200))
@BOUNDED
def test_any_bytes(path: Path, toy: Catalogue, data: bytes) -> None:
    _answered(path, data, toy)


@st.composite
def _mangled(draw: st.DrawFn) -> str:
    """A whole spec with some pieces cut out and others put in."""
    text = WHOLE
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from([0, 0, 1, 2, 5, 20])))
        text = text[:start] + draw(st.sampled_from(TOKENS)) + text[end:]
    return text


@given(text=_mangled())
@BOUNDED
def test_a_mangled_spec(path: Path, toy: Catalogue, text: str) -> None:
    _answered(path, text.encode(), toy)


VALUES: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 300)
    | st.sampled_from([1.5, "x", "batch", "a.py:b", "p95", "text", ""]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["x", "use", "path", "min"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from _places(inner, (*path, key))


@given(data=st.data())
@BOUNDED
def test_a_spec_with_values_of_other_types(path: Path, toy: Catalogue, data: st.DataObject) -> None:
    import json

    from dspec.spec.nodes import plain
    from dspec.spec.yamltext import parse

    spec = plain(parse(WHOLE.encode(), "whole.yaml")[1])
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from([found for found in _places(spec) if found]))
        holder = spec
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = data.draw(VALUES)
    _answered(path, json.dumps(spec).encode(), toy)


def test_the_whole_spec_is_right(path: Path, toy: Catalogue) -> None:
    path.write_text(WHOLE)
    assert load(path, toy).warnings == ()
