"""The OpenAPI document: made of the request's fields, with a golden request and its answer as the example."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .datatypes import BYTES, DTYPES
from .settings import Settings

EXAMPLE_BYTES = 20_000  # of a file, of an answer: a longer one is no help to a reader
JSON = "application/json"
Schema = dict[str, Any]
_REF = "#/components/schemas/"


def document(manifest: Mapping[str, Any], fields: Mapping[str, Any], bundle: Path, settings: Settings) -> Schema:
    """`fields`: the request of pipeline.json; `bundle`: the folder with golden/."""
    request, answer = _golden(bundle, fields)
    name = manifest["name"]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": name,
            "version": manifest["version"],
            "description": f"Bundle of dspec, target {manifest['target']}, engine {manifest['engine']}. "
            "A request is one item; numbers that are not finite are refused, and answered as the texts nan, inf and -inf.",
        },
        "paths": {
            "/predict": {"post": _predict(fields, settings, request, answer)},
            "/v2": {"get": _get("Server metadata", "server")},
            "/v2/health/live": {"get": _get("Whether the process runs", "live")},
            "/v2/health/ready": {"get": _get("Whether requests are taken", "ready", 503)},
            "/v2/models/{name}": {"get": _of_model(name, _get("Inputs and outputs", "model", 404))},
            "/v2/models/{name}/ready": {
                "get": _of_model(name, _get("Whether the model takes requests", "model_ready", 404, 503))
            },
            "/v2/models/{name}/infer": {"post": _of_model(name, _infer())},
            "/v2/models/{name}/versions/{version}": {
                "get": _of_model(name, _get("Inputs and outputs", "version", 404), manifest["version"])
            },
            "/v2/models/{name}/versions/{version}/ready": {
                "get": _of_model(
                    name, _get("Whether the model takes requests", "version_ready", 404, 503), manifest["version"]
                )
            },
            "/v2/models/{name}/versions/{version}/infer": {
                "post": _of_model(name, _infer("version_infer"), manifest["version"])
            },
            "/metrics": {"get": _metrics()},
            "/openapi.json": {"get": _get("This document", "document")},
        },
        "components": {"schemas": _schemas(fields, settings)},
    }


def _schemas(fields: Mapping[str, Any], settings: Settings) -> Schema:
    described = {"code": {"type": "string"}, "message": {"type": "string"}, "field": {"type": "string"}}
    return {
        "Request": {
            "type": "object",
            "properties": {name: _field(field) for name, field in fields.items()},
            "required": list(fields),
            "additionalProperties": False,
        },
        "Requests": {
            "type": "array",
            "items": {"$ref": f"{_REF}Request"},
            "minItems": 1,
            "maxItems": settings.max_items,
        },
        "Error": {
            "type": "object",
            "properties": {"error": {"type": "object", "properties": described, "required": ["code", "message"]}},
            "required": ["error"],
        },
        "InferenceError": {
            "type": "object",
            "properties": {**described, "error": {"type": "string"}},
            "required": ["error", "code"],
        },
        "Tensor": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
                "datatype": {"enum": [BYTES, *DTYPES]},
                "data": {"type": "array"},
                "parameters": {"type": "object"},
            },
            "required": ["name", "shape", "datatype"],
        },
        "InferenceRequest": {
            "type": "object",
            "properties": {
                "id": {"type": "string"},
                "inputs": {"type": "array", "items": {"$ref": f"{_REF}Tensor"}, "minItems": 1},
                "outputs": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
                },
                "parameters": {"type": "object"},
            },
            "required": ["inputs"],
        },
        "InferenceAnswer": {
            "type": "object",
            "properties": {
                "model_name": {"type": "string"},
                "model_version": {"type": "string"},
                "id": {"type": "string"},
                "outputs": {"type": "array", "items": {"$ref": f"{_REF}Tensor"}},
            },
            "required": ["model_name", "outputs"],
        },
    }


def _field(field: Mapping[str, Any]) -> Schema:
    kind = field["type"]
    if kind == "text":
        return {"type": "string", "maxLength": int(field.get("max_bytes") or 10_000_000)}
    if kind in ("image", "audio"):
        base64 = {"type": "string", "contentEncoding": "base64"}
        return {
            "type": "object",
            "properties": {"base64": base64},
            "required": ["base64"],
            "additionalProperties": False,
        }
    if kind == "tensor":
        return {
            "type": "array",
            "description": f"nested lists, {field.get('dtype') or 'numbers'} {field.get('shape') or ''}".strip(),
        }
    return {"type": "number"} if kind == "number" else {}


def _predict(fields: Mapping[str, Any], settings: Settings, request: Any, answer: Any) -> Schema:
    one: Schema = {"schema": {"oneOf": [{"$ref": f"{_REF}Request"}, {"$ref": f"{_REF}Requests"}]}}
    if request is not None:
        one["example"] = request
    parts = {
        name: {"type": "string", **({"format": "binary"} if field["type"] in ("image", "audio") else {})}
        for name, field in fields.items()
    }
    form = {"schema": {"type": "object", "properties": parts, "required": list(fields), "additionalProperties": False}}
    answered: Schema = {"schema": {"oneOf": [{"type": "object"}, {"type": "array", "items": {"type": "object"}}]}}
    if answer is not None:
        answered["example"] = answer
    content = {JSON: one, "multipart/form-data": form}
    if len(fields) == 1 and next(iter(fields.values()))["type"] in ("image", "audio"):
        content["application/octet-stream"] = {"schema": {}}
    return {
        "operationId": "predict",
        "summary": "Answer one request, or a list of them",
        "requestBody": {"required": True, "content": content},
        "responses": {
            "200": {"description": "The answer, or a list of answers in the same order", "content": {JSON: answered}},
            **_errors("Error"),
        },
    }


_ERRORS = {
    400: "The body is not what its content type says",
    408: "The body did not arrive in time",
    413: "The body is too large",
    415: "Another content type is expected",
    422: "The request is at fault: which field, what was found, what was expected",
    429: "Too many requests are waiting",
    500: "The bundle failed on this request",
    503: "Not ready, or the worker died: ask again",
    504: "No answer in time",
}


def _errors(schema: str, *only: int) -> Schema:
    content = {JSON: {"schema": {"$ref": f"{_REF}{schema}"}}}
    return {
        str(status): {"description": words, "content": content}
        for status, words in _ERRORS.items()
        if not only or status in only
    }


def _get(summary: str, id: str, *statuses: int) -> Schema:
    found: Schema = {
        "operationId": id,
        "summary": summary,
        "responses": {"200": {"description": summary, "content": {JSON: {"schema": {"type": "object"}}}}},
    }
    for status in statuses:
        schema = {"$ref": f"{_REF}InferenceError"} if status == 404 else {"type": "object"}
        words = "No such model" if status == 404 else "Not ready"
        found["responses"][str(status)] = {"description": words, "content": {JSON: {"schema": schema}}}
    return found


def _metrics() -> Schema:
    return {
        "operationId": "metrics",
        "summary": "For Prometheus",
        "responses": {
            "200": {"description": "Text exposition", "content": {"text/plain": {"schema": {"type": "string"}}}}
        },
    }


def _infer(id: str = "infer") -> Schema:
    answer = {JSON: {"schema": {"$ref": f"{_REF}InferenceAnswer"}}, "application/octet-stream": {"schema": {}}}
    errors = _errors("InferenceError")
    errors["404"] = {"description": "No such model", "content": {JSON: {"schema": {"$ref": f"{_REF}InferenceError"}}}}
    return {
        "operationId": id,
        "summary": "Open Inference Protocol, version 2: <name> takes the request's fields, <name>.model tensors; an item per row. "
        "With the header Inference-Header-Content-Length, so many bytes are JSON and binary tensors follow",
        "requestBody": {"required": True, "content": {JSON: {"schema": {"$ref": f"{_REF}InferenceRequest"}}}},
        "responses": {"200": {"description": "The outputs", "content": answer}, **errors},
    }


def _of_model(name: str, operation: Schema, version: str = "") -> Schema:
    given = [
        {
            "name": "name",
            "in": "path",
            "required": True,
            "schema": {"type": "string", "examples": [name, f"{name}.model"]},
        }
    ]
    if version:
        given.append(
            {"name": "version", "in": "path", "required": True, "schema": {"type": "string", "examples": [version]}}
        )
    return operation | {"parameters": [*given, *operation.get("parameters", [])]}


def _golden(bundle: Path, fields: Mapping[str, Any]) -> tuple[Any, Any]:
    """The first golden request with its files inside, and its answer; None where there is none, or it is long."""
    try:
        index = json.loads((bundle / "golden" / "index.json").read_text("utf-8"))
        folder = bundle / "golden" / index["fixtures"][0]["folder"]
        raw = json.loads((folder / "request.json").read_text("utf-8"))
        answer = json.loads((folder / "answer.json").read_text("utf-8"))["response"]
        request = {name: _inside(raw[name], folder) for name in fields}
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return None, None
    long = len(json.dumps(request)) > EXAMPLE_BYTES
    return None if long else request, None if len(json.dumps(answer)) > EXAMPLE_BYTES else answer


def _inside(value: Any, folder: Path) -> Any:
    if isinstance(value, Mapping) and set(value) == {"file"}:
        return {"base64": base64.b64encode((folder / value["file"]).read_bytes()).decode()}
    if isinstance(value, Mapping) and set(value) == {"npy"}:
        raise ValueError("a tensor in a file")
    return value
