"""Labels by field, and figures of a bundle beside PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np

from dspec.compiler.measure.cases import Expected
from dspec.compiler.quality.labelled import Asked, Labelled, chosen, found, label_of

ACCURACY = Asked(metric="accuracy", of="label", k=None)
ERROR = Asked(metric="mean_absolute_error", of="pitch", k=None)


def _labelled(expected: list[Any], **fields: list[Any]) -> Labelled:
    ids = [f"f:{number}" for number in range(1, len(expected) + 1)]
    answers = [dict(zip(fields, row, strict=True)) for row in zip(*fields.values(), strict=True)]
    return Labelled(expected=dict(zip(ids, expected, strict=True)), answers=dict(zip(ids, answers, strict=False)))


def test_a_label_is_the_value_or_the_fields_entry() -> None:
    assert label_of("face", "label") == "face"
    assert label_of({"label": "face", "pitch": 3}, "pitch") == 3
    assert label_of({"label": "face"}, "pitch") is None
    assert label_of(None, "label") is None


def test_figures_name_what_the_bundle_lost() -> None:
    expected = ["a", "b", None, "a", "b", "a"]
    ours = _labelled(expected, label=["a", "a", "x", "a", "b", "b"])
    reference = _labelled(expected, label=["a", "b", "x", "b", "b", "b"])
    told = found([ACCURACY], ours, reference)
    assert told is not None
    assert (told.fixtures, told.labelled) == (6, 5)
    (figure,) = told.figures
    assert (figure.n, figure.value, figure.reference) == (5, 0.6, 0.6)
    assert figure.changed == 2
    assert figure.lost == ("f:2",)
    assert figure.missed == ("f:2", "f:6")


def test_rounding_is_no_change() -> None:
    ours = _labelled([10, 20, 30], pitch=[11, 20, 30.0000001])
    told = found([ERROR], ours, _labelled([10, 20, 30], pitch=[11.0000001, 20, 30]))
    assert told is not None
    assert (told.figures[0].changed, told.figures[0].lost) == (0, ())
    assert told.figures[0].missed == ("f:1", "f:3")


def test_each_metric_counts_the_fixtures_that_label_its_field() -> None:
    expected = [{"label": "a", "pitch": 1.0}, {"label": "b"}, {"pitch": 2.0}]
    ours = _labelled(expected, label=["a", "b", "c"], pitch=[1.0, 5.0, 2.5])
    told = found([ACCURACY, ERROR], ours, ours)
    assert told is not None
    assert [(figure.of, figure.n, figure.value) for figure in told.figures] == [("label", 2, 1.0), ("pitch", 2, 0.25)]


def test_a_bundle_that_gives_no_answer_has_no_figure() -> None:
    reference = _labelled(["a", "b"], label=["a", "b"])
    silent = Labelled(expected=reference.expected, answers={"f:1": {"label": "a"}})
    told = found([ACCURACY], silent, reference)
    assert told is not None
    assert told.figures[0].value is None
    assert told.figures[0].broken == "f:2: there is no answer label"


def test_without_labels_nothing_is_found() -> None:
    ours = _labelled([None, None], label=["a", "b"])
    assert found([ACCURACY], ours, ours) is None


def test_outputs_lose_their_batch_axis_and_fields_go_first() -> None:
    pipeline = {"batch": "batch", "outputs": {"y": {"shape": ["batch", 2]}, "z": {"shape": [1, 2]}}}
    outputs = {"y": np.ones((1, 2), np.float32), "z": np.zeros((1, 2), np.float32), "label": np.ones((1, 2))}
    given = chosen({"label": "a", "other": 1}, outputs, ["y", "z", "label", "absent"], pipeline)
    assert given == {"y": [1.0, 1.0], "z": [[0.0, 0.0]], "label": "a"}


def test_fixtures_that_enter_alike_with_one_label_count_once() -> None:
    kept = Labelled(answers={name: {"label": "a"} for name in "pqrst"})
    for name, x, label in (("p", 1, "a"), ("q", 1, "a"), ("r", 1, "b"), ("s", 2, "a"), ("t", 1, "a")):
        kept.note(
            Expected(id=name, kind="fixture", request={}, inputs={"x": np.array([x])}, outputs={}, expected=label)
        )
    assert kept.ids("label") == ["p", "r", "s"]
    told = found([ACCURACY], kept, kept)
    assert told is not None
    assert (told.figures[0].n, told.figures[0].repeated, told.labelled) == (3, 2, 5)
    assert told.figures[0].vacuous == "all 3 answers are the same, 'a': nothing tells fixtures apart"
