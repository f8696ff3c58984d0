"""The metrics of `quality:`. Each is a pure function of answers and labels, in the fixtures' order.

All take `k` and give a `Result`; those without a use for `k` ignore it. They raise UnfitError for an answer or label
that the metric can make nothing of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dspec.compiler.quality.forms import FormError, check_same_kind, check_same_list, named, numbers, ranking
from dspec.compiler.statistics import correlation_bounds, mean_bounds, share_bounds
from dspec.spec.models import QualityMetric

Array = np.ndarray[Any, np.dtype[np.float64]]


class UnfitError(Exception):
    """An answer or a label does not fit the metric. `at`: the position of its fixture, None where all are meant."""

    def __init__(self, at: int | None, words: str) -> None:
        super().__init__(words)
        self.at, self.words = at, words


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """A metric's value.

    Attributes:
        low, high: one-sided 95 % bounds; infinite where there are too few fixtures.
        faults: how wrong each fixture that counts is: 1 for a miss and 0 for a hit, or its error; by position.
        vacuous: why the value shows nothing about the model, whatever it is; else "".
    """

    value: float
    low: float
    high: float
    faults: dict[int, float]
    vacuous: str = ""


def accuracy(answers: Sequence[Any], labels: Sequence[Any], k: int = 0) -> Result:
    """The share of answers whose first class equals the label: Σ [answer = label] / n.

    A label that is a list is compared whole, element by element, with the classes that the answer names. Bounds: the
    exact interval of Clopper and Pearson.
    """
    return _share({at: _misses(at, answers, labels, 1) for at in range(len(labels))}, _unmoved(answers, labels, 1))


def top_k(answers: Sequence[Any], labels: Sequence[Any], k: int) -> Result:
    """The share of answers with the label among their first k classes: Σ [label ∈ first k] / n.

    The error rate of ILSVRC (Russakovsky et al., *ImageNet Large Scale Visual Recognition Challenge*, 2015, section
    4.1) is 1 minus this, with k = 5. Bounds: the exact interval of Clopper and Pearson.
    """
    return _share({at: _misses(at, answers, labels, k) for at in range(len(labels))}, _unmoved(answers, labels, k))


def recall_at_k(answers: Sequence[Any], labels: Sequence[Any], k: int) -> Result:
    """Retrieval among the fixtures: the share whose k nearest others hold one of the same group.

    Answers are embeddings, labels group ids, nearness is the cosine; a fixture alone in its group does not
    count. Equal nearness counts against the group. Jégou et al., *Product Quantization for Nearest Neighbor Search*
    (2011), and Oh Song et al., *Deep Metric Learning via Lifted Structured Feature Embedding* (2016), section 5.
    Bounds: the exact interval of Clopper and Pearson, as if the queries were independent.
    """
    unit = _unit_rows(answers)
    groups = np.array([_group(at, label) for at, label in enumerate(labels)], dtype=object)
    faults, could_miss = {}, False
    for at in range(len(labels)):
        near, same = unit @ unit[at], groups == groups[at]
        same[at] = False
        if same.any():
            others = groups != groups[at]
            faults[at] = float((near[others] >= near[same].max()).sum() >= k)
            could_miss |= bool(others.sum() >= k)
    if not faults:
        raise UnfitError(None, "no group has two fixtures, so that nothing could be found again")
    few = f"no fixture has {k} others of other groups, so that its own group is among the {k} nearest whatever the answers"
    return _share(faults, "" if could_miss else few)


def mean_absolute_error(answers: Sequence[Any], labels: Sequence[Any], k: int = 0) -> Result:
    """Σ |answer − label| / n, in the label's unit; of arrays, each fixture counts with the mean over its elements.

    Bounds: Student's t over the fixtures.
    """
    faults = {at: _distance(at, answers[at], labels[at]) for at in range(len(labels))}
    low, high = mean_bounds(list(faults.values()))
    return Result(
        value=float(np.mean(list(faults.values()))),
        low=max(0.0, low),
        high=high,
        faults=faults,
        vacuous=_constant(answers),
    )


def correlation(answers: Sequence[Any], labels: Sequence[Any], k: int = 0) -> Result:
    """Pearson's r of answers and labels, one number each: cov(answer, label) / (std(answer) · std(label)).

    Linear agreement, blind to offset and scale. Bounds: Fisher's z-transformation (*Metron* 1, 1921). A fixture's
    fault is the distance of its standardised answer from its standardised label.
    """
    got = _standardised([_scalar(at, answer) for at, answer in enumerate(answers)], "answers")
    wanted = _standardised([_scalar(at, label) for at, label in enumerate(labels)], "labels")
    value = float(np.clip(np.mean(got * wanted), -1, 1))
    low, high = correlation_bounds(value, len(labels))
    few = "two points always lie on a line: r is 1 or -1 whatever the answers" if len(labels) < 3 else ""
    return Result(value=value, low=low, high=high, faults=dict(enumerate(np.abs(got - wanted).tolist())), vacuous=few)


METRICS: dict[QualityMetric, Callable[[Sequence[Any], Sequence[Any], int], Result]] = {
    "accuracy": accuracy,
    "top_k": top_k,
    "recall_at_k": recall_at_k,
    "mean_absolute_error": mean_absolute_error,
    "correlation": correlation,
}


def _share(faults: dict[int, float], vacuous: str) -> Result:
    n = len(faults)
    hits = n - round(sum(faults.values()))
    low, high = share_bounds(hits, n)
    return Result(value=hits / n, low=low, high=high, faults=faults, vacuous=vacuous)


def _unmoved(answers: Sequence[Any], labels: Sequence[Any], k: int) -> str:
    """Why no answer tells fixtures apart: all name the same classes, as they do where k reaches all of them."""
    if any(isinstance(label, list) for label in labels):
        return _constant(answers)
    first = [sorted(map(repr, ranking(answer, label)[:k])) for answer, label in zip(answers, labels, strict=True)]
    if len(first) < 2 or any(other != first[0] for other in first[1:]):
        return ""
    if k == 1:
        return f"all {len(first)} answers are the same, {first[0][0] if first[0] else 'none'}: nothing tells fixtures apart"
    return (
        f"the first {k} of all {len(first)} answers name the same {len(first[0])} classes: nothing tells fixtures apart"
    )


def _constant(answers: Sequence[Any]) -> str:
    several = len(answers) > 1 and all(np.array_equal(answer, answers[0]) for answer in answers[1:])
    return f"all {len(answers)} answers are the same: nothing tells fixtures apart" if several else ""


def _misses(at: int, answers: Sequence[Any], labels: Sequence[Any], k: int) -> float:
    label = labels[at]
    try:
        if isinstance(label, list):
            whole = answers[at].tolist() if isinstance(answers[at], np.ndarray) else answers[at]
            check_same_list(whole, label)
            return float(label not in (whole, named(whole)))
        classes = ranking(answers[at], label)
        if classes:  # an answer that names no class, as of nothing found, is a miss
            check_same_kind(classes[0], label)
    except FormError as error:
        raise UnfitError(at, str(error)) from None
    return float(label not in classes[:k])


def _numbers(at: int, value: Any) -> Array:
    try:
        return numbers(value)
    except FormError as error:
        raise UnfitError(at, str(error)) from None


def _scalar(at: int, value: Any) -> float:
    found = _numbers(at, value)
    if found.size != 1:
        raise UnfitError(at, f"{found.size} numbers where a correlation takes one")
    return float(found.reshape(()))


def _distance(at: int, answer: Any, label: Any) -> float:
    one, other = _numbers(at, answer), _numbers(at, label)
    one, other = (value.reshape(()) if value.size == 1 else value for value in (one, other))
    if one.shape != other.shape or not one.size:
        raise UnfitError(at, f"the answer has shape {list(one.shape)}, and the label {list(other.shape)}")
    return float(np.abs(one - other).mean())


def _standardised(values: list[float], what: str) -> Array:
    found = np.array(values)
    deviation = found.std()
    if not deviation > 1e-12 * max(1.0, np.abs(found).max(initial=0.0)):
        raise UnfitError(None, f"the {what} are all the same, so that they correlate with nothing")
    standardised: Array = (found - found.mean()) / deviation
    return standardised


def _unit_rows(answers: Sequence[Any]) -> Array:
    rows = [_numbers(at, answer).reshape(-1) for at, answer in enumerate(answers)]
    for at, row in enumerate(rows):
        if row.shape != rows[0].shape or not row.any():
            what = f"{row.size} numbers where the others have {rows[0].size}" if row.any() else "it is all zeros"
            raise UnfitError(at, f"no embedding: {what}")
    matrix = np.stack([row / np.abs(row).max() for row in rows])  # no square vanishes or overflows
    unit: Array = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    return unit


def _group(at: int, label: Any) -> Any:
    if not isinstance(label, str | int | float):
        raise UnfitError(at, f"the label {label!r:.60} is no group id (a text or a number)")
    return label
