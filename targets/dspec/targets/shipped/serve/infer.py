"""`POST /v2/models/…/infer`: inputs to requests or tensors, answers to outputs."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from ..request import read_request
from .datatypes import field_datatype
from .predict import BINARY, parse
from .refusals import Refusal, refused
from .tensors import as_json, bad, binary, column, described, parameter, read_tensor

Values = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What is asked for: `outputs` name → whether in binary; `default` where none is named.

    `company`: of a traced request, with how many others it is to run.
    """

    id: str
    outputs: Mapping[str, bool]
    default: bool
    company: int = 1


def read(body: bytes, meta: bytes) -> tuple[Values, Wanted]:
    """The tensors by name, and what is wanted. Refusal 400."""
    size = len(body) if not meta else _size(meta, len(body))
    found = parse(body[:size])
    if not isinstance(found, dict) or not isinstance(found.get("inputs"), list):
        raise Refusal(400, "bad_request", "the body has no list `inputs`")
    values: Values = {}
    rest = memoryview(body)[size:]
    for given in found["inputs"]:
        name, value, taken = read_tensor(given, rest)
        if name in values:
            raise bad("given twice", name)
        values[name], rest = value, rest[taken:]
    if len(rest):
        raise Refusal(400, "bad_request", f"{len(rest)} bytes behind the last input")
    return values, _wanted(found)


def _size(meta: bytes, whole: int) -> int:
    if not meta.isdigit() or int(meta) > whole:
        raise Refusal(400, "bad_request", f"Inference-Header-Content-Length: {meta.decode('latin-1')} of {whole} bytes")
    return int(meta)


def _wanted(found: Mapping[str, Any]) -> Wanted:
    outputs = found.get("outputs") or []
    if not isinstance(outputs, list) or not all(
        isinstance(one, dict) and isinstance(one.get("name"), str) for one in outputs
    ):
        raise Refusal(400, "bad_request", "`outputs` is a list of objects with a name")
    id = found.get("id", "")
    if not isinstance(id, str):
        raise Refusal(400, "bad_request", "`id` is a text")
    default = bool(parameter(found, "binary_data_output"))
    named = {one["name"]: default if (b := parameter(one, "binary_data")) is None else bool(b) for one in outputs}
    company = parameter(found, "company")
    return Wanted(id=id, outputs=named, default=default, company=company if type(company) is int else 1)


def requests(fields: Mapping[str, Any], values: Values, most: int) -> list[dict[str, Any]]:
    """One request per row of the inputs, in Python form."""
    for name in values:
        if name not in fields:
            raise Refusal(422, "invalid_request", f"{name}: an unknown input; expected {', '.join(fields)}", name)
    counts = {name: len(value) if isinstance(value, list) or value.ndim else 0 for name, value in values.items()}
    found = next(iter(counts.values()), 0)
    if set(counts.values()) != {found} or not 1 <= found <= most:
        raise Refusal(
            422,
            "invalid_request",
            f"inputs of {sorted(set(counts.values()))} rows; each has the same number of rows, from 1 to {most}",
        )
    return [_request(fields, {name: value[row] for name, value in values.items()}, row) for row in range(found)]


def _request(fields: Mapping[str, Any], row: Values, number: int) -> dict[str, Any]:
    raw = {name: _raw(name, fields[name]["type"], value) for name, value in row.items()}
    arrays = {name: value for name, value in row.items() if name in raw and raw[name] is _ARRAY}
    try:
        if not arrays:
            return read_request(fields, raw, None)
        from ..request import check_request

        plain = {name: declared for name, declared in fields.items() if name not in arrays}
        return check_request(
            fields, read_request(plain, {k: v for k, v in raw.items() if k not in arrays}, None) | arrays
        )
    except Exception as error:
        raise refused(error, number if number else None).refusal from error


_ARRAY = object()


def _raw(name: str, kind: str, value: Any) -> Any:
    """The JSON form of one value of a row."""
    if kind in BINARY and isinstance(value, (bytes, str)):  # JSON has no bytes: base64
        return {"base64": base64.b64encode(value).decode() if isinstance(value, bytes) else value}
    if kind == "tensor" and isinstance(value, (np.ndarray, np.generic)):
        return _ARRAY
    if (
        kind == "number"
        and isinstance(value, (np.ndarray, np.generic))
        and value.ndim == 0
        and value.dtype.kind in "iuf"
    ):
        return value.item()
    if kind in ("text", "json") and isinstance(value, (bytes, str)):
        try:
            text = value.decode() if isinstance(value, bytes) else value
            return text if kind == "text" else orjson.loads(text)
        except ValueError as error:
            raise Refusal(
                422, "invalid_request", f"{name}: no {'UTF-8' if kind == 'text' else 'JSON'}", name
            ) from error
    expected = field_datatype({"type": kind})
    raise Refusal(422, "invalid_request", f"{name}: a value that is no {kind}; expected {expected}", name)


def write(model: tuple[str, str], wanted: Wanted, values: Mapping[str, Any]) -> tuple[int, bytes]:
    """The answer, and how many bytes of it are JSON where tensors follow (else 0). `values`: output → array or list of bytes."""
    unknown = [name for name in wanted.outputs if name not in values]
    if unknown:
        raise Refusal(
            422, "invalid_request", f"{unknown[0]}: an unknown output; there are {', '.join(values)}", unknown[0]
        )
    outputs, parts = [], []
    for name in wanted.outputs or values:
        entry = described(name, values[name])
        if wanted.outputs.get(name, wanted.default):
            parts.append(binary(values[name]))
            entry["parameters"] = {"binary_data_size": len(parts[-1])}
        else:
            entry["data"] = as_json(values[name])
        outputs.append(entry)
    head = {"model_name": model[0], "model_version": model[1], "outputs": outputs} | (
        {"id": wanted.id} if wanted.id else {}
    )
    text = orjson.dumps(head)
    return (len(text), b"".join((text, *parts))) if parts else (0, text)


def columns(responses: Sequence[Mapping[str, Any]]) -> Values:
    """The response's fields as outputs, an answer per row."""
    return {name: column([response[name] for response in responses]) for name in responses[0]}
