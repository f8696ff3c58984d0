"""Options of `runtime: triton`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dspec.spec.catalogue import RuntimeEntry


@dataclass(frozen=True, kw_only=True)
class Options:
    """Who computes inside the server, and how requests are batched.

    Attributes:
        shape: `python`: the model runs in the server's Python backend; `onnxruntime`: in its ONNX Runtime backend.
        engine: with `shape: python`: `onnxruntime` (one ONNX graph), or `eager` (PyTorch runs the exported program).
        pipeline: `calls`: the steps call the model with a whole batch, filled up by the pipeline's own rule; `ensemble`:
            the server hands tensors from the steps before to the model and on to the steps after.
        max_batch: items that run through the model at once, at most; 0 stands for the `max` of the dim that counts items, or 16.
        preferred_batch: sizes of batches that are not kept waiting any longer; none: the greatest.
        max_delay_ms: how long an item waits for others that have not arrived; with 0 those that arrive while the model runs are the next batch.
        instances: processes (or sessions of the native backend) that hold the model; instances times threads are no more than
            the cores granted.
        intra_op_threads: threads within an operator, per instance; 0 stands for the cores granted, divided among the instances.
        provider: with `engine: onnxruntime`: the execution provider that must really run the graph.
        optimization: with `engine: onnxruntime`: graph optimisation level.
        inter_op_threads: with `engine: onnxruntime`: threads between operators.
        spinning: with `engine: onnxruntime`: whether idle threads spin (faster, and burns the core) or sleep.
        memory_arena: with `engine: onnxruntime`: keep freed memory for the next request.
        opset: with `engine: onnxruntime`: ONNX opset; 0 stands for the exporter's own choice, recorded in the bundle.
    """

    shape: Literal["python", "onnxruntime"] = "python"
    engine: Literal["onnxruntime", "eager"] = "onnxruntime"
    pipeline: Literal["calls", "ensemble"] = "calls"
    max_batch: int = 0
    preferred_batch: tuple[int, ...] = ()
    max_delay_ms: float = 0.0
    instances: int = 1
    intra_op_threads: int = 0
    provider: Literal["CPUExecutionProvider"] = "CPUExecutionProvider"
    optimization: Literal["disabled", "basic", "extended", "all"] = "all"
    inter_op_threads: int = 1
    spinning: bool = False
    memory_arena: bool = True
    opset: int = 0


# How the server runs the model; the others are the engine's.
SERVE = ("shape", "pipeline", "max_batch", "preferred_batch", "max_delay_ms", "instances")
OF_ONNXRUNTIME = ("provider", "optimization", "inter_op_threads", "spinning", "memory_arena", "opset")
ENTRY = RuntimeEntry(
    name="triton",
    options=Options,
    needs_max=False,
    places=("host", "graph"),
    hardware=("host", "linux-x86_64", "linux-x86_64-cuda", "linux-arm64"),
    summary="a model repository for Triton: the pipeline in its Python backend, dynamic batching, HTTP and gRPC",
)
