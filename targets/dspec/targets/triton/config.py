"""A model's config.pbtxt as typed values, and the one text of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

STAMP_KEY = "DSPEC_BUNDLE"
STAMP = "0" * 12  # takes the place of the digest's first digits until the bundle is sealed

# What config.pbtxt calls a dtype; clients call it otherwise (`INT64`, `BYTES`). bfloat16 is no dtype of numpy's, nor offered.
TYPES: Mapping[str, str] = {
    "bool": "TYPE_BOOL",
    **{f"{sign}int{bits}": f"TYPE_{sign.upper()}INT{bits}" for sign in ("u", "") for bits in (8, 16, 32, 64)},
    "float16": "TYPE_FP16", "float32": "TYPE_FP32", "float64": "TYPE_FP64",
}  # fmt: skip
STRING = "TYPE_STRING"
ANY_SIZE = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class Edge:
    """One input or output: `dims` as callers give them, without the batch; `reshape`: as the model has them, where otherwise."""

    name: str
    type: str
    dims: tuple[int, ...]
    reshape: tuple[int, ...] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Batching:
    """Dynamic batching."""

    preferred: tuple[int, ...] = ()
    delay_us: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Warmup:
    """One run before the model is ready. `zeros`: input → type and dims; `files`: input → type, dims and file below warmup/."""

    name: str
    batch: int
    zeros: Mapping[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    files: Mapping[str, tuple[str, tuple[int, ...], str]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One step of an ensemble: its inputs and outputs → tensors of the ensemble."""

    model: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """One model of the repository. `parameters` beside the stamp; `parts` of an ensemble, which has no backend."""

    name: str
    version: int
    backend: Literal["python", "onnxruntime", ""]
    max_batch: int
    inputs: tuple[Edge, ...]
    outputs: tuple[Edge, ...]
    file: str = ""
    batching: Batching | None = None
    instances: int = 1
    gpu: bool = False
    level: int | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    warmups: tuple[Warmup, ...] = ()
    parts: tuple[Part, ...] = ()


def outer(shape: Iterable[int | str | None], batched: bool) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """`dims` and `reshape` of a tensor with this shape (`batched`: its first axis counts items and is left out).

    No dims at all is not a thing that callers can send: they send one of size 1, which the model does not see.
    """
    sizes = tuple(size if isinstance(size, int) else ANY_SIZE for size in shape)[1 if batched else 0 :]
    return (sizes, None) if sizes else ((1,), ())


def text(config: Config) -> str:
    """config.pbtxt, in one order, ending in the stamp."""
    return "".join(f"{line}\n" for line in _lines(config))


def _lines(config: Config) -> Iterator[str]:
    yield f"name: {_quoted(config.name)}"
    yield 'platform: "ensemble"' if config.parts else f"backend: {_quoted(config.backend)}"
    if config.file:
        yield f"default_model_filename: {_quoted(config.file)}"
    yield f"max_batch_size: {config.max_batch}"
    yield f"version_policy {{ specific {{ versions: {config.version} }} }}"
    for word, edges in (("input", config.inputs), ("output", config.outputs)):
        for edge in edges:
            yield from _block(word, _edge(edge))
    if config.parts:
        yield from _block(
            "ensemble_scheduling", (line for part in config.parts for line in _block("step", _part(part)))
        )
    else:
        kind = (
            "KIND_GPU" if config.gpu else "KIND_CPU"
        )  # said, so that a machine without one does not quietly take another
        yield from _block("instance_group", (f"count: {config.instances}", f"kind: {kind}"))
    if config.batching:
        yield from _block("dynamic_batching", _batching(config.batching))
    if config.level is not None:
        yield f"optimization {{ graph {{ level: {config.level} }} }}"
    for key, value in sorted({**config.parameters, STAMP_KEY: STAMP}.items()):
        yield from _block("parameters", (f"key: {_quoted(key)}", f"value {{ string_value: {_quoted(value)} }}"))
    for warmup in config.warmups:
        yield from _block("model_warmup", _warmup(warmup))


def _edge(edge: Edge) -> Iterator[str]:
    yield f"name: {_quoted(edge.name)}"
    yield f"data_type: {edge.type}"
    yield f"dims: {list(edge.dims)}"
    if edge.reshape is not None:
        yield f"reshape {{ shape: {list(edge.reshape)} }}"


def _batching(found: Batching) -> Iterator[str]:
    if found.preferred:
        yield f"preferred_batch_size: {list(found.preferred)}"
    yield f"max_queue_delay_microseconds: {found.delay_us}"


def _part(part: Part) -> Iterator[str]:
    yield f"model_name: {_quoted(part.model)}"
    yield "model_version: -1"
    for word, named in (("input_map", part.inputs), ("output_map", part.outputs)):
        for key, value in named.items():
            yield from _block(word, (f"key: {_quoted(key)}", f"value: {_quoted(value)}"))


def _warmup(warmup: Warmup) -> Iterator[str]:
    yield f"name: {_quoted(warmup.name)}"
    yield f"batch_size: {warmup.batch}"
    given: dict[str, tuple[str, tuple[int, ...], str]] = {
        **{name: (type, dims, "zero_data: true") for name, (type, dims) in warmup.zeros.items()},
        **{
            name: (type, dims, f"input_data_file: {_quoted(file)}") for name, (type, dims, file) in warmup.files.items()
        },
    }
    for name, (type, dims, data) in given.items():
        value = _block("value", (f"data_type: {type}", f"dims: {list(dims)}", data))
        yield from _block("inputs", (f"key: {_quoted(name)}", *value))


def _block(word: str, lines: Iterable[str]) -> Iterator[str]:
    yield f"{word} {{"
    yield from (f"  {line}" for line in lines)
    yield "}"


def _quoted(value: Any) -> str:
    return json.dumps(value)
