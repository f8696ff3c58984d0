"""What the steps after a model share: scores without NaN, labels, and answers as records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .step import TENSOR, Value, accept

Labels = Sequence[str]
Record = dict[str, Any]  # {"label": text, where there are labels; "index": int; "score": float}


def check_labels(labels: Labels, file: str | None, classes: Any) -> None:
    """Nothing if the labels may fit that many classes (None: not known); ValueError in words otherwise."""
    if labels and file is not None:
        raise ValueError("labels and labels_file are both given; takes one of them")
    if labels and isinstance(classes, int) and len(labels) != classes:
        raise ValueError(f"{len(labels)} labels for {classes} scores")


def read_labels(labels: Labels, file: str | None) -> tuple[str, ...]:
    """The labels: those given, or the lines of the file (UTF-8; empty lines at its end do not count); () for none."""
    if file is None:
        return tuple(labels)
    try:
        text = Path(file).read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{Path(file).name} is not UTF-8 (byte {error.start})") from error
    return tuple(line.strip() for line in text.rstrip().splitlines())


def score_row(value: Value) -> Any:
    """How many scores the flow value holds, None where that is not known; ValueError unless it is one row of scores."""
    accept(value, TENSOR)
    if value.shape is None:
        return None
    if len(value.shape) != 1:
        raise ValueError(f"takes one row of scores, not shape {list(value.shape)}")
    return value.shape[0]


def checked_row(scores: Any, labels: Labels) -> Any:
    """The scores as an array: one row, a label each where there are labels, no NaN; ValueError in words."""
    row = checked(scores)
    if row.ndim != 1:
        raise ValueError(f"scores of shape {list(row.shape)}; expected one row")
    if labels and len(labels) != row.size:
        raise ValueError(f"{len(labels)} labels for {row.size} scores")
    return row


def checked(scores: Any) -> Any:
    """Scores or boxes as an array without NaN; ValueError: an answer made of NaN would look like any other."""
    import numpy as np

    array = np.asarray(scores)
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError(f"{int(np.isnan(array).sum())} of {array.size} numbers are NaN")
    return array


def descending(scores: Any) -> Any:
    """Indices of one row, best first; of equal scores the lower index first."""
    import numpy as np

    # Negating wraps the least integer and unsigned ones; reversed twice, a stable sort keeps ties in order.
    return scores.size - 1 - np.argsort(scores[::-1], kind="stable")[::-1]


def records(indices: Iterable[Any], scores: Any, labels: Labels) -> list[Record]:
    """One record per index, in that order."""
    return [
        ({"label": labels[int(index)]} if labels else {}) | {"index": int(index), "score": scores[index].item()}
        for index in indices
    ]
