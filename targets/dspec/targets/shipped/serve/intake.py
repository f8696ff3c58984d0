"""What a worker is asked → items at the model's door; what came behind it → the answer."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array
from ..runner import Bundle
from . import infer, predict
from .batch import Stacking
from .refusals import Refusal
from .wire import FORM, INFER_MODEL, PREDICT, RAW, Asked

DOOR, MODEL = (
    "door.",
    "model.",
)  # outputs that a traced inference may ask for: what stood at the door, what the model gave


class Result(NamedTuple):
    """One item's answer: response fields (none where tensors were asked), tensors in and out, batch axis included."""

    response: Mapping[str, Any]
    door: Mapping[str, Array]
    outputs: Mapping[str, Array]


Write = Callable[[Sequence[Result]], tuple[int, bytes]]


@dataclass(kw_only=True, slots=True)
class Pending:
    """One request of the wire, until all of its items have run."""

    asked: Asked
    received: float
    raw: bool  # tensors in, tensors out: no pipeline
    write: Write
    results: list[Result | None] = field(default_factory=list)
    company: int = 1
    preprocess: float = 0.0
    ready: float = 0.0
    failed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One item that may run: `key` is equal for items that may be stacked, `length` what is filled up."""

    pending: Pending
    number: int
    tensors: Mapping[str, Array]
    rows: int
    key: Any
    length: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Intake:
    """`most`: items of one request; `trace`: whether outputs at the door may be asked for."""

    bundle: Bundle
    stacking: Stacking
    most: int
    trace: bool

    def items(self, asked: Asked) -> list[Item]:
        """The items of a request, at the door. Raises what the request or a step is at fault for."""
        start = time.monotonic()
        read = self._tensors if asked.kind == INFER_MODEL else self._requests
        pending, doors = read(asked, start)
        pending.results = [None] * len(doors)
        pending.ready = time.monotonic()
        pending.preprocess = pending.ready - start
        padded = not pending.raw
        return [
            Item(
                pending=pending,
                number=number,
                tensors=door,
                rows=self.stacking.rows(door),
                key=(padded, self.stacking.key(door, padded)),
                length=self.stacking.length(door) if padded else 0,
            )
            for number, door in enumerate(doors)
        ]

    def _requests(self, asked: Asked, start: float) -> tuple[Pending, list[dict[str, Array]]]:
        fields = self.bundle.pipeline.fields
        many = False
        if asked.kind == PREDICT:
            requests, many = predict.read_json(fields, asked.body, self.most)
        elif asked.kind == FORM:
            requests = [predict.read_form(fields, asked.meta, asked.body)]
        elif asked.kind == RAW:
            requests = [predict.read_raw(fields, asked.body)]
        else:
            values, wanted = infer.read(asked.body, asked.meta)
            requests = infer.requests(fields, values, self.most)
            write: Write = functools.partial(self._infer, wanted)
            pending = self._pending(asked, start, write)
            pending.company = wanted.company if self.trace else 1
            return pending, [self.bundle.pipeline.before(one) for one in requests]
        return (
            self._pending(asked, start, functools.partial(_predict, many)),
            [self.bundle.pipeline.before(one) for one in requests],
        )

    def _pending(self, asked: Asked, start: float, write: Write, raw: bool = False) -> Pending:
        return Pending(asked=asked, received=start, raw=raw, write=write)

    def _tensors(self, asked: Asked, start: float) -> tuple[Pending, list[dict[str, Array]]]:
        values, wanted = infer.read(asked.body, asked.meta)
        tensors = {name: self._array(name, value) for name, value in values.items()}
        self.bundle.check(tensors)
        write: Write = functools.partial(self._model, wanted)
        ordered = {name: tensors[name] for name in self.bundle.manifest["interface"]["inputs"]}
        return self._pending(asked, start, write, raw=True), [ordered]

    def _array(self, name: str, value: Any) -> Array:
        if not isinstance(value, np.ndarray):
            raise Refusal(422, "invalid_request", f"{name}: BYTES; expected numbers", name)
        return np.ascontiguousarray(value).reshape(value.shape)

    def _infer(self, wanted: infer.Wanted, results: Sequence[Result]) -> tuple[int, bytes]:
        values = infer.columns([result.response for result in results])
        if self.trace and len(results) == 1 and any(name.startswith((DOOR, MODEL)) for name in wanted.outputs):
            values |= {DOOR + name: array for name, array in results[0].door.items()}
            values |= {MODEL + name: array for name, array in results[0].outputs.items()}
        return infer.write(self._named(""), wanted, values)

    def _model(self, wanted: infer.Wanted, results: Sequence[Result]) -> tuple[int, bytes]:
        return infer.write(self._named(".model"), wanted, dict(results[0].outputs))

    def _named(self, suffix: str) -> tuple[str, str]:
        manifest = self.bundle.manifest
        return f"{manifest['name']}{suffix}", str(manifest["version"])

    def after(self, item: Item, outputs: Mapping[str, Array]) -> Result:
        """The steps behind the model. Raises StepError."""
        response = {} if item.pending.raw else self.bundle.pipeline.after(outputs)
        return Result(response, item.tensors, outputs)


def _predict(many: bool, results: Sequence[Result]) -> tuple[int, bytes]:
    return 0, predict.write([result.response for result in results], many)
