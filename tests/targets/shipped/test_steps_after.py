"""Steps behind the model: stable numerics, ties, labels, boxes, against numpy and loops by hand."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dspec.targets.shipped import steps
from dspec.targets.shipped.step import ANY, JSON, NUMBER, TENSOR, TEXT, Value

Array = np.ndarray[Any, Any]
ROW = Value(TENSOR, "float32", (4,))
TIES = np.array([1, 3, 3, 2], np.float32)
ABCD = ("a", "b", "c", "d")


def step(name: str, **params: Any) -> Any:
    return steps.load(name)(**params)


def run(name: str, *values: Any, **params: Any) -> Any:
    return step(name, **params).open()(*values)


def f32(numbers: list[float]) -> Array:
    return np.array(numbers, np.float32)


@pytest.fixture
def names(tmp_path: Path) -> str:
    path = tmp_path / "names.txt"
    path.write_bytes("\ufeffa\r\nb\r\n c \r\nd\r\n\r\n".encode())
    return str(path)


def test_softmax() -> None:
    scores = np.random.default_rng(1).normal(size=(3, 5)) * 20
    exact = np.exp(scores - scores.max(1, keepdims=True))
    exact /= exact.sum(1, keepdims=True)
    found = run("softmax", scores)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, exact, rtol=3e-6)
    np.testing.assert_allclose(run("softmax", scores.T, axis=0).T, found)
    np.testing.assert_allclose(run("softmax", scores, temperature=0.5), run("softmax", scores * 2), rtol=1e-5)
    assert run("softmax", f32([1e38, 1e38, -1e38])).tolist() == [0.5, 0.5, 0]
    assert np.isnan(run("softmax", f32([np.nan, 0]))).all()
    assert np.isnan(run("softmax", f32([np.inf, 0]))).any()
    assert scores.max() > 1  # what comes in stays


def test_sigmoid() -> None:
    scores = f32([-200, -50, -1, 0, 1, 50, 200, np.inf, -np.inf])
    with np.errstate(over="ignore"):
        exact = 1 / (1 + np.exp(-scores.astype(np.float64)))
    found = run("sigmoid", scores)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-44)
    assert np.isnan(run("sigmoid", f32([np.nan])))[0]


def test_top_k_gives_the_lower_index_of_equal_scores(names: str) -> None:
    best = [{"label": "b", "index": 1, "score": 3.0}, {"label": "c", "index": 2, "score": 3.0}]
    assert run("top_k", TIES, k=2, labels=ABCD) == best
    assert run("top_k", TIES, k=2, labels_file=names) == best
    assert run("top_k", TIES.astype(np.uint8), k=1) == [{"index": 1, "score": 3}]
    assert run("top_k", np.array([-128, 127], np.int8), k=2) == [
        {"index": 1, "score": 127},
        {"index": 0, "score": -128},
    ]
    assert [found["index"] for found in run("top_k", np.zeros(50), k=50)] == list(range(50))


def test_argmax() -> None:
    assert run("argmax", TIES).dtype == np.int64
    assert (run("argmax", TIES).tolist(), run("argmax", TIES, labels=ABCD)) == (1, "b")
    table = np.array([[0, 1], [1, 0], [2, 2]])
    assert run("argmax", table).tolist() == [1, 0, 0]
    assert run("argmax", table, labels=("x", "y")) == ["y", "x", "x"]


def test_threshold() -> None:
    scores = f32([0.1, 0.5, 0.7, 0.1])
    assert run("threshold", scores, least=0.1).tolist() == [True] * 4  # 0.1 in float32 is above 0.1
    assert run("threshold", scores, least=(0.2, 0.5, 0.8, 0.0)).tolist() == [False, True, False, True]
    assert run("threshold", np.float32(0.7), least=0.5).tolist() is True
    found = run("threshold", scores, least=0.4, labels=ABCD)
    assert [(one["label"], one["index"]) for one in found] == [("c", 2), ("b", 1)]
    assert run("threshold", scores, least=0.9, labels=ABCD) == []


@pytest.mark.parametrize(("name", "params"), [("top_k", {"k": 1}), ("argmax", {}), ("threshold", {"least": 0.5})])
def test_no_answer_is_made_of_nan(name: str, params: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="1 of 2 numbers are NaN"):
        run(name, f32([np.nan, 0]), **params)


@pytest.mark.parametrize("name", ["top_k", "argmax", "threshold"])
def test_labels_are_as_many_as_scores(name: str, names: str) -> None:
    params: Any = {"top_k": {"k": 1}, "threshold": {"least": 0.5}}.get(name, {})
    with pytest.raises(ValueError, match="4 labels for 3 scores"):
        run(name, np.zeros(3), labels_file=names, **params)
    with pytest.raises(ValueError, match="3 labels for 4 scores"):
        step(name, labels=ABCD[:3], **params).flow(ROW)
    with pytest.raises(ValueError, match="labels and labels_file are both given"):
        step(name, labels=ABCD, labels_file=names, **params).flow(ROW)


def test_labels_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(b"a\xff")
    with pytest.raises(ValueError, match=r"x.txt is not UTF-8 \(byte 1\)"):
        step("argmax", labels_file=str(tmp_path / "x.txt")).open()


BOXES: list[tuple[dict[str, Any], list[float], list[float]]] = [
    ({"format": "xyxy"}, [1, 2, 3, 4], [1, 2, 3, 4]),
    ({"format": "xywh"}, [1, 2, 3, 4], [1, 2, 4, 6]),
    ({"format": "cxcywh"}, [10, 10, 4, 2], [8, 9, 12, 11]),
    ({"format": "cxcywh", "normalized": True, "size": (100, 200)}, [0.5, 0.5, 0.25, 0.5], [75, 25, 125, 75]),
    ({"format": "xyxy", "size": (100, 200), "clip": True}, [-5, -5, 500, 500], [0, 0, 200, 100]),
]


@pytest.mark.parametrize(("params", "raw", "corners"), BOXES)
def test_boxes(params: dict[str, Any], raw: list[float], corners: list[float]) -> None:
    given = np.array([raw], np.float64)
    found = run("boxes", given, **params)
    assert (found.dtype, found.tolist(), given.tolist()) == (np.float32, [corners], [raw])
    assert run("boxes", np.zeros((0, 4)), **params).shape == (0, 4)


def _overlap(a: list[float], b: list[float]) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    shared = max(width, 0) * max(height, 0)
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
    return shared / union if union else 0.0


def _by_hand(boxes: Array, scores: Array, iou: float, least: float, most: int, per_class: bool) -> list[Any]:
    rows = [
        (-scores[row, kind], row, kind)
        for row in range(len(boxes))
        for kind in range(scores.shape[1])
        if scores[row, kind] >= least
    ]
    kept: list[Any] = []
    for score, row, kind in sorted(rows):
        rivals = [other for _, other, same in kept if same == kind or not per_class]
        if all(_overlap(boxes[row].tolist(), boxes[other].tolist()) <= iou for other in rivals):
            kept.append((score, row, kind))
    return [(kind, -score, boxes[row].tolist()) for score, row, kind in kept[:most]]


@pytest.mark.parametrize("per_class", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_nms_against_loops(seed: int, per_class: bool) -> None:
    draw = np.random.default_rng(seed)
    corners = draw.integers(0, 40, (60, 2))
    boxes = np.hstack([corners, corners + draw.integers(0, 25, (60, 2))]).astype(np.float32)
    scores = (draw.integers(0, 8, (60, 3)) / 8).astype(np.float32)  # many ties
    params = {"iou": 0.4, "min_score": 0.25, "max_boxes": 20, "per_class": per_class}
    found = [(one["index"], one["score"], one["box"]) for one in run("nms", boxes, scores, **params)]
    assert found == _by_hand(boxes, scores, 0.4, 0.25, 20, per_class)
    assert len(found) > 5


def test_nms_leaves_out_boxes_that_do_not_count_whatever_their_corners() -> None:
    boxes = np.array([[0, 0, 1, 1], [np.inf, 0, np.inf, 1]], np.float32)
    found = run("nms", boxes, np.array([0.9, 0.1], np.float32), min_score=0.5)
    assert [one["box"] for one in found] == [[0, 0, 1, 1]]


def test_nms_holds_whole_scores_against_the_limit_as_written() -> None:
    apart = np.array([[0, 0, 1, 1], [5, 5, 6, 6], [9, 9, 10, 10]], np.float32)
    assert [one["score"] for one in run("nms", apart, np.array([0, 1, 2]), min_score=0.5)] == [2, 1]
    assert [one["score"] for one in run("nms", apart, np.array([0, 200, 100], np.uint8), min_score=100.5)] == [200]


def test_nms_labels_background_and_bounds() -> None:
    boxes = np.array([[0, 0, 10, 10], [0, 0, 10, 10], [50, 50, 60, 60]], np.float32)
    scores = np.array([[0.9, 0.1], [0.9, 0.8], [0.1, 0.7]], np.float32)
    found = run("nms", boxes, scores, min_score=0.5, background=0, labels=("none", "face"))
    assert [(one["label"], one["box"][0]) for one in found] == [("face", 0), ("face", 50)]
    assert len(run("nms", boxes, scores, max_boxes=1)) == 1
    assert len(run("nms", boxes, scores, max_candidates=1)) == 1
    assert run("nms", boxes[:0], scores[:0]) == []
    ordered = [one["score"] for one in run("nms", boxes, scores[:, 1])]
    assert all(a >= b for a, b in pairwise(ordered))
    # The intersection over union is 1 / 3, and one that is equal stays.
    pair = np.array([[0, 0, 10, 10], [5, 0, 15, 10]], np.float64)
    assert [len(run("nms", pair, np.ones(2), iou=limit)) for limit in (1 / 3, 0.33)] == [2, 1]


NMS_FAULTS: list[tuple[Any, Any, str]] = [
    (np.full((1, 4), np.nan), np.ones(1), "4 of 4 numbers are NaN"),
    (np.full((1, 4), np.inf), np.ones(1), "a box that counts has a corner at infinity"),
    (np.zeros((2, 4)), np.ones(1), r"boxes of shape \[2, 4\] and scores of shape \[1, 1\]"),
    (np.zeros((1, 5)), np.ones(1), r"boxes of shape \[1, 5\]"),
]


@pytest.mark.parametrize(("boxes", "scores", "message"), NMS_FAULTS)
def test_nms_faults(boxes: Any, scores: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run("nms", boxes, scores)


def test_detokenize(tokenizer: str) -> None:
    from tokenizers import Tokenizer

    told = Tokenizer.from_file(tokenizer)
    told.add_special_tokens(["[PAD]", "[CLS]", "[SEP]"])  # what is special is the file's to say
    told.save(tokenizer)
    ids = np.array([2, 4, 6, 3, 0, 0])
    assert run("detokenize", ids, tokenizer=tokenizer) == "red blue"
    assert run("detokenize", ids[:4], tokenizer=tokenizer, skip_special_tokens=False) == "[CLS] red blue [SEP]"
    assert run("detokenize", ids[:0], tokenizer=tokenizer) == ""
    for strange in (-100, 99999, 2**62):
        with pytest.raises(ValueError, match=f"the tokenizer has no token {strange}"):
            run("detokenize", np.array([4, strange]), tokenizer=tokenizer)
    with pytest.raises(ValueError, match=r"ids of dtype float64 and shape \[1\]; expected a row of integers"):
        run("detokenize", np.ones(1), tokenizer=tokenizer)


FLOWS: list[tuple[str, dict[str, Any], tuple[Value, ...], Value]] = [
    ("softmax", {}, (ROW,), Value(TENSOR, "float32", (4,), (0, 1))),
    ("softmax", {}, (Value(ANY),), Value(TENSOR, "float32", None, (0, 1))),
    ("sigmoid", {}, (Value(TENSOR, "float16", ()),), Value(TENSOR, "float32", (), (0, 1))),
    ("top_k", {"k": 4}, (ROW,), Value(JSON)),
    ("argmax", {}, (ROW,), Value(TENSOR, "int64", (), (0, 3))),
    ("argmax", {"labels": ABCD}, (ROW,), Value(TEXT)),
    ("argmax", {}, (Value(TENSOR, "float32", ("seq", None)),), Value(TENSOR, "int64", ("seq",))),
    ("argmax", {"labels": ABCD}, (Value(TENSOR, None, ("seq", 4)),), Value(JSON)),
    ("threshold", {"least": 0.5}, (ROW,), Value(TENSOR, "bool", (4,), (0, 1))),
    ("threshold", {"least": 0.5, "labels": ABCD}, (ROW,), Value(JSON)),
    ("boxes", {"format": "xywh"}, (Value(TENSOR, None, (9, 4)),), Value(TENSOR, "float32", (9, 4))),
    ("boxes", {"format": "xyxy", "size": (5, 9), "clip": True}, (Value(ANY),),
     Value(TENSOR, "float32", (None, 4), (0, 9))),
    ("nms", {"labels": ("a", "b")}, (Value(TENSOR, None, (9, 4)), Value(TENSOR, None, (9, 2))), Value(JSON)),
    ("detokenize", {"tokenizer": "x"}, (Value(TENSOR, "int64", (None,)),), Value(TEXT)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "params", "given", "found"), FLOWS)
def test_types(name: str, params: dict[str, Any], given: tuple[Value, ...], found: Value) -> None:
    assert step(name, **params).flow(*given) == (found,)


TABLE = Value(TENSOR, "float32", (9, 2))
MISFITS: list[tuple[str, dict[str, Any], tuple[Value, ...], str]] = [
    ("softmax", {}, (Value(NUMBER),), "takes tensor, not number"),
    ("softmax", {"axis": 1}, (ROW,), "axis is 1; there are 1 axes"),
    ("softmax", {"temperature": 0.0}, (ROW,), "temperature is 0.0; from 1e-6 to 1e6"),
    ("sigmoid", {}, (Value(JSON),), "takes tensor, not json"),
    ("top_k", {"k": 0}, (ROW,), "k is 0; at least 1, at most the 4 scores"),
    ("top_k", {"k": 5}, (ROW,), "k is 5; at least 1, at most the 4 scores"),
    ("top_k", {"k": 1}, (TABLE,), r"takes one row of scores, not shape \[9, 2\]"),
    ("argmax", {}, (Value(TENSOR, "float32", ()),), "takes an axis of scores, not a single number"),
    ("threshold", {"least": (0.5, 0.5)}, (ROW,), "2 limits for 4 scores"),
    ("threshold", {"least": (0.5,)}, (Value(TENSOR, None, ()),), "1 limits for 1 scores"),
    ("boxes", {"format": "xyxy"}, (TABLE,), r"takes rows of four numbers, not shape \[9, 2\]"),
    ("boxes", {"format": "xyxy", "normalized": True}, (Value(ANY),), "normalized needs size"),
    ("boxes", {"format": "xyxy", "clip": True}, (Value(ANY),), "clip needs size"),
    ("nms", {"iou": 50}, (Value(ANY), TABLE), "iou is 50; from 0 to 1"),
    ("nms", {}, (Value(TENSOR, None, (8, 4)), TABLE), "8 boxes for 9 rows of scores"),
    ("nms", {"background": 2}, (Value(ANY), TABLE), "background is 2; there are 2 classes"),
    ("nms", {"labels": ABCD}, (Value(ANY), TABLE), "4 labels for 2 scores"),
    ("nms", {"max_boxes": 0}, (Value(ANY), TABLE), "at least 1"),
    ("detokenize", {"tokenizer": "x"}, (ROW,), "takes whole numbers, not float32"),
]


@pytest.mark.parametrize(("name", "params", "given", "message"), MISFITS)
def test_misfits(name: str, params: dict[str, Any], given: tuple[Value, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        step(name, **params).flow(*given)
