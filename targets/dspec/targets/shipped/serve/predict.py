"""`POST /predict`: one raw request or a list of them, as JSON, as a form with files, or as the bytes of a picture or sound."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from ..pipeline import to_json
from ..request import read_request
from .refusals import Refusal, refused

BINARY = ("image", "audio")  # kinds of fields that are files


def parse(body: bytes) -> Any:
    """JSON in, strictly: no NaN, no infinity, UTF-8. Refusal 400."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Refusal(400, "bad_json", f"the body is no JSON: {error}") from error


def read_json(fields: Mapping[str, Any], body: bytes, most: int) -> tuple[list[dict[str, Any]], bool]:
    """The requests in Python form, and whether they came as a list."""
    found = parse(body)
    if not isinstance(found, list):
        return [read_request(fields, found, None)], False
    if not 1 <= len(found) <= most:
        raise Refusal(422, "invalid_request", f"a list of {len(found)} requests; from 1 to {most} are taken at once")
    return [_one(fields, raw, number) for number, raw in enumerate(found)], True


def _one(fields: Mapping[str, Any], raw: Any, number: int) -> dict[str, Any]:
    try:
        return read_request(fields, raw, None)
    except Exception as error:
        raise refused(error, number).refusal from error


def read_raw(fields: Mapping[str, Any], body: bytes) -> dict[str, Any]:
    """The request whose only field is a picture or a sound: the body is its bytes."""
    ((name, _),) = fields.items()
    return read_request(fields, {name: _file(body)}, None)


def read_form(fields: Mapping[str, Any], content_type: bytes, body: bytes) -> dict[str, Any]:
    """The request that a form holds: files for pictures and sounds, texts as they are, everything else as JSON."""
    parts = _parts(content_type, body)
    raw: dict[str, Any] = {}
    for name, content in parts:
        if name in raw:
            raise Refusal(422, "invalid_request", f"{name}: given twice; expected once", name)
        raw[name] = _value(name, fields.get(name, {}).get("type", "text"), content)
    return read_request(fields, raw, None)


def _value(name: str, kind: str, content: bytes) -> Any:
    if kind in BINARY:
        return _file(content)
    if kind != "text":
        try:
            return orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise Refusal(422, "invalid_request", f"{name}: no JSON ({error}); expected a {kind}", name) from error
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise Refusal(422, "invalid_request", f"{name}: bytes that are no UTF-8; expected a text", name) from error


def _file(content: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(content).decode()}


def _parts(content_type: bytes, body: bytes) -> list[tuple[str, bytes]]:
    """Name and content of each part of a multipart body. Refusal 400."""
    from python_multipart.exceptions import ParseError
    from python_multipart.multipart import MultipartParser, parse_options_header

    boundary = parse_options_header(content_type)[1].get(b"boundary")
    if not boundary:
        raise Refusal(400, "bad_form", "the Content-Type of the form names no boundary")
    gathered = _Gathered(parse_options_header)
    try:
        parser = MultipartParser(boundary, gathered.callbacks())  # type: ignore[arg-type]
        parser.write(body)
        parser.finalize()
    except ParseError as error:
        raise Refusal(400, "bad_form", f"the body is no form: {error}") from error
    if not gathered.ended:
        raise Refusal(400, "bad_form", "the form ends in the middle")
    return gathered.parts


class _Gathered:
    """What the parser of a form calls."""

    def __init__(self, options: Any) -> None:
        self.parts: list[tuple[str, bytes]] = []
        self.ended = False
        self._options = options
        self._header, self._value, self._name = bytearray(), bytearray(), ""
        self._content = bytearray()

    def callbacks(self) -> dict[str, Any]:
        names = ("part_begin", "part_data", "part_end", "header_field", "header_value", "header_end", "end")
        return {f"on_{name}": getattr(self, f"_{name}") for name in names}

    def _part_begin(self) -> None:
        self._content, self._name = bytearray(), ""

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        self._content += data[start:end]

    def _part_end(self) -> None:
        self.parts.append((self._name, bytes(self._content)))

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        if bytes(self._header).lower() == b"content-disposition":
            self._name = self._options(bytes(self._value))[1].get(b"name", b"").decode(errors="replace")
        self._header, self._value = bytearray(), bytearray()

    def _end(self) -> None:
        self.ended = True


def write(responses: Sequence[Mapping[str, Any]], many: bool) -> bytes:
    """The answers as JSON: nested lists; nan, inf and -inf as texts."""
    found: Any = list(responses) if many else responses[0]
    if all(_plain(value) for response in responses for value in response.values()):
        return orjson.dumps(found, option=orjson.OPT_SERIALIZE_NUMPY)
    return orjson.dumps(to_json(found))


def _plain(value: Any) -> bool:
    """Whether orjson writes the value just as `to_json` would: an array of finite numbers, in C order."""
    if not isinstance(value, np.ndarray) or not value.ndim or not value.flags.c_contiguous or not value.dtype.isnative:
        return False
    return value.dtype.kind in "iu" or (value.dtype.kind == "f" and bool(np.isfinite(value).all()))
