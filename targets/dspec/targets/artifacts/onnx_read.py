"""Read an ONNX file that may come from anyone: what it points at must lie beside it."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from dspec.spec.errors import DspecError, ExportError


def read(path: Path, error: type[DspecError] = ExportError) -> onnx.ModelProto:
    """The model without its external data, whose places have been checked. Nothing outside the folder is opened.

    Raises:
        error: E0508 not an ONNX file, E0510 external data that is not a plain file of the model's folder.
    """
    try:
        model = _parse(path)
    except (OSError, ValueError, DecodeError) as found:
        raise error.of("E0508", f"{path.name} can't be read as ONNX: {found}", hint="build the bundle again") from found
    check_external_data(model, path.parent, error)
    return model


def _parse(path: Path) -> onnx.ModelProto:
    model = onnx.ModelProto()
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as view,  # not read(): the weights would stand in memory twice
    ):
        model.ParseFromString(view)
    return model


def check_external_data(model: onnx.ModelProto, folder: Path, error: type[DspecError] = ExportError) -> None:
    """Every location is the bare name of a plain file in `folder`, long enough for what is said to lie in it."""
    for tensor in tensors(model):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            problem = _problem(tensor, folder)
            if problem:
                raise error.of(
                    "E0510",
                    f"the external data of initializer {tensor.name} {problem}",
                    expected="the bare name of a plain file beside the model, which holds all of the tensor",
                    hint="do not load this model; rebuild it, or get it from whoever made it",
                )


def _problem(tensor: onnx.TensorProto, folder: Path) -> str:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if not location or location in (".", "..") or any(mark in location for mark in "/\\:\0"):
        return f"lies at {location!r}"
    try:
        found = os.lstat(folder / location)
    except OSError:
        return f"is missing: no file {location!r}"
    if not stat.S_ISREG(found.st_mode):
        return f"lies at {location!r}, which is a link or no plain file"
    try:
        offset, length = int(entries.get("offset", "0")), int(entries.get("length", "0"))
    except ValueError:
        return f"has an offset or length that is no number: {entries}"
    if offset < 0 or length < 0 or offset + length > found.st_size:
        return f"runs past the end of {location!r} ({offset} + {length} of {found.st_size} bytes)"
    return ""


def nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Every node, those of subgraphs and functions included."""
    yield from _nodes(model.graph.node)
    for function in model.functions:
        yield from _nodes(function.node)


def _nodes(found: object) -> Iterator[onnx.NodeProto]:
    for node in found:  # type: ignore[attr-defined]
        yield node
        for graph in subgraphs(node):
            yield from _nodes(graph.node)


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """The main graph and every subgraph."""
    yield model.graph
    for node in nodes(model):
        yield from subgraphs(node)


def tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor that holds data: initializers, sparse ones, attributes."""
    for graph in graphs(model):
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
    for node in nodes(model):
        for attribute in node.attribute:
            yield from _attribute_tensors(attribute)


def _attribute_tensors(attribute: onnx.AttributeProto) -> Iterator[onnx.TensorProto]:
    if attribute.HasField("t"):
        yield attribute.t
    yield from attribute.tensors
    sparse = [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
    for one in (*sparse, *attribute.sparse_tensors):
        yield from (one.values, one.indices)
