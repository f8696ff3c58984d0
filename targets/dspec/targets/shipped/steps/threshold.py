"""threshold: which scores count."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ..scores import check_labels, checked, checked_row, descending, read_labels, records, score_row
from ..step import JSON, TENSOR, Value, accept


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """Whether each score is at or above a limit; with labels, the list of those that are.

    Gives bool of the same shape; with labels a list of {label, index, score} of a row of scores, best first, of equal
    scores the lower index first. A NaN among the scores is an error.

    Attributes:
        least: the limit, or one per class (last axis); a score equal to it counts. Compared in the scores' own dtype.
        labels: the classes' names, in the order of the scores.
        labels_file: instead of `labels`: a text file, one name per line.
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host",)
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    least: float | tuple[float, ...]
    labels: tuple[str, ...] = ()
    labels_file: str | None = field(default=None, metadata={"asset": True})

    def flow(self, value: Value) -> tuple[Value, ...]:
        accept(value, TENSOR)
        classes = value.shape[-1] if value.shape else None
        self._check_limits(value, classes)
        check_labels(self.labels, self.labels_file, classes)
        if self.labels or self.labels_file is not None:
            score_row(value)
            return (Value(JSON),)
        return (Value(TENSOR, "bool", value.shape, (0.0, 1.0)),)

    def _check_limits(self, value: Value, classes: Any) -> None:
        if isinstance(self.least, (int, float)):
            limits: tuple[float, ...] = (self.least,)
        else:
            limits = tuple(self.least)
            if value.shape == () or (isinstance(classes, int) and len(limits) != classes):
                raise ValueError(f"{len(limits)} limits for {classes if value.shape else 1} scores")
        if not limits or not all(map(math.isfinite, limits)):
            raise ValueError("least is a finite number, or one per class")

    def open(self) -> Callable[[Any], Any]:
        import numpy as np

        labels = read_labels(self.labels, self.labels_file)
        limits = np.asarray(self.least, np.float64)

        def threshold(scores: Any) -> Any:
            row = checked_row(scores, labels) if labels else checked(scores)
            if limits.ndim and row.shape[-1:] != limits.shape:
                raise ValueError(f"{limits.size} limits for scores of shape {list(row.shape)}")
            least = limits.astype(row.dtype) if row.dtype.kind == "f" else limits
            counts = np.asarray(row >= least)
            return records((at for at in descending(row) if counts[at]), row, labels) if labels else counts

        return threshold


STEP = Threshold
