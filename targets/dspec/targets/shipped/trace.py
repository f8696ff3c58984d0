"""A trace: one request, the value after every step, and the answer, in one .npz file.

request                uint8: the request as JSON, its files within
NN.<step>.<value>      what each step before the model gave; `… (json)` where it is no array (values.py)
door.<input>           the tensors at the model's door, batch axis included
output.<output>        what the model gave
NN.<step>.<value>      what each step after the model gave
response               uint8: the response as JSON
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .arrays import Array
from .errors import BundleError
from .golden import DOOR, read_npz, write_npz
from .pipeline import Trace, to_json
from .values import packed_steps, unpacked

OUTPUT = "output."
REQUEST, RESPONSE = "request", "response"


class Traced(NamedTuple):
    """A trace that was read: `values` in order by `<step>.<value>`, `door.<input>`, `output.<output>`; arrays, or JSON."""

    request: dict[str, Any] | None
    values: dict[str, Any]
    response: Any


def write_trace(
    path: Path,
    request: Mapping[str, Any],
    trace: Trace,
    door: Mapping[str, Array],
    outputs: Mapping[str, Array],
    response: Mapping[str, Any],
    before: int,
) -> None:
    """Write one request (Python form) and what became of it; OSError.

    `before` counts the values of `trace` that come before the model.
    """
    steps = packed_steps(trace)
    first = packed_steps(trace[:before])
    arrays = {
        REQUEST: _packed(to_raw(request)),
        **first,
        **{DOOR + name: array for name, array in door.items()},
        **{OUTPUT + name: array for name, array in outputs.items()},
        **{key: value for key, value in steps.items() if key not in first},
        RESPONSE: _packed(to_json(response)),
    }
    write_npz(path, arrays)


def read_trace(path: Path) -> Traced:
    """A trace, or the trace.npz of a golden vector; GoldenError where the file is neither."""
    arrays = read_npz(path)
    request, response = (_unpacked(path, arrays.pop(key, None)) for key in (REQUEST, RESPONSE))
    values: dict[str, Any] = {}
    for key, array in arrays.items():
        name, value = _value(path, key, array)
        values[f"{name} (after the model)" if name in values else name] = value
    return Traced(request, values, response)


def values_before(declared: Mapping[str, Any]) -> int:
    """How many values the steps before the model write: `declared` is pipeline.json."""
    return sum(len(step["out"]) for step in declared["before"])


def to_raw(request: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON form of a request in Python form, its bytes within; `request.read_request` reads it back."""
    return {name: _raw(value) for name, value in request.items()}


def _raw(value: Any) -> Any:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else to_json(value)


def _value(path: Path, key: str, array: Array) -> tuple[str, Any]:
    if not key[:1].isdigit():
        return key, array
    try:
        whole, value = unpacked(key, array)
    except ValueError as error:
        raise BundleError(f"{path.name} is no trace: {error}") from error
    return whole.partition(".")[2], value


def _packed(value: Any) -> Array:
    return np.frombuffer(json.dumps(value, ensure_ascii=False, allow_nan=False).encode(), np.uint8)


def _unpacked(path: Path, array: Array | None) -> Any:
    if array is None:
        return None
    try:
        return json.loads(array.astype(np.uint8).tobytes())
    except ValueError as error:
        raise BundleError(f"{path.name} is no trace: {error}") from error
