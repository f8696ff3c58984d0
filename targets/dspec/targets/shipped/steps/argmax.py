"""argmax: the best class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ..scores import check_labels, checked, read_labels
from ..step import JSON, TENSOR, TEXT, Value, accept


@dataclass(frozen=True, kw_only=True)
class Argmax:
    """The index of the greatest score along the last axis, or its label.

    Gives int64 with the last axis removed; with labels a text, or nested lists of texts where the scores have several
    axes (one label per token). Of equal scores the lowest index counts. A NaN among the scores is an error.

    Attributes:
        labels: the classes' names, in the order of the scores.
        labels_file: instead of `labels`: a text file, one name per line.
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host", "graph")
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    labels: tuple[str, ...] = ()
    labels_file: str | None = field(default=None, metadata={"asset": True})

    def flow(self, value: Value) -> tuple[Value, ...]:
        accept(value, TENSOR)
        if value.shape == ():
            raise ValueError("takes an axis of scores, not a single number")
        classes = value.shape[-1] if value.shape else None
        check_labels(self.labels, self.labels_file, classes)
        if self.labels or self.labels_file is not None:
            return (Value(TEXT if value.shape is not None and len(value.shape) == 1 else JSON),)
        bounds = (0.0, classes - 1.0) if isinstance(classes, int) else None
        return (Value(TENSOR, "int64", None if value.shape is None else value.shape[:-1], bounds),)

    def open(self) -> Callable[[Any], Any]:
        import numpy as np

        labels = read_labels(self.labels, self.labels_file)
        names = np.array(labels, object)

        def argmax(scores: Any) -> Any:
            array = checked(scores)
            if not array.ndim or not array.shape[-1]:
                raise ValueError(f"scores of shape {list(array.shape)}; expected at least one per row")
            if labels and len(labels) != array.shape[-1]:
                raise ValueError(f"{len(labels)} labels for {array.shape[-1]} scores")
            best = np.asarray(array.argmax(axis=-1), np.int64)
            return names[best].tolist() if labels and best.ndim else names[int(best)] if labels else best

        return argmax


STEP = Argmax
