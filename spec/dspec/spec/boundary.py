"""What crosses between the caller, who does the `contract` steps, and the bundle, which does the rest."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from dspec.spec.catalogue import Catalogue, Value
from dspec.spec.fit import ANY
from dspec.spec.flows import before
from dspec.spec.models import Answer, Dim, DType, RequestField, Spec, StepUse
from dspec.spec.placement import Misplaced, at, entries, reads, writes

Kind = Literal["text", "number", "json"]
PLAIN: dict[str, Kind] = {"text": "text", "number": "number", "json": "json"}  # kinds that cross as they are
ARRAYS = ("tensor", "image")  # kinds that cross as arrays
NUMBER_BYTES = 8  # a number of nested lists is read as int64 or float64 before it is cast
HEADER_BYTES = 1024  # of an .npy file, generously
UNKNOWN_BYTES = 2**28  # the most that an array of unknown size may take
GROWTH = 4  # how much longer than the raw request a step may make a text


@dataclass(frozen=True, kw_only=True, slots=True)
class Boundary:
    """The bundle's own request and response, and why some value can't cross."""

    request: dict[str, RequestField]
    response: dict[str, Answer]
    problems: tuple[Misplaced, ...]


def boundary(spec: Spec, catalogue: Catalogue) -> Boundary:
    """The request that the bundle takes once the caller's first steps are done, and what it answers before the last ones."""
    owed = at(spec.preprocess, "contract")
    if not owed:
        return Boundary(request=spec.request, response=_response(spec), problems=())
    values = before(spec, catalogue)
    asked = _asked(spec)
    made = {name: _field(values[name], spec) for name in writes(owed) if name in asked}
    raw = {name: field for name, field in spec.request.items() if name in asked}
    fields = {name: field for name, field in made.items() if isinstance(field, RequestField)}
    refused = {name: found for name, found in made.items() if not isinstance(found, RequestField)}
    return Boundary(
        request=raw | fields,
        response=_response(spec),
        problems=tuple(_refused(owed, name, *words) for name, words in refused.items()),
    )


def served(spec: Spec, catalogue: Catalogue) -> Spec:
    """The spec of what the bundle itself does around its graph: the steps on the host alone, between caller and graph."""
    crossing = boundary(spec, catalogue)
    parts: dict[str, Any] = {
        "request": crossing.request,
        "preprocess": at(spec.preprocess, "host"),
        "postprocess": at(spec.postprocess, "host"),
        "response": crossing.response,
    }
    return spec.model_copy(update=parts)


def owing(spec: Spec) -> bool:
    """Whether the caller does any step."""
    return bool(at((*spec.preprocess, *spec.postprocess), "contract"))


def _asked(spec: Spec) -> set[str]:
    """What the bundle reads: on the host, at the graph's door."""
    return {*reads(at(spec.preprocess, "host")), *entries(spec)}


def _response(spec: Spec) -> dict[str, Answer]:
    """What the caller's last steps read and what the answer holds besides, under the values' own names.

    One namespace: a response field that has the name of another value could not be told from it.
    """
    owed = at(spec.postprocess, "contract")
    if not owed:
        return spec.response
    own = set(writes(owed))
    names = [*reads(owed), *(answer.source for answer in spec.response.values() if answer.source not in own)]
    return {name: Answer.model_validate({"from": name}) for name in dict.fromkeys(names)}


def _field(value: Value, spec: Spec) -> RequestField | tuple[str, str, str]:
    """The request field that the value becomes; or why it can't: found, expected, to do."""
    if value.kind in PLAIN:
        most = GROWTH * max(field.max_bytes for field in spec.request.values())
        return RequestField(type=PLAIN[value.kind], max_bytes=most)
    if value.kind == ANY:
        return ("whose kind is not known before running", "a value whose step tells its kind", _UNTOLD)
    if value.kind not in ARRAYS:
        return (f"which is {value.kind}, no array", "an array, a text, a number or JSON", _WHOLE)
    if value.dtype not in (None, *get_args(DType)):
        return (f"which is {value.dtype}", f"one of {', '.join(get_args(DType))}", _WHOLE)
    dtype, shape = cast("DType | None", value.dtype), _shape(value)
    return RequestField(type="tensor", dtype=dtype, shape=shape, max_bytes=_most_bytes(shape, spec.model.dims))


_WHOLE = "write `place: contract` on the steps that read it too, or `place: host` here"
_UNTOLD = (
    "write `place: host` here, or let a shipped step follow: what a `python` step gives is only known when it runs"
)


def _shape(value: Value) -> tuple[int | str, ...] | None:
    """A size that is known only when running gets a name of its own, which fits any."""
    if value.shape is None:
        return None
    return tuple(f"any{axis}" if size is None else size for axis, size in enumerate(value.shape))


def _most_bytes(shape: tuple[int | str, ...] | None, dims: Mapping[str, Dim]) -> int:
    if shape is None:
        return UNKNOWN_BYTES
    sizes = [size if isinstance(size, int) else dims[size].max if size in dims else None for size in shape]
    known = [size for size in sizes if size is not None]
    return max(1, math.prod(known)) * NUMBER_BYTES + HEADER_BYTES if len(known) == len(sizes) else UNKNOWN_BYTES


def _refused(owed: Iterable[StepUse], name: str, found: str, expected: str, hint: str) -> Misplaced:
    step = next(step for step in owed if name in step.outputs)
    message = f"step `{step.id}` (by the caller) gives the bundle `{name}`, {found}"
    return Misplaced(step=step.id, message=message, expected=expected, hint=hint)
