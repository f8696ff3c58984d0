"""Tensors of the Open Inference Protocol, version 2, as JSON and in its binary extension."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from ..arrays import Array
from ..pipeline import to_json
from .datatypes import BYTES, DTYPES, NAMES
from .refusals import Refusal


def bad(message: str, field: str = "") -> Refusal:
    return Refusal(400, "bad_tensor", f"{field}: {message}" if field else message, field)


def read_tensor(given: Any, rest: memoryview) -> tuple[str, Any, int]:
    """Name, value (an array; a list of bytes or texts for BYTES) and the bytes of `rest` that it took."""
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        raise bad("an input is an object with name, shape, datatype and data")
    name, shape, datatype = given["name"], given.get("shape"), given.get("datatype")
    if not isinstance(shape, list) or any(type(size) is not int or size < 0 for size in shape):
        raise bad(f"shape {shape!r}; expected a list of sizes", name)
    if not isinstance(datatype, str) or datatype not in (BYTES, *DTYPES):
        raise bad(f"datatype {datatype!r}; expected one of {', '.join((BYTES, *DTYPES))}", name)
    parameters = given.get("parameters") or {}
    size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    if size is None:
        return name, _from_json(name, given.get("data"), shape, datatype), 0
    if type(size) is not int or not 0 <= size <= len(rest):
        raise bad(f"binary_data_size {size!r}, and {len(rest)} bytes are left of the body", name)
    if datatype == BYTES:
        return name, _texts(name, rest[:size], math.prod(shape)), size
    kind = np.dtype(DTYPES[datatype])
    if size != math.prod(shape) * kind.itemsize:
        raise bad(f"{size} bytes for shape {shape} of {datatype}", name)
    return name, np.frombuffer(rest[:size], kind.newbyteorder("<")).astype(kind).reshape(shape), size


def _texts(name: str, data: memoryview, count: int) -> list[bytes]:
    """Each element: its length in four little-endian bytes, then itself."""
    found, at = [], 0
    while at + 4 <= len(data):
        size = int.from_bytes(data[at : at + 4], "little")
        found.append(bytes(data[at + 4 : at + 4 + size]))
        at += 4 + size
    if at != len(data) or len(found) != count:
        raise bad(f"{len(found)} elements of {at} bytes in {len(data)} bytes; expected {count} elements", name)
    return found


def _from_json(name: str, data: Any, shape: list[int], datatype: str) -> Any:
    if not isinstance(data, list):
        raise bad("no data; expected a list, or parameters.binary_data_size", name)
    flat = _flat(data)
    if len(flat) != math.prod(shape):
        raise bad(f"{len(flat)} elements for shape {shape}", name)
    if datatype == BYTES:
        if not all(isinstance(value, str) for value in flat):
            raise bad("a value that is no text, and the datatype is BYTES", name)
        return flat
    taken = _TAKEN[np.dtype(DTYPES[datatype]).kind]
    if not set(map(type, flat)) <= taken:
        odd = next(value for value in flat if type(value) not in taken)
        raise bad(f"the value {str(odd)[:40]}; expected {datatype} throughout", name)
    try:
        with np.errstate(over="raise"):
            return np.array(flat, DTYPES[datatype]).reshape(shape)
    except (OverflowError, FloatingPointError) as error:
        raise bad(f"a value outside the range of {datatype}", name) from error


_TAKEN: dict[str, set[type]] = {"b": {bool}, "i": {int}, "u": {int}, "f": {int, float}}


def _flat(data: list[Any], depth: int = 0) -> list[Any]:
    if not any(type(value) is list for value in data):
        return data
    if depth > 32 or not all(type(value) is list for value in data):
        raise bad("data of uneven depth")
    return [inner for value in data for inner in _flat(value, depth + 1)]


def described(name: str, value: Any) -> dict[str, Any]:
    """Name, datatype and shape of an array, or of a list of texts or bytes."""
    if isinstance(value, np.ndarray):
        return {"name": name, "datatype": NAMES[value.dtype.name], "shape": list(value.shape)}
    return {"name": name, "datatype": BYTES, "shape": [len(value)]}


def binary(value: Array | Sequence[bytes]) -> bytes:
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value, value.dtype.newbyteorder("<")).tobytes()
    return b"".join(len(text).to_bytes(4, "little") + text for text in value)


def as_json(value: Array | Sequence[bytes]) -> list[Any]:
    """Flat, in C order; the texts nan, inf and -inf where a number is not finite, as in every answer."""
    if not isinstance(value, np.ndarray):
        return [text.decode(errors="replace") for text in value]
    found: list[Any] = to_json(value.reshape(-1))
    return found


def column(values: Sequence[Any]) -> Array | list[bytes]:
    """One field of several answers as one tensor, an item per row; texts, and what is no number, as BYTES (JSON)."""
    if all(isinstance(value, (bool, int, float, np.ndarray, np.generic)) for value in values):
        arrays = [_array(value) for value in values]
        if all(array.dtype.name in NAMES for array in arrays):
            try:
                return np.stack(arrays)
            except ValueError as error:
                shapes = ", ".join(str(list(array.shape)) for array in arrays[:4])
                raise Refusal(422, "uneven", f"answers of shapes {shapes} are no tensor: ask one by one") from error
    return [value.encode() if isinstance(value, str) else orjson.dumps(to_json(value)) for value in values]


def _array(value: Any) -> Array:
    return np.array(value, np.float64) if type(value) is float else np.asarray(value)


def parameter(given: Mapping[str, Any], name: str) -> Any:
    found = given.get("parameters")
    return found.get(name) if isinstance(found, dict) else None
