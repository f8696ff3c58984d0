"""The metrics against numbers computed by hand or by scipy, and what they make of forms that don't fit."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dspec.compiler.quality.metrics import (
    METRICS,
    Result,
    UnfitError,
    accuracy,
    correlation,
    mean_absolute_error,
    recall_at_k,
    top_k,
)
from dspec.spec.checks_quality import KINDS

SCORES = [[0.5, 0.2, 0.2], [0.3, 0.4, 0.2], [0.2, 0.4, 0.3], [0.7, 0.2, 0.1]]
RECORDS = [{"label": "cat", "index": 3, "score": 0.7}, {"label": "dog", "index": 1, "score": 0.2}]


def test_every_metric_of_the_language_has_a_function() -> None:
    assert METRICS.keys() == KINDS.keys()


@pytest.mark.parametrize(
    ("answer", "label", "hit"),
    [
        ("face", "face", True),
        ("Face", "face", False),
        (3, 3, True),
        (np.int64(3), 3, True),
        (np.array(3), 3, True),
        (np.array(True), True, True),
        (np.array(0.0, np.float32), 0, True),
        (np.array([0.1, 0.7, 0.2], np.float32), 1, True),
        ([0.1, 0.7, 0.2], 2, False),
        ([0.4, 0.4, 0.2], 0, True),  # of equal scores the lower index
        ([0.4, 0.4, 0.2], 1, False),
        (["cat", "dog"], "cat", True),
        (["cat", "dog"], "dog", False),
        (RECORDS, "cat", True),
        (RECORDS[0], "cat", True),
        ([7, 2, 5], 7, True),
        (np.array([1, 0, 2]), [1, 0, 2], True),
        ([1, 0, 2], [1, 0, 1], False),
        ([], "cat", False),  # nothing was found
        ([], [], True),
        ([], ["cat"], False),
        (RECORDS, ["cat", "dog"], True),
        (RECORDS, ["dog", "cat"], False),
        (RECORDS, RECORDS, True),
    ],
)
def test_accuracy_reads_every_form_of_an_answer(answer: Any, label: Any, hit: bool) -> None:
    assert accuracy([answer], [label]).value == float(hit)


def test_shares_have_exact_bounds() -> None:
    eight_of_ten = accuracy(["a"] * 10, ["a"] * 8 + ["b"] * 2)
    assert eight_of_ten.value == 0.8
    assert (eight_of_ten.low, eight_of_ten.high) == pytest.approx(
        (0.49309869893679714, 0.9632285621125352)
    )  # scipy.stats.binomtest(8, 10).proportion_ci(0.9)
    assert eight_of_ten.faults == dict.fromkeys(range(8), 0.0) | {8: 1.0, 9: 1.0}


@pytest.mark.parametrize(("k", "value"), [(1, 0.5), (2, 0.75), (3, 1.0)])
def test_top_k_counts_labels_among_the_first_k(k: int, value: float) -> None:
    assert top_k(SCORES, [0, 1, 2, 2], k).value == value
    assert top_k([RECORDS, RECORDS], ["dog", "owl"], 2).value == 0.5


def test_recall_finds_the_group_among_the_nearest_others() -> None:
    angles = np.radians([0, 10, 25, 90, 100, 47])
    answers = [np.array([np.cos(angle), np.sin(angle)], np.float32) for angle in angles]
    groups = ["a", "a", "b", "c", "c", "b"]
    # The nearest other of 25° is 10° (a), of 47° is 25° (b); 0° and 10°, 90° and 100° are each other's.
    found = recall_at_k(answers, groups, 1)
    assert found.faults == {0: 0, 1: 0, 2: 1, 3: 0, 4: 0, 5: 0}
    assert found.value == 5 / 6
    assert recall_at_k(answers, groups, 2).value == 1


def test_recall_leaves_out_who_is_alone_and_counts_ties_against() -> None:
    same = [np.ones(4)] * 4
    found = recall_at_k(same, ["a", "a", "b", "c"], 2)
    assert found.faults == {0: 1, 1: 1}  # two others are just as near
    assert recall_at_k(same, ["a", "a", "b", "c"], 3).value == 1


def test_recall_is_that_of_a_plain_loop() -> None:
    draw = np.random.default_rng(5)
    answers, groups = draw.normal(size=(40, 6)), draw.integers(0, 6, 40).tolist()
    hits = []
    for at, answer in enumerate(answers):
        cosines = answers @ answer / (np.linalg.norm(answers, axis=1) * np.linalg.norm(answer))
        nearest = [other for other in np.argsort(-cosines) if other != at][:3]
        hits.append(any(groups[other] == groups[at] for other in nearest))
    assert recall_at_k(list(answers), groups, 3).value == pytest.approx(np.mean(hits))


def test_mean_absolute_error_is_in_the_labels_unit() -> None:
    found = mean_absolute_error([3, -0.5, np.float32(2), np.array([7.0])], [2.5, 0, 2, 8])
    assert found.value == 0.5
    assert found.faults == {0: 0.5, 1: 0.5, 2: 0.0, 3: 1.0}
    assert found.low >= 0
    assert found.high > 0.5
    assert mean_absolute_error([[1, 2], [3, 5]], [[1, 3], [3, 5]]).faults == {0: 0.5, 1: 0.0}
    assert math.isinf(mean_absolute_error([1], [2]).high)


def test_correlation_is_pearsons() -> None:
    found = correlation([1.1, 1.9, 3.2, 3.8, 5.5, 6.1], [1, 2, 3, 4, 5, 7])
    assert found.value == pytest.approx(0.9779830739113755)
    # scipy.stats.pearsonr(…).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((0.8615567727458323, 0.9966735586934302))
    assert correlation([2, 4, 6, 8], [1, 2, 3, 4]).value == pytest.approx(1)
    backwards = correlation([2, 4, 6], [3, 2, 1])
    assert backwards.value == pytest.approx(-1)
    assert (backwards.low, backwards.high) == (-1, 1)  # three pairs bound nothing
    assert backwards.faults == pytest.approx({0: 2 * 1.5**0.5, 1: 0, 2: 2 * 1.5**0.5})


@pytest.mark.parametrize(
    ("metric", "answers", "labels", "at", "words"),
    [
        (accuracy, ["1"], [1], 0, "the answer is text ('1'), and the label is a number (1)"),
        (accuracy, [1, [0.1, math.nan]], [1, 1], 1, "it holds NaN or infinity"),
        (accuracy, [["nan", 0.5]], [1], 0, "it holds NaN or infinity"),
        (recall_at_k, [[1.0, 0], [1.0]], ["a", "a"], 1, "no embedding: 1 numbers where the others have 2"),
        (recall_at_k, [[1.0, 0], [0.0, 0]], ["a", "a"], 1, "no embedding: it is all zeros"),
        (recall_at_k, [[1.0, 0], [1.0, 0]], ["a", ["b"]], 1, "the label ['b'] is no group id (a text or a number)"),
        (recall_at_k, [[1.0, 0], [1.0, 0]], ["a", "b"], None, "no group has two fixtures"),
        (mean_absolute_error, ["high"], [1], 0, "'high' is no number"),
        (mean_absolute_error, [[1, 2, 3]], [[1, 2]], 0, "the answer has shape [3], and the label [2]"),
        (mean_absolute_error, ["inf"], [1], 0, "is no number"),
        (correlation, [[1, 2]], [1], 0, "2 numbers where a correlation takes one"),
        (correlation, [1, 2, 3], [4, 4, 4], None, "the labels are all the same"),
        (correlation, [4, 4, 4], [1, 2, 3], None, "the answers are all the same"),
    ],
)
def test_what_does_not_fit_is_told(
    metric: Callable[..., Result], answers: list[Any], labels: list[Any], at: int | None, words: str
) -> None:
    with pytest.raises(UnfitError) as told:
        metric(answers, labels, 1)
    assert told.value.at == at
    assert words in told.value.words


@pytest.mark.parametrize(
    ("answer", "label", "words"),
    [
        ("cat", ["cat"], "the answer is text ('cat'), and the label is a list"),
        (RECORDS, [3, 1], "the answer is text ('cat'), and the label is a number (3)"),
        (["cat"], [3], "the answer is text ('cat'), and the label is a number (3)"),
    ],
)
def test_a_list_of_another_kind_is_no_miss(answer: Any, label: Any, words: str) -> None:
    with pytest.raises(UnfitError, match=re.escape(words)):
        accuracy([answer], [label])


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (lambda: top_k(SCORES, [0, 1, 2, 0], 3), "the first 3 of all 4 answers name the same 3 classes"),
        (lambda: top_k(SCORES, [0, 1, 2, 0], 5), "the first 5 of all 4 answers name the same 3 classes"),
        (lambda: top_k([RECORDS, RECORDS[::-1]], ["cat", "dog"], 2), "name the same 2 classes"),
        (lambda: top_k(SCORES, [0, 1, 2, 0], 1), ""),
        (lambda: accuracy(["a", "a", "a"], ["a", "a", "b"]), "all 3 answers are the same, 'a'"),
        (lambda: accuracy(["a", "b", "a"], ["a", "a", "a"]), ""),
        (lambda: accuracy([[1, 0], [1, 0]], [[1, 0], [1, 1]]), "all 2 answers are the same"),
        (lambda: accuracy(["a"], ["a"]), ""),
        (lambda: recall_at_k([[1, 0], [0, 1], [1, 1]], ["a", "a", "a"], 1), "no fixture has 1 others of other groups"),
        (lambda: recall_at_k([[1, 0], [0, 1], [1, 1]], ["a", "a", "b"], 2), "no fixture has 2 others of other groups"),
        (lambda: recall_at_k([[1, 0], [0, 1], [1, 1]], ["a", "a", "b"], 1), ""),
        (lambda: mean_absolute_error([3, 3], [1, 2]), "all 2 answers are the same"),
        (lambda: mean_absolute_error([3, 4], [1, 1]), ""),
        (lambda: correlation([1, 2], [5, 9]), "two points always lie on a line"),
        (lambda: correlation([1, 2, 4], [5, 9, 1]), ""),
    ],
)
def test_a_figure_that_shows_nothing_says_why(found: Callable[[], Result], why: str) -> None:
    assert why in found().vacuous
    assert bool(why) == bool(found().vacuous)
