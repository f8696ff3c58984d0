"""Verdicts over quality: a table of limits and figures."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest

from dspec.compiler.judge import judge, publishable
from dspec.spec.models import Spec
from dspec.spec.records import GateVerdict, Interface, Measurement

TODAY = datetime.date(2026, 11, 30)
TENSORS = {"inputs": {"x": {"dtype": "float32", "shape": [4]}}, "outputs": {"y": {"dtype": "float32", "shape": [2]}}}
ACCURACY = {"metric": "accuracy", "of": "label", "n": 200, "value": 0.95, "low": 0.92, "high": 0.97, "reference": 0.96}
ERROR = {
    "metric": "mean_absolute_error",
    "of": "pitch",
    "n": 9,
    "value": 3.0,
    "low": 2.0,
    "high": 4.0,
    "reference": 2.9,
}
TOP = {"metric": "top_k", "of": "classes", "k": 5, "n": 8, "value": 1.0, "low": 0.75, "high": 1.0, "reference": 1.0}


def _spec(quality: list[dict[str, Any]]) -> Spec:
    body = {
        "apiVersion": "dspec/v1alpha1",
        "name": "demo",
        "model": {"factory": "model.py:build", **TENSORS},
        "fixtures": [{"file": "f.jsonl"}],
        "targets": {"t": {"runtime": "onnxruntime"}},
        "quality": quality,
    }
    return Spec.model_validate_json(json.dumps(body))


def _measurement(figures: list[dict[str, Any]] | None, **changes: Any) -> Measurement:
    body = {
        "artifact": "a" * 64,
        "reference": "b" * 64,
        "target": "t",
        "candidate": "onnxruntime/onnxruntime/fp32",
        "machine": {"os": "linux", "arch": "x86_64", "cpu": "c", "flags": ["f"], "cores": 1},
        "versions": {},
        "source": "reference",
        "quality": None if figures is None else {"figures": figures, "fixtures": 210, "labelled": 200},
    }
    return Measurement.model_validate_json(json.dumps(body | changes))


def _verdict(quality: list[dict[str, Any]], measurement: Measurement) -> GateVerdict:
    interface = Interface.model_validate_json(json.dumps(TENSORS))
    found = judge(_spec(quality), "t", interface, (measurement,), TODAY)
    return next(one for one in found if one.gate == "quality")


def _asked(figure: dict[str, Any], **limits: Any) -> dict[str, Any]:
    return {key: figure[key] for key in ("metric", "of", "k") if key in figure} | limits


CASES = [
    (
        ACCURACY,
        {"min": 0.9},
        "pass",
        "label accuracy: 0.95, 95 % bounds [0.92, 0.97] over 200 fixtures, limit ≥ 0.9: pass",
    ),
    (ACCURACY, {"min": 0.92}, "pass", "limit ≥ 0.92: pass"),
    (ACCURACY, {"min": 0.94}, "inconclusive", "the interval straddles the limit: label more fixtures"),
    (ACCURACY, {"min": 0.97}, "inconclusive", "inconclusive"),
    (ACCURACY, {"min": 0.98}, "fail", "limit ≥ 0.98: fail"),
    (
        ACCURACY,
        {"max_loss": 0.01},
        "pass",
        "loss against PyTorch 0.01 on the same 200 fixtures, 3 of which count otherwise",
    ),
    (ACCURACY, {"max_loss": 0.009}, "fail", "limit ≤ 0.009 (exact, no interval): fail"),
    (ACCURACY, {"max_loss": 0.009}, "fail", "label accuracy: worse than with PyTorch: f:7, f:9"),
    (ACCURACY, {"min": 0.9, "max_loss": 0.0}, "fail", "loss against PyTorch 0.01"),
    (ACCURACY, {"min": 0.95, "max_loss": 0.5}, "inconclusive", "(exact, no interval): pass"),
    (ACCURACY, {}, "not asked", "label accuracy: furthest from the label: f:9"),
    (ERROR, {"max": 4.0}, "pass", "pitch mean_absolute_error: 3, 95 % bounds [2, 4] over 9 fixtures, limit ≤ 4: pass"),
    (ERROR, {"max": 3.5}, "inconclusive", "limit ≤ 3.5: inconclusive"),
    (ERROR, {"max": 1.9}, "fail", "limit ≤ 1.9: fail"),
    (ERROR, {"max_loss": 0.1}, "pass", "loss against PyTorch 0.1"),
    (ERROR, {"max_loss": 0.05}, "fail", "limit ≤ 0.05"),
    (ERROR | {"low": None, "high": None}, {"max": 100.0}, "inconclusive", "95 % bounds [?, ?]"),
    (ERROR | {"value": 2.0}, {"max_loss": 0.0}, "pass", "loss against PyTorch -0.9"),
    (TOP, {"min": 0.9}, "inconclusive", "classes top_5: 1, 95 % bounds [0.75, 1]"),
    (TOP, {"max_loss": 0.0}, "pass", "loss against PyTorch 0 "),
    (
        ACCURACY | {"value": None, "broken": "f:2: it holds NaN"},
        {"min": 0.1},
        "fail",
        "label accuracy: f:2: it holds NaN",
    ),
    (ACCURACY | {"value": None, "broken": "f:2: it holds NaN"}, {}, "not asked", "label accuracy: f:2: it holds NaN"),
]


@pytest.mark.parametrize(("figure", "limits", "verdict", "words"), CASES)
def test_verdicts(figure: dict[str, Any], limits: dict[str, Any], verdict: str, words: str) -> None:
    named = figure | {"changed": 3, "lost": ["f:7", "f:9"], "missed": ["f:9"]}
    found = _verdict([_asked(figure, **limits)], _measurement([named]))
    assert found.verdict == verdict
    assert words in "\n".join(found.detail)
    assert found.detail[0] == "200 of 210 fixtures have a label, over the whole reference"


def test_the_worst_entry_counts_and_each_shows_its_limit() -> None:
    asked = [_asked(ACCURACY, min=0.9), _asked(ERROR, max=1.0), _asked(TOP)]
    found = _verdict(asked, _measurement([ACCURACY, ERROR, TOP]))
    assert found.verdict == "fail"
    assert found.limit == "label accuracy ≥ 0.9; pitch mean_absolute_error ≤ 1; classes top_5 no limit"
    assert found.measured == (
        "label accuracy 0.95 (PyTorch 0.96, n 200); pitch mean_absolute_error 3 (PyTorch 2.9, n 9); "
        "classes top_5 1 (PyTorch 1, n 8)"
    )


def test_an_entry_that_was_not_measured_is_no_pass() -> None:
    found = _verdict([_asked(ACCURACY, min=0.9), _asked(TOP | {"k": 3}, min=0.1)], _measurement([ACCURACY, TOP]))
    assert found.verdict == "unmeasured"
    assert any("classes top_3: not measured" in line for line in found.detail)


def test_without_an_entry_nothing_is_asked() -> None:
    found = _verdict([], _measurement(None))
    assert (found.verdict, found.detail) == ("not asked", ("no `quality` in the spec",))
    assert publishable((found,))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "no fixture has a label"),
        ({"source": "golden"}, "the golden vectors have no labels"),
        ({"missing": {"quality": "no such board here"}}, "no such board here"),
    ],
)
def test_without_a_figure_it_is_unmeasured(changes: dict[str, Any], words: str) -> None:
    found = _verdict([_asked(ACCURACY, min=0.9)], _measurement(None, **changes))
    assert found.verdict == "unmeasured"
    assert found.detail == (words,)
    assert found.limit == "label accuracy ≥ 0.9"


def test_figures_without_a_limit_ask_nothing() -> None:
    found = _verdict([_asked(ACCURACY), _asked(TOP)], _measurement([ACCURACY, TOP]))
    assert found.verdict == "not asked"
    assert found.measured.startswith("label accuracy 0.95")
    assert _verdict([_asked(ACCURACY)], _measurement(None, missing={"quality": "later"})).verdict == "not asked"


def test_a_figure_that_shows_nothing_is_inconclusive_and_never_a_pass() -> None:
    empty = {"vacuous": "all 200 answers are the same", "repeated": 3}
    found = _verdict([_asked(ACCURACY, min=0.9, max_loss=0.5)], _measurement([ACCURACY | empty]))
    assert found.verdict == "inconclusive"
    assert "label accuracy: shows nothing: all 200 answers are the same" in found.detail
    assert "label accuracy: 3 more labelled fixtures repeat one that counts" in found.detail
    assert _verdict([_asked(ACCURACY, min=0.99)], _measurement([ACCURACY | empty])).verdict == "fail"
    assert _verdict([_asked(ACCURACY)], _measurement([ACCURACY | empty])).verdict == "not asked"
