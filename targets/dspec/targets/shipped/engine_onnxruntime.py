"""ONNX Runtime: the session that measuring, self-test and service all use."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnxruntime as ort

from .arrays import Array
from .cores import usable_cores
from .errors import EngineError

DEFAULTS: Mapping[str, Any] = {
    "provider": "CPUExecutionProvider",
    "optimization": "all",
    "intra_op_threads": 0,
    "inter_op_threads": 1,
    "spinning": False,
    "memory_arena": True,
    "opset": 0,  # decided when the graph was made
}
LEVELS = {
    "disabled": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
TYPES = {
    "tensor(float16)": "float16",
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(int8)": "int8",
    "tensor(int16)": "int16",
    "tensor(int32)": "int32",
    "tensor(int64)": "int64",
    "tensor(uint8)": "uint8",
    "tensor(bool)": "bool",
}
ERRORS_ONLY = 3  # of ORT's log levels: its warnings about the machine are noise in a service's log


class OnnxRuntime:
    """One ORT session; `run` may be called from several threads."""

    def __init__(self, session: ort.InferenceSession, outputs: tuple[str, ...], facts: dict[str, str]) -> None:
        self._session, self._outputs, self.facts = session, list(outputs), facts

    def run(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs by name, in the interface's order."""
        try:
            found = self._session.run(self._outputs, dict(tensors))
        except Exception as error:  # ORT's exceptions share no base of their own
            raise EngineError(f"ONNX Runtime: {error}") from error
        return dict(zip(self._outputs, found, strict=True))


def open_engine(folder: Path, manifest: Mapping[str, Any]) -> OnnxRuntime:
    """The session over the bundle's model; EngineError where options or interface do not fit."""
    options = _options(manifest["options"])
    cores = usable_cores(int(manifest["cores"]))
    threads = options["intra_op_threads"] or cores
    provider = options["provider"]
    available = ort.get_available_providers()
    if provider not in available:
        raise EngineError(f"this ONNX Runtime has {', '.join(available)}, not {provider}")
    path = folder / manifest["model"]["path"]
    try:
        session = ort.InferenceSession(path, _session_options(options, threads), providers=[provider])
    except Exception as error:
        raise EngineError(f"ONNX Runtime can't load {path.name}: {error}") from error
    if session.get_providers()[0] != provider:
        raise EngineError(f"{session.get_providers()[0]} runs the graph, not {provider}")
    _check_interface(session, manifest["interface"])
    facts = {"engine": f"onnxruntime {ort.__version__}", "provider": provider, "cores": str(cores)}
    facts |= {
        "intra_op_threads": str(threads),
        "inter_op_threads": str(options["inter_op_threads"]),
    }
    facts |= {name: str(options[name]).lower() for name in ("optimization", "spinning", "memory_arena")}
    return OnnxRuntime(session, tuple(manifest["interface"]["outputs"]), facts)


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in given.items() if name != "serve"}  # the server's own
    unknown = sorted(set(given) - set(DEFAULTS))
    if unknown:  # ORT itself takes any misspelt key without a word
        raise EngineError(f"unknown option {unknown[0]!r}; there are {', '.join(DEFAULTS)}")
    options = {**DEFAULTS, **given}
    if options["optimization"] not in LEVELS:
        raise EngineError(f"optimization is {options['optimization']!r}; one of {', '.join(LEVELS)}")
    if options["intra_op_threads"] < 0 or options["inter_op_threads"] < 1:
        raise EngineError("intra_op_threads is at least 0, inter_op_threads at least 1")
    return options


def _session_options(options: Mapping[str, Any], threads: int) -> ort.SessionOptions:
    made = ort.SessionOptions()
    made.graph_optimization_level = LEVELS[options["optimization"]]
    # Never 0: ORT would count the host's cores and pin threads to them, past cpuset and quota.
    made.intra_op_num_threads = threads
    made.inter_op_num_threads = options["inter_op_threads"]
    spinning = "1" if options["spinning"] else "0"
    made.add_session_config_entry("session.intra_op.allow_spinning", spinning)
    made.add_session_config_entry("session.inter_op.allow_spinning", spinning)
    made.enable_cpu_mem_arena = options["memory_arena"]
    made.log_severity_level = ERRORS_ONLY
    return made


def _check_interface(session: ort.InferenceSession, interface: Mapping[str, Any]) -> None:
    for side, ports in (("inputs", session.get_inputs()), ("outputs", session.get_outputs())):
        graph = {port.name: TYPES.get(port.type, port.type) for port in ports}
        declared = {name: port["dtype"] for name, port in interface[side].items()}
        if graph != declared:
            raise EngineError(f"the graph's {side} are {_words(graph)}; bundle.json declares {_words(declared)}")


def _words(ports: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {dtype}" for name, dtype in ports.items())
