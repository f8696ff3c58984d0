"""`graph.txt`: an ONNX file as text that reviewers can diff."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import onnx
from onnx import AttributeProto, numpy_helper

from dspec.targets.artifacts import onnx_read
from dspec.targets.artifacts.onnx_check import dtype_name, shape_of

_CHUNK = 2**22
_SHORT = 16  # attribute values longer than this are given by digest


def listing(path: Path) -> str:
    """One line per input, output, operator kind, initializer and node; the same text for the same bytes."""
    model = onnx_read.read(path)
    return "\n".join(_lines(model, path.parent)) + "\n"


def _lines(model: onnx.ModelProto, folder: Path) -> Iterator[str]:
    opsets = sorted((entry.domain or "ai.onnx", entry.version) for entry in model.opset_import)
    yield f"ir_version {model.ir_version}"
    yield from (f"opset {domain} {number}" for domain, number in opsets)
    for title, values in (("inputs", model.graph.input), ("outputs", model.graph.output)):
        yield f"\n{title}"
        yield from (f"  {value.name} {_type(value)}" for value in values)
    yield "\noperators"
    counts = Counter(_operator(node) for node in onnx_read.nodes(model))
    yield from (f"  {name} {count}" for name, count in sorted(counts.items()))
    yield "\ninitializers"
    yield from (f"  {_tensor(tensor, folder)}" for tensor in model.graph.initializer)
    yield "\nnodes"
    yield from _graph(model.graph, "  ", folder)


def _graph(graph: onnx.GraphProto, indent: str, folder: Path) -> Iterator[str]:
    known = {value.name: value for value in (*graph.value_info, *graph.output)}
    for node in graph.node:
        yield indent + _node(node, known, folder)
        for attribute in node.attribute:
            graphs = [attribute.g] if attribute.HasField("g") else []
            for inner in (*graphs, *attribute.graphs):
                inputs = ", ".join(value.name for value in inner.input)
                yield f"{indent}  {attribute.name}({inputs}) -> {', '.join(value.name for value in inner.output)}"
                yield from (f"{indent}    {_tensor(tensor, folder)}" for tensor in inner.initializer)
                yield from _graph(inner, indent + "    ", folder)


def _node(node: onnx.NodeProto, known: dict[str, onnx.ValueInfoProto], folder: Path) -> str:
    outputs = ", ".join(f"{name} {_type(known[name])}" if name in known else name for name in node.output)
    attributes = [_attribute(attribute, folder) for attribute in sorted(node.attribute, key=lambda found: found.name)]
    shown = " ".join(text for text in attributes if text)
    return f"{outputs} = {_operator(node)}({', '.join(node.input)})" + (f" {{{shown}}}" if shown else "")


def _operator(node: onnx.NodeProto) -> str:
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def _type(value: onnx.ValueInfoProto) -> str:
    if not value.type.HasField("tensor_type"):
        return value.type.WhichOneof("value") or "?"
    return f"{dtype_name(value.type.tensor_type.elem_type)}[{', '.join(map(str, shape_of(value)))}]"


def _attribute(attribute: onnx.AttributeProto, folder: Path) -> str:
    if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
        return ""
    if attribute.type == AttributeProto.TENSOR:
        return f"{attribute.name}={_constant(attribute.t, folder)}"
    value = onnx.helper.get_attribute_value(attribute)
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return f"{attribute.name}={text.replace(' ', '')}"


def _constant(tensor: onnx.TensorProto, folder: Path) -> str:
    array = None if tensor.data_location == onnx.TensorProto.EXTERNAL else numpy_helper.to_array(tensor)
    if array is None or array.size > _SHORT:
        return _tensor(tensor, folder)
    return f"{dtype_name(tensor.data_type)}{array.tolist()}".replace(" ", "")


def _tensor(tensor: onnx.TensorProto, folder: Path) -> str:
    return f"{tensor.name} {dtype_name(tensor.data_type)}{list(tensor.dims)} {_digest(tensor, folder)[:12]}".lstrip()


def _digest(tensor: onnx.TensorProto, folder: Path) -> str:
    """sha256 of the tensor's little-endian bytes, wherever they lie."""
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        data = tensor.raw_data if tensor.HasField("raw_data") else numpy_helper.to_array(tensor).tobytes()
        return hashlib.sha256(data).hexdigest()
    entries = {entry.key: entry.value for entry in tensor.external_data}
    found, left = hashlib.sha256(), int(entries["length"])
    with (folder / entries["location"]).open("rb") as file:
        file.seek(int(entries["offset"]))
        while left and (piece := file.read(min(_CHUNK, left))):
            found.update(piece)
            left -= len(piece)
    return found.hexdigest()
