"""What an answer and a label say, whatever form they have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


class FormError(Exception):
    """An answer or a label that a metric can make nothing of."""


def ranking(answer: Any, label: Any) -> list[Any]:
    """The classes an answer names, the best first.

    An object names its `label`; a list names them in order, as values or objects with `label`. A vector of
    floats holds a score per class where the label is a whole number: the index of the greatest comes first, and of
    equal scores the lower index. An empty list names none. Anything else is one class. Raises FormError for scores that
    are not finite.
    """
    value = answer.tolist() if isinstance(answer, np.ndarray | np.generic) else answer
    if _scores(value) and type(label) is int:
        scores = numbers(value)
        return [int(index) for index in np.argsort(-scores, kind="stable")]
    return named(value) if isinstance(value, list) else [_named(value)]


def named(entries: list[Any]) -> list[Any]:
    """What each entry of a list names: the `label` of an object, else the entry itself."""
    return [_named(entry) for entry in entries]


def check_same_list(found: Any, label: list[Any]) -> None:
    """Raise FormError where no answer of this form could equal a label that is a list."""
    if not isinstance(found, list):
        raise FormError(f"the answer is {_kind(found)} ({found!r:.60}), and the label is a list")
    if found and label and not isinstance(found[0], list):
        check_same_kind(named(found)[0], named(label)[0])


def _scores(value: Any) -> bool:
    return isinstance(value, list) and any(type(entry) is float for entry in value)


def _named(value: Any) -> Any:
    return value["label"] if isinstance(value, Mapping) and "label" in value else value


def check_same_kind(found: Any, label: Any) -> None:
    """Raise FormError for a text beside a number: they never are equal, whatever the model says."""
    one, other = _kind(found), _kind(label)
    if one != other:
        raise FormError(f"the answer is {one} ({found!r:.60}), and the label is {other} ({label!r:.60})")


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "text"
    return "a number" if isinstance(value, bool | int | float) else f"a {type(value).__name__}"


def numbers(value: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A number, or (nested lists of) numbers, as float64; FormError for anything else, NaN and infinity included."""
    try:
        if isinstance(value, str):
            raise ValueError
        found = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise FormError(f"{value!r:.60} is no number") from None
    if not np.isfinite(found).all():
        raise FormError("it holds NaN or infinity")
    return found
