"""The value after every step, held against the one that a golden vector recorded: the first step that differs is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .compare import compare
from .pipeline import Trace, to_json
from .tolerance import broken_by

NEAR = 1e-5  # of a float value's greatest number, and of each number: between machines
Differences = Callable[[Any, Any], list[str]]


def first_apart(
    recorded: Sequence[tuple[str, str, Any]], before: Trace, after: Trace, differences: Differences
) -> tuple[str, list[str]]:
    """(which step, how far off) of the first value that is not as recorded; ("", []) where all are.

    `recorded` may hold steps that do not run here: those in the graph, and the caller's. A step of a bundle for which
    nothing was recorded (its value is no JSON) is not held. `differences` compares two JSON values.
    """
    for steps, which in ((before, 0), (after, -1)):
        for step, name, value in steps:
            same = [kept for other, its, kept in recorded if (other, its) == (step, name)]
            if same and (reasons := _apart(same[which], value, differences)):
                return f"step {step} ({name}), the first that differs", reasons
    return "", []


def _apart(recorded: Any, found: Any, differences: Differences) -> list[str]:
    if not isinstance(recorded, np.ndarray):
        return differences(recorded, to_json(found))
    if not isinstance(found, np.ndarray):
        return [f"{type(found).__name__}, recorded {recorded.dtype} {list(recorded.shape)}"]
    error = compare(recorded, found)
    if recorded.dtype.kind != "f":
        return broken_by(error, {"atol": 0.0, "rtol": 0.0})
    finite = np.abs(recorded[np.isfinite(recorded)])
    return broken_by(error, {"atol": NEAR * max(1.0, float(finite.max(initial=0.0))), "rtol": NEAR})
