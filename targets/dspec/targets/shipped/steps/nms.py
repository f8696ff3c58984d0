"""nms: overlapping boxes → the best of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ..scores import check_labels, checked, read_labels
from ..step import JSON, TENSOR, Value, accept


@dataclass(frozen=True, kw_only=True)
class Nms:
    """Non-maximum suppression: keep the best boxes, drop those that overlap a better one.

    Takes boxes [n, 4] as corners (see `boxes`) and scores [n] or [n, classes]; gives a list of {label, index, score,
    box}, best first; `index` is the class. A box is dropped when its intersection over union with a kept one is above
    `iou`. Of equal scores the lower row comes first, then the lower class. Computed in float64; a NaN is an error, and so
    is a corner at infinity of a box that counts (one below `min_score` is left out whatever its corners).

    Attributes:
        iou: the greatest intersection over union that two kept boxes may have, 0 to 1.
        min_score: boxes below it are left out first.
        max_boxes: how many are kept, over all classes.
        max_candidates: how many of the best are looked at; bounds the time.
        per_class: whether boxes of different classes leave each other alone.
        background: the class that stands for nothing, if any; its scores are left out.
        labels: the classes' names, in the order of the scores.
        labels_file: instead of `labels`: a text file, one name per line.
    """

    takes: ClassVar[int] = 2
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host",)
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    iou: float = 0.5
    min_score: float = 0.0
    max_boxes: int = 100
    max_candidates: int = 5000
    per_class: bool = True
    background: int | None = None
    labels: tuple[str, ...] = ()
    labels_file: str | None = field(default=None, metadata={"asset": True})

    def flow(self, boxes: Value, scores: Value) -> tuple[Value, ...]:
        accept(boxes, TENSOR)
        accept(scores, TENSOR)
        if not 0 <= self.iou <= 1:
            raise ValueError(f"iou is {self.iou}; from 0 to 1")
        if min(self.max_boxes, self.max_candidates) < 1:
            raise ValueError("max_boxes and max_candidates are at least 1")
        if boxes.shape is not None and (len(boxes.shape) != 2 or boxes.shape[1] not in (4, None)):
            raise ValueError(f"takes boxes as rows of four numbers, not shape {list(boxes.shape)}")
        self._check_scores(boxes, scores)
        return (Value(JSON),)

    def _check_scores(self, boxes: Value, scores: Value) -> None:
        if scores.shape is None:
            return
        if len(scores.shape) not in (1, 2):
            raise ValueError(f"takes a score per box, or one per box and class, not shape {list(scores.shape)}")
        rows = boxes.shape[0] if boxes.shape else None
        if isinstance(rows, int) and isinstance(scores.shape[0], int) and rows != scores.shape[0]:
            raise ValueError(f"{rows} boxes for {scores.shape[0]} rows of scores")
        classes = scores.shape[1] if len(scores.shape) == 2 else 1
        check_labels(self.labels, self.labels_file, classes)
        if self.background is not None and isinstance(classes, int) and not 0 <= self.background < classes:
            raise ValueError(f"background is {self.background}; there are {classes} classes")

    def open(self) -> Callable[[Any, Any], Any]:
        labels = read_labels(self.labels, self.labels_file)

        def nms(boxes: Any, scores: Any) -> Any:
            corners, table = _checked(boxes, scores, labels)
            rows, classes, values = self._candidates(table)
            _check_finite(corners[rows])
            kept = self._kept(corners[rows], classes)
            return [
                ({"label": labels[classes[at]]} if labels else {})
                | {"index": int(classes[at]), "score": values[at].item(), "box": corners[rows[at]].tolist()}
                for at in kept
            ]

        return nms

    def _candidates(self, table: Any) -> tuple[Any, Any, Any]:
        """(row, class, score) of what is above the least score, best first."""
        import numpy as np

        # In the scores' own float; whole numbers are held against the number as it is written, not cut to one of theirs.
        counts = table >= (np.asarray(self.min_score, table.dtype) if table.dtype.kind == "f" else self.min_score)
        if self.background is not None:
            counts[:, self.background] = False
        rows, classes = np.nonzero(counts)
        values = table[rows, classes]
        order = np.argsort(-values.astype(np.float64), kind="stable")[: self.max_candidates]
        return rows[order], classes[order], values[order]

    def _kept(self, corners: Any, classes: Any) -> list[int]:
        import numpy as np

        corners = corners.astype(np.float64)
        areas = np.prod(np.maximum(corners[:, 2:] - corners[:, :2], 0), axis=1)
        alive = np.ones(len(corners), bool)
        kept: list[int] = []
        for at in range(len(corners)):
            if not alive[at]:
                continue
            kept.append(at)
            if len(kept) == self.max_boxes:
                break
            rest = slice(at + 1, None)
            overlapping = _iou(corners[at], areas[at], corners[rest], areas[rest]) > self.iou
            if self.per_class:
                overlapping &= classes[rest] == classes[at]
            alive[rest] &= ~overlapping
        return kept


def _checked(boxes: Any, scores: Any, labels: tuple[str, ...]) -> tuple[Any, Any]:

    corners, table = checked(boxes), checked(scores)
    table = table.reshape(-1, 1) if table.ndim == 1 else table
    if corners.ndim != 2 or corners.shape[1] != 4 or table.ndim != 2 or len(corners) != len(table):
        raise ValueError(f"boxes of shape {list(corners.shape)} and scores of shape {list(table.shape)}")
    if labels and len(labels) != table.shape[1]:
        raise ValueError(f"{len(labels)} labels for {table.shape[1]} classes")
    return corners, table


def _check_finite(corners: Any) -> None:
    import numpy as np

    if not np.isfinite(corners).all():
        raise ValueError("a box that counts has a corner at infinity")


def _iou(corner: Any, area: Any, others: Any, areas: Any) -> Any:
    """Intersection over union of one box with others; 0 where both are empty."""
    import numpy as np

    sides = np.minimum(corner[2:], others[:, 2:]) - np.maximum(corner[:2], others[:, :2])
    shared = np.prod(np.maximum(sides, 0), axis=1)
    union = area + areas - shared
    return np.divide(shared, union, out=np.zeros_like(union), where=union > 0)


STEP = Nms
