"""A request: from JSON values to Python values, and whether it is one that is declared.

JSON form: an object of fields. text: a string; image and audio: a path relative to the JSON file's
folder, or {"file": path}, or {"base64": text}; tensor: nested lists, or {"npy": path}; number and
json: as they are. Python form: text str, image and audio bytes, tensor ndarray, number float, json
any.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np

from .arrays import NUMBERS, Array, cast, dtype, position
from .errors import BundleError, RequestError, kind
from .nested import fits, from_lists

LABEL = "expected"  # of fixtures: the label, no field
DEFAULT_MAX_BYTES = 10_000_000
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)

Fields = Mapping[str, Mapping[str, Any]]


def read_request(fields: Fields, raw: Any, folder: Path | None) -> dict[str, Any]:
    """The Python form of a request in JSON form, checked.

    `fields` is `request` of pipeline.json. Files are read from `folder` and its subfolders only;
    with None, not at all. Raises RequestError: a field unknown or missing, a value of another
    type, too large, NaN, a file outside.
    """
    if not isinstance(raw, Mapping):
        raise RequestError("", f"{kind(raw)}", f"an object with {_names(fields)}")
    given = {name: value for name, value in raw.items() if name in fields or name != LABEL}
    _check_names(fields, given)
    return {
        name: _READ[declared["type"]](_Field(name, declared, folder), given[name]) for name, declared in fields.items()
    }


def check_request(fields: Fields, request: Mapping[str, Any]) -> dict[str, Any]:
    """The request in Python form, checked; tensors cast to the declared dtype; RequestError."""
    return checker(fields)(request)


def checker(fields: Fields) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """`check_request` for many requests of the same fields."""
    checks = [(name, _CHECK[declared["type"]], _Field(name, declared, None)) for name, declared in fields.items()]

    def check(request: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(request, Mapping):
            raise RequestError("", f"{kind(request)}", f"an object with {_names(fields)}")
        if request.keys() != fields.keys():
            _check_names(fields, request)
        return {name: look(field, request[name]) for name, look, field in checks}

    return check


def _check_names(fields: Fields, given: Mapping[str, Any]) -> None:
    for name in given:
        if name not in fields:
            raise RequestError(str(name), "an unknown field", _names(fields))
    for name in fields:
        if name not in given:
            raise RequestError(name, "nothing", f"the field {name} ({fields[name]['type']})")


def _names(fields: Fields) -> str:
    return f"the field{'s' if len(fields) > 1 else ''} {', '.join(fields)}"


class _Field:
    """One declared field, and the folder that its files may come from."""

    def __init__(self, name: str, declared: Mapping[str, Any], folder: Path | None) -> None:
        self.name, self.declared, self.folder = name, declared, folder
        self.max_bytes = int(declared.get("max_bytes") or DEFAULT_MAX_BYTES)

    def refuse(self, found: str, expected: str) -> RequestError:
        return RequestError(self.name, found, expected)

    @property
    def dtype(self) -> np.dtype[Any] | None:
        name = self.declared.get("dtype")
        try:
            return dtype(name) if name else None
        except ValueError as error:
            raise BundleError(f"field {self.name}: {error}") from error

    def bounded(self, size: int) -> None:
        if size > self.max_bytes:
            raise self.refuse(f"{size} bytes", f"at most {self.max_bytes} bytes")

    def path(self, name: Any) -> Path:
        if not isinstance(name, str) or not name or "\0" in name:
            raise self.refuse(kind(name), "the path of a file")
        if self.folder is None:
            raise self.refuse(f"the file {name!r}", 'the content itself, as {"base64": …} or nested lists')
        root = self.folder.resolve()
        try:
            found = (root / name).resolve()
            there = found.is_file()
        except (OSError, RuntimeError, ValueError) as error:  # too long, links in a circle, no text for a file name
            raise self.refuse(f"the file {name[:80]!r}, whose name can't be looked up", f"a file in {root}") from error
        if not found.is_relative_to(root):
            raise self.refuse(f"the file {name!r}, which lies outside the request's folder", "a path inside it")
        if not there:
            raise self.refuse(f"the file {name!r}, which is not there", f"a file in {root}")
        self.bounded(found.stat().st_size)
        return found

    def content(self, name: Any) -> bytes:
        path = self.path(name)
        try:
            return path.read_bytes()
        except OSError as error:
            raise self.refuse(f"the file {name!r}, which can't be read ({error.strerror})", "a file to read") from error

    def base64(self, text: Any) -> bytes:
        if not isinstance(text, str):
            raise self.refuse(kind(text), "base64 text")
        self.bounded(len(text) * 3 // 4 - 2)
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise self.refuse("text that is not base64", "base64 text, with padding and without line breaks") from error


def _text(field: _Field, value: Any) -> str:
    if not isinstance(value, str):
        raise field.refuse(kind(value), "a text")
    try:
        field.bounded(len(value.encode()))
    except UnicodeEncodeError as error:
        raise field.refuse(f"half of a surrogate pair at character {error.start}", "Unicode text") from error
    return value


def _bytes(field: _Field, value: Any) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise field.refuse(kind(value), f"the bytes of an {field.declared['type']}")
    field.bounded(len(value))
    return bytes(value)


def _read_bytes(field: _Field, value: Any) -> bytes:
    if isinstance(value, str):
        return field.content(value)
    if isinstance(value, Mapping) and set(value) == {"file"}:
        return field.content(value["file"])
    if isinstance(value, Mapping) and set(value) == {"base64"}:
        return _bytes(field, field.base64(value["base64"]))
    raise field.refuse(kind(value), 'a path, {"file": path} or {"base64": text}')


def _number(field: _Field, value: Any) -> float:
    if isinstance(value, np.generic) and value.dtype.kind in "iuf":
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise field.refuse(kind(value), "a number")
    return _finite(field, value)


def _finite(field: _Field, value: float) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise field.refuse(
            f"the number {value if math.isnan(number) else 'beyond all doubles'}",
            "a finite number",
        )
    return number


def _json(field: _Field, value: Any) -> Any:
    try:
        field.bounded(len(_ENCODER.encode(value).encode()))
    except (TypeError, ValueError, RecursionError) as error:
        if isinstance(error, RequestError):
            raise
        raise field.refuse(f"a value that is no JSON ({error})", "JSON with finite numbers") from error
    return value


def _tensor(field: _Field, value: Any) -> Array:
    if not isinstance(value, np.ndarray):
        raise field.refuse(kind(value), "an array")
    if value.dtype.kind not in NUMBERS:
        raise field.refuse(f"an array of dtype {value.dtype}", "an array of numbers")
    field.bounded(value.nbytes)
    wanted = field.dtype or value.dtype.newbyteorder("=")
    try:
        array = cast(value, wanted)
    except ValueError as error:
        raise field.refuse(str(error), wanted.name) from error
    _check_finite(field, array)
    wanted_shape = field.declared.get("shape")
    if wanted_shape is not None and not fits(array.shape, wanted_shape):
        raise field.refuse(f"shape {list(array.shape)}", f"shape [{', '.join(map(str, wanted_shape))}]")
    return array


def _read_tensor(field: _Field, value: Any) -> Array:
    if isinstance(value, Mapping) and set(value) == {"npy"}:
        content = field.content(value["npy"])
        try:
            loaded = array_from_npy(content)
        except ValueError as error:
            raise field.refuse(
                f"the file {value['npy']!r}, which is no .npy array ({error})", "a .npy array"
            ) from error
        return _tensor(field, loaded)
    if isinstance(value, Mapping):
        raise field.refuse(kind(value), 'nested lists of numbers, or {"npy": path}')
    return _tensor(field, from_lists(value, field.dtype, field.refuse))


def array_from_npy(content: bytes) -> Array:
    """The array of a .npy file; ValueError where it is none of plain numbers, or announces other than it holds.

    `np.load` would take memory for whatever shape the header names, before it looks for the data.
    """
    stream = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(stream)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, by_columns, kind = read(stream)
    except KeyError as error:
        raise ValueError(f"version {error} of the format") from error
    except (EOFError, TypeError, SyntaxError, TokenError, RecursionError, MemoryError, OverflowError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    left = content[stream.tell() :]
    if kind.kind not in NUMBERS or any(size < 0 for size in shape) or math.prod(shape) * kind.itemsize != len(left):
        raise ValueError(f"{len(left)} bytes for shape {shape} of {kind}")
    try:
        return np.frombuffer(left, kind).reshape(shape, order="F" if by_columns else "C").copy()
    except OverflowError as error:
        raise ValueError(f"shape {shape}") from error


def _check_finite(field: _Field, array: Array) -> None:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        where = tuple(np.argwhere(~np.isfinite(array))[0])
        raise field.refuse(f"{array[where]} at {position(where)}", "finite numbers")


_READ: dict[str, Callable[[_Field, Any], Any]] = {
    "text": _text,
    "image": _read_bytes,
    "audio": _read_bytes,
    "tensor": _read_tensor,
    "number": _number,
    "json": _json,
}
_CHECK = _READ | {"image": _bytes, "audio": _bytes, "tensor": _tensor}
