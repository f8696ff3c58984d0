"""The values of a pipeline's steps as an .npz holds them, without a pickle.

`NN.<step>.<value>` is an array of numbers as it is; `NN.<step>.<value> (json)` holds anything else (a text, a number,
labels with their scores) as the UTF-8 bytes of its JSON. A value that has no JSON form is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .arrays import NUMBERS, Array
from .errors import BundleError
from .pipeline import Trace, to_json

JSON = " (json)"  # no name of a value holds a space


def packed_steps(trace: Sequence[tuple[str, str, Any]]) -> dict[str, Array]:
    """What each step gave, in order."""
    found = {}
    for number, (step, name, value) in enumerate(trace):
        key = f"{number:02d}.{step}.{name}"
        if isinstance(value, np.ndarray) and value.dtype.kind in NUMBERS:
            found[key] = value
        elif (text := _text(value)) is not None:
            found[key + JSON] = np.frombuffer(text, np.uint8)
    return found


def unpacked_steps(arrays: Mapping[str, Array]) -> Trace:
    """(step id, value name, value) in order; ValueError where JSON is none. Keys that name no step are left out."""
    return [_traced(*unpacked(key, array)) for key, array in arrays.items() if key[:1].isdigit()]


def unpacked(key: str, array: Array) -> tuple[str, Any]:
    """The key without its mark, and the value."""
    if not key.endswith(JSON):
        return key, array
    return key.removesuffix(JSON), json.loads(array.astype(np.uint8).tobytes())


def _text(value: Any) -> bytes | None:
    try:
        return json.dumps(to_json(value), sort_keys=True, allow_nan=False).encode()
    except (BundleError, RecursionError):
        return None


def _traced(key: str, value: Any) -> tuple[str, str, Any]:
    # Step ids and value names may hold dots; what stands between first and last is the step.
    _, _, rest = key.partition(".")
    step, _, name = rest.rpartition(".")
    return step, name, value
