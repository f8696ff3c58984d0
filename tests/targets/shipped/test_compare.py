"""The error frontier against brute force, and every other number of `compare`."""

from __future__ import annotations

import json
import math
import time
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dspec.spec.records import OutputError
from dspec.targets.shipped.compare import compare, compare_outputs
from dspec.targets.shipped.frontier import MANY, Frontier
from dspec.targets.shipped.tolerance import broken_by, keeps, least_scale, merge, worst

FLOATS = st.floats(-1e3, 1e3, width=32)
PAIRS = st.lists(st.tuples(FLOATS, FLOATS), min_size=1, max_size=50)
LIMITS = st.tuples(st.floats(0, 100), st.floats(0, 10))


def arrays(pairs: list[tuple[float, float]]) -> tuple[Any, Any]:
    reference, got = np.array(pairs, np.float32).T
    return np.ascontiguousarray(reference), np.ascontiguousarray(got)


def frontier(reference: Any, got: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = compare(reference, got)["frontier"]
    return found


def breaks(reference: Any, got: Any, atol: float, rtol: float) -> bool:
    pairs = zip(reference.astype(float).tolist(), got.astype(float).tolist(), strict=True)
    return any(abs(g - r) > atol + rtol * abs(r) for r, g in pairs)


@settings(max_examples=300, deadline=None)
@given(PAIRS, LIMITS)
def test_the_frontier_decides_every_tolerance(pairs: list[tuple[float, float]], limits: tuple[float, float]) -> None:
    reference, got = arrays(pairs)
    assert keeps(frontier(reference, got), *limits) is not breaks(reference, got, *limits)


@given(PAIRS)
def test_no_point_of_the_frontier_dominates_another(pairs: list[tuple[float, float]]) -> None:
    reference, got = arrays(pairs)
    points = frontier(reference, got)
    for first, second in pairwise(points):
        assert first["ref"] < second["ref"]
        assert first["diff"] < second["diff"]
    for point in points:
        index = tuple(point["index"])
        assert point["ref"] == abs(float(reference[index]))
        assert point["diff"] == abs(float(got[index]) - float(reference[index]))


@given(st.lists(PAIRS, min_size=1, max_size=4), LIMITS)
def test_merging_decides_as_all_together(parts: list[list[tuple[float, float]]], limits: tuple[float, float]) -> None:
    frontiers = [frontier(*arrays(part)) for part in parts]
    assert keeps(merge(frontiers), *limits) is all(keeps(found, *limits) for found in frontiers)


@settings(max_examples=300)
@given(PAIRS, LIMITS)
def test_the_least_tolerances_pass_and_nothing_below(
    pairs: list[tuple[float, float]], limits: tuple[float, float]
) -> None:
    points = frontier(*arrays(pairs))
    atol, rtol = limits
    least = least_scale(points, atol, rtol)
    for value, limit in ((least.scale, (least.scale * atol, least.scale * rtol)), (least.atol, (least.atol, rtol)),
                         (least.rtol, (atol, least.rtol))):  # fmt: skip
        assert math.isinf(value) or keeps(points, *limit)
    below = 1 - 1e-9
    if least.atol > 1e-6:
        assert not keeps(points, least.atol * below - 1e-9, rtol)
    if 1e-6 < least.rtol < math.inf:
        assert not keeps(points, atol, least.rtol * (1 - 1e-3))
    ratio, point = worst(points, atol, rtol)
    assert (ratio <= 1 + 1e-12) is keeps(points, atol, rtol) or ratio == pytest.approx(1)
    assert (point is None) is (not points)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0, 5), st.floats(0, 5))
def test_corners_alone_decide_as_well(seed: int, atol: float, rtol: float) -> None:
    draw = np.random.default_rng(seed)
    ref = np.sort(draw.uniform(0, 10, 400))
    diff = np.sort(np.sqrt(ref) + draw.uniform(0, 0.1, 400))  # a frontier far longer than MANY
    whole = Frontier()
    whole.add(ref, diff, np.arange(400))
    assert whole.ref.size > MANY
    points = [{"ref": r, "diff": d} for r, d, _ in whole.points()]
    assert len(points) < whole.ref.size
    margin = float((diff - rtol * ref).max()) - atol
    if abs(margin) > 1e-9:
        assert keeps(points, atol, rtol) is (margin < 0)


def test_a_relative_error_everywhere_needs_two_points() -> None:
    whole = np.arange(1, 100_000)
    assert [point["ref"] for point in frontier(whole, whole * 2)] == [1, 99_999]


def test_chunks_and_indices(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(1)
    reference = draw.normal(size=(4, 5, 60)).astype(np.float32)
    got = reference + draw.normal(size=reference.shape).astype(np.float32)
    at_once = compare(reference, got, topk=(3,))
    for module in ("compare", "frontier"):
        monkeypatch.setattr(f"dspec.targets.shipped.{module}.CHUNK", 7)
    assert compare(reference, got, topk=(3,)) == at_once
    OutputError.model_validate_json(json.dumps(at_once))


def test_equal_arrays() -> None:
    for array in (np.array([[0.1, -0.0]]), np.zeros((2, 0), np.float32), np.array(3.0), np.array([True])):
        found = compare(array, array.copy())
        assert (found["frontier"], found["broken"]) == ([], "")
        assert found["cosine"] in (1.0, None)


NAN, INF = float("nan"), float("inf")
BROKEN = [
    ([1.0], None, "missing"),
    ([1.0], [1.0], "a list instead of an array"),
    ([1.0], np.array([1.0], np.float32), "dtype float32 where the reference has float64"),
    ([1.0], np.array([[1.0]]), "shape [1, 1] where the reference has [1]"),
    (
        [[0.5, 1.0], [1.0, 1.0]],
        np.array([[NAN, 1.0], [NAN, 1.0]]),
        "NaN at (0, 0) where the reference is 0.5 (2 places)",
    ),
    ([1.0, INF], np.array([1.0, 2.0]), "2.0 at (1) where the reference is inf (1 place)"),
    ([INF], np.array([-INF]), "-inf at (0) where the reference is inf (1 place)"),
    ([NAN], np.array([0.0]), "0.0 at (0) where the reference is NaN (1 place)"),
]


@pytest.mark.parametrize(("reference", "got", "message"), BROKEN)
def test_what_has_no_numbers(reference: Any, got: Any, message: str) -> None:
    found = compare(np.array(reference), got)
    assert (found["broken"], found["frontier"]) == (message, [])
    assert broken_by(found, {"atol": INF}) == [message]


def test_the_same_non_finite_values_are_equal() -> None:
    reference = np.array([NAN, INF, -INF, 1.0])
    found = compare(reference, np.array([NAN, INF, -INF, 1.5]), topk=(2,))
    assert found["frontier"] == [{"ref": 1.0, "diff": 0.5, "index": [3]}]
    assert found["cosine"] == pytest.approx(1.0)


def test_whole_numbers_beyond_float64_and_at_the_ends() -> None:
    big = np.array([2**53, -(2**63)], np.int64)
    found = compare(big, np.array([2**53 + 1, 2**63 - 1], np.int64))
    assert [point["diff"] for point in found["frontier"]] == [1.0, float(2**64)]
    assert compare(np.array([True]), np.array([False]))["frontier"][0]["diff"] == 1.0
    assert compare(np.array([255], np.uint8), np.array([0], np.uint8))["frontier"][0]["diff"] == 255.0


COSINES = [
    ([[1.0, 0.0], [1.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]], math.sqrt(0.5)),
    ([[1.0, 2.0]], [[-1.0, -2.0]], -1.0),
    ([[0.0, 0.0]], [[0.0, 0.0]], 1.0),
    ([[0.0, 0.0]], [[0.0, 1.0]], 0.0),
    ([[1e200, 1e200]], [[1e200, 1e200]], 1.0),
    ([[1e-200, 0.0]], [[0.0, 1e-200]], 0.0),
    ([3.0, 4.0], [6.0, 8.0], 1.0),
]


@pytest.mark.parametrize(("reference", "got", "wanted"), COSINES)
def test_cosine(reference: Any, got: Any, wanted: float) -> None:
    assert compare(np.array(reference), np.array(got))["cosine"] == pytest.approx(wanted)


TOPK = [
    ([4, 3, 2, 1], [4, 3, 2, 1], 2, 1.0),
    ([4, 3, 2, 1], [1, 2, 3, 4], 2, 0.0),
    ([4, 3, 2, 1], [4, 2, 3, 1], 2, 0.5),
    ([1, 5, 5, 5, 0], [0, 5, 6, 7, 1], 2, 1.0),  # any two of the three fives are as good
    ([4, 3, 2, 1], [1, 1, 1, 1], 2, 1.0),  # ties of got are settled in its favour
    ([4, 3, 2, 1], [0, 5, 5, 5], 2, 0.5),
    ([2, 1], [1, 2], 9, 1.0),  # k beyond the width
]


@pytest.mark.parametrize(("reference", "got", "k", "wanted"), TOPK)
def test_topk(reference: Any, got: Any, k: int, wanted: float) -> None:
    found = compare(np.array([reference], float), np.array([got], float), topk=(k,))["topk"]
    assert found == {str(k): wanted}


def test_a_mask_leaves_padding_out() -> None:
    reference, got = np.ones((2, 3, 4)), np.ones((2, 3, 4))
    got[0, 2], got[1, 1, 0] = NAN, 3.0
    mask = np.array([[1, 1, 0], [1, 1, 1]])
    found = compare(reference, got, mask=mask)
    assert found["frontier"] == [{"ref": 1.0, "diff": 2.0, "index": [1, 1, 0]}]
    assert found["cosine"] == pytest.approx(6 / math.sqrt(4 * 12))
    assert "NaN at (0, 2, 0)" in compare(reference, got)["broken"]
    assert compare(reference, got, mask=np.zeros((2, 3)))["broken"] == "the mask leaves no valid position"
    assert compare(reference, got, mask=np.ones((2, 5)))["broken"] == "mask of shape [2, 5] over [2, 3, 4]"


def test_a_mask_of_the_same_rank_counts_elements() -> None:
    reference, got = np.array([[3.0, 1.0, 9.0]]), np.array([[1.0, 3.0, 0.0]])
    found = compare(reference, got, mask=np.array([[1, 1, 0]]), topk=(1,))
    assert [point["diff"] for point in found["frontier"]] == [2.0]
    assert found["cosine"] == pytest.approx(0.6)
    assert found["topk"] == {"1": 0.0}


def test_compare_outputs_follows_the_policies() -> None:
    reference = {"a": np.ones((1, 2, 3)), "b": np.ones(2)}
    policies = {"a": {"valid": "mask", "min_topk_agreement": {"k": 2, "share": 1.0}}}
    outputs, valid = compare_outputs(reference, {"a": reference["a"]}, policies, {"mask": np.array([[1, 0]])})
    assert outputs["b"]["broken"] == "missing"
    assert outputs["a"]["topk"] == {"2": 1.0}
    assert set(valid) == {"a"}


ERROR = {
    "frontier": [{"ref": 0.5, "diff": 0.01, "index": [0, 3]}],
    "cosine": 0.99,
    "topk": {"5": 0.8},
    "broken": "",
}
POLICIES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"atol": None, "rtol": None, "min_cosine": None, "min_topk_agreement": None, "valid": None}, []),
    ({"atol": 0.01}, []),
    ({"rtol": 0.02}, []),
    (
        {"atol": 1e-3, "rtol": 1e-3},
        ["|difference| 0.01 at (0, 3) where |reference| is 0.5: above 0.0015 (atol 0.001, rtol 0.001)"],
    ),
    ({"min_cosine": 0.99}, []),
    ({"min_cosine": 0.999}, ["cosine 0.99, below 0.999"]),
    ({"min_topk_agreement": {"k": 5, "share": 0.8}}, []),
    ({"min_topk_agreement": {"k": 5, "share": 0.9}}, ["top-5 agreement 0.8, below 0.9"]),
    ({"min_topk_agreement": {"k": 1, "share": 0.9}}, ["top-1 agreement not measured, below 0.9"]),
]


@pytest.mark.parametrize(("policy", "reasons"), POLICIES)
def test_broken_by(policy: dict[str, Any], reasons: list[str]) -> None:
    assert broken_by(ERROR, policy) == reasons


def test_an_undefined_cosine_keeps_no_policy() -> None:
    assert broken_by(ERROR | {"cosine": None}, {"min_cosine": 0.5}) == ["cosine undefined, below 0.5"]


def test_least_scale_of_nothing_and_of_an_error_at_zero() -> None:
    assert least_scale([], 1e-4, 1e-3) == (0.0, 0.0, 0.0)
    at_zero = [{"ref": 0.0, "diff": 1.0, "index": [0]}]
    assert least_scale(at_zero, 0.0, 1e-3) == (math.inf, 1.0, math.inf)


def test_a_large_comparison_takes_a_second_at_most() -> None:
    draw = np.random.default_rng(5)
    reference = draw.normal(size=(32, 256, 128)).astype(np.float32)
    got = reference * np.float32(1.0001)
    start = time.perf_counter()
    assert compare(reference, got)["broken"] == ""
    assert time.perf_counter() - start < 2
