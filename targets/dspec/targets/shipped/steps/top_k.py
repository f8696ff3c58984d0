"""top_k: the best classes with their scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ..scores import check_labels, checked_row, descending, read_labels, records, score_row
from ..step import JSON, Value


@dataclass(frozen=True, kw_only=True)
class TopK:
    """The `k` greatest of a row of scores, best first: a list of {label, index, score}.

    Of equal scores the lower index comes first. `label` is left out where no labels are given. A NaN among the scores
    is an error.

    Attributes:
        k: how many; at least 1.
        labels: the classes' names, in the order of the scores.
        labels_file: instead of `labels`: a text file, one name per line.
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host",)
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    k: int
    labels: tuple[str, ...] = ()
    labels_file: str | None = field(default=None, metadata={"asset": True})

    def flow(self, value: Value) -> tuple[Value, ...]:
        classes = score_row(value)
        check_labels(self.labels, self.labels_file, classes)
        if self.k < 1 or (isinstance(classes, int) and self.k > classes):
            most = f", at most the {classes} scores" if isinstance(classes, int) else ""
            raise ValueError(f"k is {self.k}; at least 1{most}")
        return (Value(JSON),)

    def open(self) -> Callable[[Any], Any]:
        labels = read_labels(self.labels, self.labels_file)

        def top_k(scores: Any) -> Any:
            row = checked_row(scores, labels)
            return records(descending(row)[: self.k], row, labels)

        return top_k


STEP = TopK
