"""Expressions over dims."""

from __future__ import annotations

import pytest

from dspec.spec.dims import ExpressionError, evaluate, is_name, names

SIZES = {"batch": 3, "seq": 7, "h": 5}


@pytest.mark.parametrize(
    ("expression", "value"),
    [("seq//2", 3), ("2*batch", 6), ("(h+1)//2", 3), ("seq % 4 - 1", 2), ("batch", 3), (12, 12), (" seq ", 7)],
)
def test_evaluates(expression: str | int, value: int) -> None:
    assert evaluate(expression, SIZES) == value


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("seq/2", "write `//`"),
        ("2**batch", "only dims, whole numbers"),
        ("__import__('os')", "only dims, whole numbers"),
        ("seq.real", "only dims, whole numbers"),
        ("1.5*seq", "only dims, whole numbers"),
        ("True+seq", "only dims, whole numbers"),
        ("seq +", "no expression over dims"),
        ("", "no expression over dims"),
        ("(" * 90 + "h" + ")" * 90 + "+" + "h" * 30, "an expression of 212 characters"),
        ("wide", "no size for wide"),
        ("seq//(batch-3)", "division by zero"),
        ("*".join(["9999999999"] * 9), "beyond 64 bits"),
    ],
)
def test_refuses_in_words(expression: str, reason: str) -> None:
    with pytest.raises(ExpressionError, match=reason.replace("(", r"\(")):
        evaluate(expression, SIZES)


def test_names_come_in_order_and_once() -> None:
    assert names("(seq+batch)//seq") == ("seq", "batch")
    assert names(5) == ()
    assert names("d.b") == ("d.b",)
    assert evaluate("d.b", {"d.b": 4}) == 4


@pytest.mark.parametrize(
    ("size", "is_one"), [("batch", True), ("d.b", True), ("seq//2", False), (3, False), ("2x", False)]
)
def test_is_name(size: str | int, is_one: bool) -> None:
    assert is_name(size) is is_one
