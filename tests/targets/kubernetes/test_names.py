"""Names and amounts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspec.targets.kubernetes.names import LONGEST_NAME, label_value, object_name
from dspec.targets.kubernetes.quantities import UNITS, quantity

DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")  # of a Service, and of an InferenceService (KServe's IsvcNameFmt)
LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("minilm-embedder-service", "minilm-embedder-service"),
        ("a", "a"),
        ("MiniLM", "minilm-"),
        ("mini.lm", "mini-lm-"),
        ("mini_lm", "mini-lm-"),
        ("3d-net", "m-3d-net-"),
        ("-", "m-"),
        ("", "m-"),
        ("größe", "gr-e-"),
        ("x" * 46, "x" * 46),
        ("x" * 80, "x" * 39 + "-"),
        ("x" * 38 + "-" * 3 + "y" * 40, "x" * 38 + "-"),
    ],
)
def test_names_of_objects(text: str, name: str) -> None:
    found = object_name(text)
    digits = found.removeprefix(name)
    assert found.startswith(name)
    assert re.fullmatch(r"([0-9a-f]{6})?", digits), found
    assert bool(digits) == (text != name)


@pytest.mark.parametrize(
    ("text", "value"), [("3", "3"), ("1.0+cpu", "1.0-cpu-"), ("_x", "x-"), ("A.b_c-d", "A.b_c-d"), ("+", "m-")]
)
def test_values_of_labels(text: str, value: str) -> None:
    assert label_value(text).startswith(value)
    assert (label_value(text) == text) == (value == text)


@given(st.text(max_size=100))
def test_any_text_becomes_a_name(text: str) -> None:
    assert DNS_1035.fullmatch(object_name(text))
    assert len(object_name(text)) <= LONGEST_NAME
    assert LABEL.fullmatch(label_value(text))
    assert len(label_value(text)) <= 63


def test_names_that_would_become_one_stay_apart() -> None:
    texts = ("a-b", "A-b", "a.b", "a_b", "a--b", "x" * 80 + "1", "x" * 80 + "2")
    assert len({object_name(text) for text in texts}) == len(texts)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (2 << 30, "2Gi"),
        (512 << 20, "512Mi"),
        (1_500_000_000, "1500M"),
        (2_000_000_000, "2G"),
        (1024, "1Ki"),
        (1_000_001, "1000001"),
        (1, "1"),
        (1536 << 20, "1536Mi"),
    ],
)
def test_amounts_of_memory(size: int, text: str) -> None:
    assert quantity(size) == text


@given(st.integers(1, 1 << 50))
def test_amounts_lose_nothing(size: int) -> None:
    number, unit = re.fullmatch(r"(\d+)(\D*)", quantity(size)).groups()  # type: ignore[union-attr]
    assert int(number) * dict(UNITS).get(unit, 1) == size
