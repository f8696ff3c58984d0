"""Requests of the server → requests of the pipeline, an item per row; answers → outputs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import triton_python_backend_utils as pb  # type: ignore[import-not-found]  # the server brings it

from ..arrays import Array, dtype
from ..errors import RequestError
from ..pipeline import to_json
from ..serve.batch import WASTE, Stacking
from ..serve.infer import requests
from ..serve.refusals import refused
from . import bridge

STRING = "TYPE_STRING"
DOOR, MODEL, SECONDS = "door.", "model.", "stage.seconds"

Tensors = Mapping[str, Array]


@dataclass(kw_only=True, slots=True)
class Asked:
    """One request of the server: its items at the door, what became of each, or what it is refused for.

    `seconds`: before the model, in it and after it.
    """

    request: Any
    doors: list[dict[str, Array]] = field(default_factory=list)
    outputs: list[dict[str, Array]] = field(default_factory=list)
    error: Exception | None = None
    seconds: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])

    @property
    def wanted(self) -> set[str]:
        found: set[str] = set(self.request.requested_output_names())
        return found


def values_of(request: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields' rows: arrays, or lists of bytes for texts, files and JSON."""
    found: dict[str, Any] = {}
    for tensor in request.inputs():
        array = bridge.array_of(tensor)
        name = tensor.name()
        found[name] = list(array.reshape(-1)) if array.dtype == object else _rows(fields[name], array)
    return found


def _rows(declared: Mapping[str, Any], array: Array) -> Array:
    """A number's row has no axis of its own."""
    return array.reshape(-1) if declared["type"] == "number" else array


def items_of(request: Any, fields: Mapping[str, Any], batched: bool, most: int) -> list[dict[str, Any]]:
    """The requests in Python form, one per row. Raises Refusal, RequestError."""
    values = values_of(request, fields)
    if not batched:  # the model takes one at a time, and so does the ensemble around it
        values = {name: value if isinstance(value, list) or fields[name]["type"] == "number" else value[np.newaxis]
                  for name, value in values.items()}  # fmt: skip
    return requests(fields, values, most)


def answered(declared: Mapping[str, Any], responses: Sequence[Mapping[str, Any]], batched: bool) -> list[Any]:
    """The response's fields as outputs, a row per item. `declared`: field → type, and shape of one item where it is no string."""
    return [
        _output(name, found, [response[name] for response in responses], batched) for name, found in declared.items()
    ]


def _output(name: str, declared: Mapping[str, Any], values: list[Any], batched: bool) -> Any:
    if declared["type"] == STRING:
        texts = [json.dumps(to_json(value), ensure_ascii=False, allow_nan=False).encode() for value in values]
        return bridge.texts(name, texts, (len(texts),))
    arrays = [np.asarray(value, dtype(declared["dtype"])) for value in values]
    if len({array.shape for array in arrays}) > 1:
        shapes = ", ".join(str(list(array.shape)) for array in arrays[:4])
        raise RequestError(name, f"answers of shapes {shapes}", "answers of one shape in one request: ask one by one")
    return bridge.numbers(name, np.stack(arrays) if batched or not arrays[0].ndim else arrays[0])


def traced(asked: Asked, batched: bool) -> list[Any]:
    """What stood at the model's door, where it was asked for: of a request with one item.

    `batched`: the model's own first axis is that of the request's rows; else one is added.
    """
    wanted, found = asked.wanted, []
    if len(asked.doors) == 1:
        named = {DOOR + name: array for name, array in asked.doors[0].items()}
        named |= {MODEL + name: array for name, array in asked.outputs[0].items()}
        found = [
            bridge.numbers(name, array if batched else array[np.newaxis])
            for name, array in named.items()
            if name in wanted
        ]
    if SECONDS in wanted:
        found.append(bridge.numbers(SECONDS, np.array([asked.seconds] * max(1, len(asked.doors)))))
    return found


def run_together(asked: Sequence[Asked], stacking: Stacking, padded: bool, run: Callable[[Tensors], Tensors]) -> None:
    """Every item through the model, as many at once as may be; `outputs` or `error` of each request are filled in."""
    groups: dict[Any, list[tuple[Asked, int]]] = {}
    for one in asked:
        if one.error is None:
            one.outputs = [{} for _ in one.doors]
            for number, door in enumerate(one.doors):
                groups.setdefault(stacking.key(door, padded), []).append((one, number))
    for group in groups.values():
        for batch in _batches(group, stacking):
            _run(batch, stacking, run)


def _batches(group: list[tuple[Asked, int]], stacking: Stacking) -> list[list[tuple[Asked, int]]]:
    """Cut so that no run has more rows than may be (one item may have several), nor more that is filled up than is worth it."""
    found: list[list[tuple[Asked, int]]] = []
    rows = total = 0
    for one, number in sorted(group, key=lambda item: stacking.length(item[0].doors[item[1]])):
        own, length = stacking.rows(one.doors[number]), stacking.length(one.doors[number])
        if not found or rows + own > stacking.most or length * (rows + own) > WASTE * (total + own * length):
            found.append([])
            rows = total = 0
        found[-1].append((one, number))
        rows, total = rows + own, total + own * length
    return found


def _run(batch: list[tuple[Asked, int]], stacking: Stacking, run: Callable[[Tensors], Tensors]) -> None:
    tensors = [one.doors[number] for one, number in batch]
    try:
        answers = stacking.parted(run(stacking.joined(tensors)), tensors)
    except Exception as error:
        if len(batch) == 1:
            batch[0][0].error = error
            return
        for item in batch:  # one that is at fault must not fail its company
            _run([item], stacking, run)
        return
    for (one, number), outputs in zip(batch, answers, strict=True):
        one.outputs[number] = outputs


def response(asked: Asked, make: Callable[[], list[Any]]) -> Any:
    """The response of one request: its outputs, or what it is refused or failed for."""
    if asked.error is None:
        try:
            return pb.InferenceResponse(make())
        except Exception as error:
            asked.error = error
    return failed(asked.error)


def failed(error: Exception) -> Any:
    """400 where the request is at fault, else 500; what went wrong inside is told to the log and, when measuring, to callers."""
    found = refused(error, tell=os.environ.get("DSPEC_TRACE") == "1")
    if found.detail:
        pb.Logger.log_error(f"a request failed: {found.detail}")
    code = pb.TritonError.INVALID_ARG if found.refusal.status < 500 else pb.TritonError.INTERNAL
    return pb.InferenceResponse(error=pb.TritonError(found.refusal.message, code))
