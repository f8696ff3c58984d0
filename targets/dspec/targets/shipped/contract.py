"""What the caller owes a bundle, as golden vectors define it: the steps that it does itself, before and after.

    caller/request.json   the raw request in JSON form, its files beside it
    caller/answer.json    {"response": {…}}: the whole response, the caller's last steps included
    caller/values.json    {"values": {"NN.<step>.<value>": …}, "files": {name: sha256}}

A value of the caller's steps is {"dtype", "shape", "sha256"} of an array, which lies in ../trace.npz under the same
name (sha256 of its bytes in C order, little-endian), or {"value", "sha256"} of anything else (sha256 of its canonical
JSON: keys sorted, no spaces, UTF-8).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .arrays import NUMBERS, Array, is_array
from .pipeline import to_json

FOLDER = "caller"
REQUEST, ANSWER, VALUES = "request.json", "answer.json", "values.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Contract:
    """The caller's part of one fixture.

    Attributes:
        request: raw, in JSON form; its file fields name entries of `files`.
        response: whole, as the caller's last steps leave it.
        values: what each of the caller's steps gives, by `NN.<step>.<value>`.
        files: path relative to the request → content; empty when read.
        noted: the content of values.json; empty before it is written.
    """

    request: Mapping[str, Any]
    response: Mapping[str, Any]
    values: Mapping[str, Any]
    files: Mapping[str, bytes] = field(default_factory=dict)
    noted: Mapping[str, Any] = field(default_factory=dict)


def note(values: Mapping[str, Any], files: Mapping[str, bytes]) -> dict[str, Any]:
    """The content of values.json for these values, and files by their path in caller/."""
    return {
        "values": {name: _noted(value) for name, value in values.items()},
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    }


def altered(noted: Mapping[str, Any], folder: Path, arrays: Mapping[str, Array]) -> list[str]:
    """What in caller/ or in trace.npz is not what was recorded, in words; KeyError or TypeError where it is malformed."""
    found = [
        f"{name} {problem}" for name, kept in noted["values"].items() if (problem := _altered(kept, arrays.get(name)))
    ]
    for name, sha256 in noted["files"].items():
        path = folder / name
        inside = path.resolve().is_relative_to(folder.resolve())
        if not inside or not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
            found.append(f"{FOLDER}/{name} is not what was recorded")
    return found


def _noted(value: Any) -> dict[str, Any]:
    if is_array(value) and value.dtype.kind in NUMBERS:
        return {"dtype": value.dtype.name, "shape": list(value.shape), "sha256": _digest(value)}
    plain = to_json(value)
    return {"value": plain, "sha256": hashlib.sha256(_canonical(plain)).hexdigest()}


def _altered(kept: Mapping[str, Any], array: Array | None) -> str:
    if "value" in kept:
        same = hashlib.sha256(_canonical(kept["value"])).hexdigest() == kept["sha256"]
        return "" if same else "is not the value that was recorded"
    if array is None:
        return "is missing in trace.npz"
    if array.dtype.name != kept["dtype"] or list(array.shape) != kept["shape"]:
        return f"is {array.dtype.name} {list(array.shape)}, recorded {kept['dtype']} {kept['shape']}"
    return "" if _digest(array) == kept["sha256"] else "is not the array that was recorded"


def _digest(array: Array) -> str:
    return hashlib.sha256(array.astype(array.dtype.newbyteorder("<"), "C").tobytes()).hexdigest()


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
