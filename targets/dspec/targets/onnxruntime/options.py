"""Options of `runtime: onnxruntime`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dspec.spec.catalogue import RuntimeEntry


@dataclass(frozen=True, kw_only=True)
class Options:
    """How the session is made.

    Attributes:
        provider: the execution provider that must really run the graph.
        optimization: graph optimisation level, in the gate as in the shipped runner.
        intra_op_threads: threads within an operator; 0 stands for the cores granted and is never passed on as 0.
        inter_op_threads: threads between operators.
        spinning: whether idle threads spin (faster, and burns the core) or sleep.
        memory_arena: keep freed memory for the next request; off bounds the memory of strongly varying shapes.
        opset: ONNX opset; 0 stands for the exporter's own choice, recorded in the bundle.
    """

    provider: Literal["CPUExecutionProvider"] = "CPUExecutionProvider"
    optimization: Literal["disabled", "basic", "extended", "all"] = "all"
    intra_op_threads: int = 0
    inter_op_threads: int = 1
    spinning: bool = False
    memory_arena: bool = True
    opset: int = 0


ENTRY = RuntimeEntry(
    name="onnxruntime",
    options=Options,
    needs_max=False,
    places=("host", "graph", "contract"),
    hardware=("host", "linux-x86_64", "linux-arm64"),
    summary="one portable ONNX graph and a runner that needs neither torch nor dspec",
)
