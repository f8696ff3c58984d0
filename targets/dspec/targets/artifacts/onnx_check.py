"""What an ONNX file promises, read back from the file and held against the interface."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import onnx

from dspec.spec.errors import ExportError
from dspec.spec.models import Dim
from dspec.spec.records import Interface, Port
from dspec.targets.artifacts import dim_text, onnx_limits, onnx_read

RANDOM = frozenset(
    ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli")
)
DOMAINS = frozenset(("", "ai.onnx", "ai.onnx.ml", "com.microsoft"))  # what onnxruntime has kernels for
_ABSOLUTE = re.compile(r"(?:^|[\s\"'=(])(?:/[\w.@+-]+){2,}\.\w+|(?:^|[\s\"'=(])[A-Za-z]:\\")


def check(path: Path, interface: Interface, origins: Mapping[str, str], opset: int = 0) -> dict[str, Any]:
    """Facts about the file: opset, IR version, nodes, operators, parameters, bytes, inputs that nothing reads.

    `origins` maps the first output of a node to where the user wrote it, in words. `opset` is the one that was asked
    for, 0 for any.

    Raises:
        ExportError: E0503 to E0516, one per kind of broken promise.
    """
    model = onnx_read.read(path)
    found_opset = _opset(model)
    onnx_limits.check_versions(model.ir_version, found_opset)
    _check_opset(found_opset, opset)
    _check_domains(model)
    _check_random(model, origins)
    _check_ports("input", model.graph.input, interface.inputs, interface.dims)
    _check_ports("output", model.graph.output, interface.outputs, interface.dims)
    _check_strings(model, (str(path.parent), str(Path.home()), sys.prefix, str(Path.cwd())))
    _check_valid(path)
    return _facts(model, path, found_opset)


def _opset(model: onnx.ModelProto) -> int:
    return max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)


def _check_opset(found: int, asked: int) -> None:
    if asked and found != asked:
        raise ExportError.of(
            "E0507",
            f"the converter left the file at opset {found}",
            expected=f"opset {asked}, as the target's options ask",
            hint="leave `opset` out, or ask for one that the converter reaches",
        )


def _check_domains(model: onnx.ModelProto) -> None:
    for node in onnx_read.nodes(model):
        if node.domain not in DOMAINS:
            raise ExportError.of(
                "E0509",
                f"node {node.name} uses {node.domain}.{node.op_type}",
                expected=f"operators of the domains {', '.join(sorted(DOMAINS - {''}))}",
                hint="write the operator with standard ones: a stock onnxruntime has no kernel for it",
            )


def _check_random(model: onnx.ModelProto, origins: Mapping[str, str]) -> None:
    for node in onnx_read.nodes(model):
        if node.op_type in RANDOM or (node.op_type == "Dropout" and len(node.input) > 2 and node.input[2]):
            origin = origins.get(node.output[0], "")
            raise ExportError.of(
                "E0506",
                f"node {node.name} ({node.op_type}) draws random numbers" + (f", from {origin}" if origin else ""),
                expected="a graph that answers the same twice",
                hint="use F.dropout(…, training=self.training), and feed noise in as an input",
                **_place(origin),
            )


def _place(origin: str) -> dict[str, Any]:
    found = re.match(r"(\S+):(\d+)\b", origin)
    return {"file": found[1], "line": int(found[2])} if found else {}


def _check_ports(
    what: str, found: Iterable[onnx.ValueInfoProto], declared: Mapping[str, Port], dims: Mapping[str, Dim]
) -> None:
    found = list(found)
    names = [value.name for value in found]
    if names != list(declared):
        raise _broken("E0515", f"the file has the {what}s {', '.join(names)}", f"{', '.join(declared)}, in that order")
    for value, port in zip(found, declared.values(), strict=True):
        _check_port(f"{what} {value.name}", value, port.dtype, dim_text.settled(port.shape, dims))


def _check_port(what: str, value: onnx.ValueInfoProto, dtype: str, shape: tuple[int | str, ...]) -> None:
    found = dtype_name(value.type.tensor_type.elem_type)
    if found != dtype:
        raise _broken("E0505", f"{what} is {found} in the file", f"{dtype}, as declared")
    if shape_of(value) != shape:
        message = f"{what} has the shape {list(shape_of(value))} in the file"
        raise _broken("E0503", message, f"{list(shape)}, as declared")


def shape_of(value: onnx.ValueInfoProto) -> tuple[int | str, ...]:
    """Sizes as numbers or names, "?" where the file says neither."""
    dims = value.type.tensor_type.shape.dim
    return tuple(dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in dims)


def dtype_name(number: int) -> str:
    """`float32` for TensorProto.FLOAT; the number itself where onnx knows none."""
    try:
        return str(onnx.helper.tensor_dtype_to_np_dtype(number).name)
    except (KeyError, ValueError):
        return f"dtype {number}"


def _broken(code: str, message: str, expected: str) -> ExportError:
    return ExportError.of(
        code, message, expected=expected, hint="report it with the model: the file broke a promise of the spec"
    )


def _check_strings(model: onnx.ModelProto, places: tuple[str, ...]) -> None:
    for text in _strings(model):
        if _ABSOLUTE.search(text) or any(place in text for place in places if len(place) > 1):
            raise _broken("E0516", f"the file holds an absolute path: {text[:200]}", "no path of the build machine")


def _strings(message: Any) -> Iterator[str]:
    """Every text in the file, attribute values included; weights are not texts."""
    if isinstance(message, onnx.TensorProto):
        yield from (message.name, message.doc_string)
        return
    for _, value in message.ListFields():
        single = hasattr(value, "ListFields") or isinstance(value, (str, bytes, int, float))
        for one in [value] if single else value:
            if hasattr(one, "ListFields"):
                yield from _strings(one)
            elif isinstance(one, (bytes, str)):
                yield one if isinstance(one, str) else one.decode(errors="replace")


def _check_valid(path: Path) -> None:
    try:
        onnx.checker.check_model(str(path))
    except (onnx.checker.ValidationError, OSError) as error:
        text = str(error).strip().partition("\n\n")[0]
        raise _broken(
            "E0508", f"{path.name} is not valid ONNX: {text[:400]}", "a file that onnx.checker accepts"
        ) from error


def _facts(model: onnx.ModelProto, path: Path, opset: int) -> dict[str, Any]:
    operators = Counter(node.op_type for node in onnx_read.nodes(model))
    read = {name for node in onnx_read.nodes(model) for name in node.input}
    data = sorted({e.value for t in onnx_read.tensors(model) for e in t.external_data if e.key == "location"})
    files = [path, *(path.parent / name for name in data)]
    return {
        "opset": opset,
        "ir_version": model.ir_version,
        "nodes": sum(operators.values()),
        "operators": dict(sorted(operators.items())),
        "parameters": sum(_elements(tensor) for tensor in model.graph.initializer),
        "bytes": sum(file.stat().st_size for file in files),
        "data": data,
        "unused_inputs": [value.name for value in model.graph.input if value.name not in read],
    }


def _elements(tensor: onnx.TensorProto) -> int:
    count = 1
    for size in tensor.dims:
        count *= size
    return count
