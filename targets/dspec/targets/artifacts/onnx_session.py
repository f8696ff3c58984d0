"""Load a graph once, through the very module that ships, so that what can't load is known before anyone measures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dspec.spec.errors import ExportError
from dspec.targets.artifacts import onnx_read
from dspec.targets.artifacts.onnx_check import dtype_name
from dspec.targets.protocol import Job
from dspec.targets.shipped import engine_onnxruntime
from dspec.targets.shipped.errors import EngineError

_NO_KERNEL = re.compile(r"Could not find an implementation for (\w+)\(\d+\) node with name '([^']*)'")


def load_once(path: Path, job: Job, options: Mapping[str, Any], origins: Mapping[str, str]) -> None:
    """Raises ExportError: E0511 a kernel is missing, E0513 another provider would run it, E0512 anything else."""
    manifest = {
        "options": options,
        "cores": job.target.resources.cores,
        "model": {"path": path.name},
        "interface": job.program.interface.model_dump(mode="json"),
    }
    try:
        engine_onnxruntime.open_engine(path.parent, manifest)
    except EngineError as error:
        raise _refusal(str(error), path, origins) from error


def _refusal(text: str, path: Path, origins: Mapping[str, str]) -> ExportError:
    missing = _NO_KERNEL.search(text)
    if missing:
        return _no_kernel(missing[1], missing[2], path, origins)
    code = "E0513" if "runs the graph, not" in text or "this ONNX Runtime has" in text else "E0512"
    return ExportError.of(
        code,
        _readable(text),
        expected="a graph that the session of the bundle loads on this machine",
        hint="choose another provider" if code == "E0513" else "try `optimization: basic`; if that loads, report it",
    )


def _no_kernel(operator: str, node: str, path: Path, origins: Mapping[str, str]) -> ExportError:
    dtypes, origin = _about(node, path, origins)
    kinds = f" for {', '.join(dtypes)}" if dtypes else ""
    place = re.match(r"(\S+):(\d+)\b", origin)
    narrow = any(dtype in ("bfloat16", "float16") for dtype in dtypes)
    return ExportError.of(
        "E0511",
        f"ONNX Runtime has no CPU kernel of {operator}{kinds} (node {node}{', from ' + origin if origin else ''})",
        expected="operators and dtypes with a CPU kernel",
        hint="use float32 there: convert the module with .float() and leave no autocast block in forward()"
        if narrow
        else "cast to float32 or int64 around that operator, or write it with another one",
        file=place[1] if place else "",
        line=int(place[2]) if place else 0,
    )


def _about(name: str, path: Path, origins: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    """Dtypes that the node reads and writes, as far as the file says, and the user's line."""
    model = onnx_read.read(path)
    values = (*model.graph.input, *model.graph.output, *model.graph.value_info)
    known = {value.name: value.type.tensor_type.elem_type for value in values}
    known |= {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    for node in onnx_read.nodes(model):
        if node.name == name:
            found = {dtype_name(known[value]) for value in (*node.input, *node.output) if value in known}
            return tuple(sorted(found)), origins.get(node.output[0], "")
    return (), ""


def _readable(text: str) -> str:
    """ORT's message without its own source places."""
    return re.sub(r"\s*/onnxruntime_src/\S+ .*?\) (?=[A-Z])", " ", text).strip()[:500]
