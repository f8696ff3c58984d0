"""Options of `runtime: fastapi`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dspec.spec.catalogue import RuntimeEntry


@dataclass(frozen=True, kw_only=True)
class Options:
    """What computes, and how the service is run.

    Attributes:
        engine: `onnxruntime` (one ONNX graph), or `eager` (PyTorch, in inference mode).
        eager_from: with `eager`: `sources` runs your module from its own files, `program` the exported program; `auto` takes the
            sources where they can ship.
        workers: processes that hold the model; workers times threads are no more than the cores granted.
        max_batch: requests that run through the model at once, at most; bounded by the dim that counts items.
        max_delay_ms: how long a request waits for others that have already arrived; under light load none waits.
        max_queue: requests accepted and not yet answered; one more is answered 429.
        deadline_ms: from the head of a request to its answer; later it is answered 504.
        hang_s: a worker that gives no answer for so long while it has requests is killed and replaced.
        max_body_bytes: of a request; a larger one is answered 413 before it is read. 0: what the fields may hold, 16 MiB at least.
        max_items: requests in one list, or rows of one inference request.
        intra_op_threads: threads within an operator, per worker; 0 stands for the cores granted, divided among the workers.
        provider: with `onnxruntime`: the execution provider that must really run the graph.
        optimization: with `onnxruntime`: graph optimisation level, in the gate as in the service.
        inter_op_threads: with `onnxruntime`: threads between operators.
        spinning: with `onnxruntime`: whether idle threads spin (faster, and burns the core) or sleep.
        memory_arena: with `onnxruntime`: keep freed memory for the next request; off bounds the memory of strongly varying shapes.
        opset: with `onnxruntime`: ONNX opset; 0 stands for the exporter's own choice, recorded in the bundle.
    """

    engine: Literal["onnxruntime", "eager"] = "onnxruntime"
    eager_from: Literal["auto", "sources", "program"] = "auto"
    workers: int = 1
    max_batch: int = 16
    max_delay_ms: float = 2.0
    max_queue: int = 256
    deadline_ms: float = 30_000.0
    hang_s: float = 60.0
    max_body_bytes: int = 0
    max_items: int = 64
    intra_op_threads: int = 0
    provider: Literal["CPUExecutionProvider"] = "CPUExecutionProvider"
    optimization: Literal["disabled", "basic", "extended", "all"] = "all"
    inter_op_threads: int = 1
    spinning: bool = False
    memory_arena: bool = True
    opset: int = 0


# The server's own; the others are the engine's.
SERVE = (
    "workers",
    "max_batch",
    "max_delay_ms",
    "max_queue",
    "deadline_ms",
    "hang_s",
    "max_body_bytes",
    "max_items",
)
ENTRY = RuntimeEntry(
    name="fastapi",
    options=Options,
    needs_max=False,
    places=("host", "graph"),
    hardware=("host", "linux-x86_64", "linux-arm64"),
    summary="a service over HTTP: batching, isolated workers, readiness by golden vectors, metrics",
)
