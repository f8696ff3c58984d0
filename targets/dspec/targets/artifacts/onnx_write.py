"""An ONNX file with the same bytes everywhere, written tensor by tensor.

Protobuf's own serializer needs every weight two more times in memory. The bytes here are those that it would write,
field by field in order, with the tensors streamed in their place.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import onnx
import onnx_ir as ir

SINGLE_FILE_LIMIT = 2**31 - 1  # protobuf reads no more in one piece
DATA_SUFFIX = ".data"
_SMALL = 1024  # external or not, sizes and other small constants stay where shape inference finds them
_ALIGNED_FROM, _COARSE, _FINE = 2**20, 2**16, 64  # memory maps start at multiples of 64 KiB on every system
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9  # field numbers of ModelProto, GraphProto, TensorProto


def write(model: ir.Model, path: Path, limit: int | None = None) -> None:
    """Write `path`; from `limit` bytes on (2 GB) the large weights go to one file `<name>.data` beside it.

    Empties the model's initializers: it is of no use afterwards.
    """
    tensors = _take_initializers(model.graph)
    proto = ir.serde.serialize_model(model)
    head, tail = _around(proto, _GRAPH)
    graph_head, graph_tail = _around(proto.graph, _INITIALIZER)
    external = len(head) + len(graph_head) + len(graph_tail) + len(tail) + _total(tensors) >= (
        SINGLE_FILE_LIMIT if limit is None else limit
    )
    entries = _external(tensors, path.with_name(path.name + DATA_SUFFIX)) if external else _inside(tensors)
    size = len(graph_head) + len(graph_tail) + sum(length for length, _ in entries)
    with path.open("wb") as file:
        file.write(head + _key(_GRAPH) + _varint(size) + graph_head)
        for _, emit in entries:
            emit(file)
        file.write(graph_tail + tail)


_Entry = tuple[int, Callable[[BinaryIO], Any]]  # how many bytes an initializer takes in the file, and who writes them


def _take_initializers(graph: ir.Graph) -> list[Any]:
    tensors = []
    for value in list(graph.initializers.values()):
        assert value.const_value is not None
        value.const_value.name = value.name
        tensors.append(value.const_value)
    graph.initializers.clear()
    return tensors


def _around(message: Any, number: int) -> tuple[bytes, bytes]:
    """The fields before and after the one of that number, serialized."""
    return (
        _part(message, lambda found: found < number),
        _part(message, lambda found: found > number),
    )


def _part(message: Any, wanted: Callable[[int], bool]) -> bytes:
    part = type(message)()
    part.CopyFrom(message)
    for field, _ in message.ListFields():
        if not wanted(field.number):
            part.ClearField(field.name)
    return bytes(part.SerializeToString(deterministic=True))


def _inside(tensors: list[Any]) -> list[_Entry]:
    return [_inside_one(tensor) for tensor in tensors]


def _inside_one(tensor: Any) -> _Entry:
    header = _header(tensor).SerializeToString(deterministic=True) + _key(_RAW_DATA) + _varint(tensor.nbytes)
    start = _key(_INITIALIZER) + _varint(len(header) + tensor.nbytes) + header

    def emit(file: BinaryIO) -> None:
        file.write(start)
        _write_data(tensor, file)

    return len(start) + tensor.nbytes, emit


def _external(tensors: list[Any], data: Path) -> list[_Entry]:
    entries = []
    with data.open("wb") as file:
        for tensor in tensors:
            if tensor.nbytes < _SMALL:
                entries.append(_inside_one(tensor))
                continue
            step = _COARSE if tensor.nbytes >= _ALIGNED_FROM else _FINE
            file.write(bytes(-file.tell() % step))
            entries.append(_outside_one(tensor, data.name, file.tell()))
            _write_data(tensor, file)
    return entries


def _outside_one(tensor: Any, location: str, offset: int) -> _Entry:
    header = _header(tensor)
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(tensor.nbytes))):
        header.external_data.add(key=key, value=value)
    header.data_location = onnx.TensorProto.EXTERNAL
    body = header.SerializeToString(deterministic=True)
    entry = _key(_INITIALIZER) + _varint(len(body)) + body
    return len(entry), lambda file: file.write(entry)


def _header(tensor: Any) -> onnx.TensorProto:
    return onnx.TensorProto(name=tensor.name, data_type=int(tensor.dtype), dims=list(tensor.shape.numpy()))


def _write_data(tensor: Any, file: BinaryIO) -> None:
    before = file.tell()
    tensor.tofile(file)
    if file.tell() - before != tensor.nbytes:
        raise OSError(f"{file.tell() - before} bytes of {tensor.name} were written instead of {tensor.nbytes}")


def _total(tensors: list[Any]) -> int:
    return sum(length for length, _ in _inside(tensors))


def _key(number: int) -> bytes:
    return bytes([number << 3 | 2])  # length-delimited


def _varint(value: int) -> bytes:
    parts = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])
