"""Frames of the pipe: a JSON header with its arrays and bytes beside it; no pickles, no objects.

    4 bytes, big-endian   size of the header
    header                JSON: {"body": …, "sizes": [bytes of each buffer]}
    buffers               raw, in that order

In the body, {"$array": [buffer, dtype, shape]} and {"$bytes": buffer} stand for what they name; an
object of the user's that has a key beginning with `$` travels as {"$object": …}.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

from .arrays import NUMBERS

LENGTH = struct.Struct(">I")
ENCODER = json.JSONEncoder(separators=(",", ":"))  # made once: json.dumps makes one per call
MAX_HEADER = 64 << 20
MAX_BUFFERS = 2 << 30
CHUNK = 16 << 20  # memory is taken as bytes arrive, not as a header announces them


class FrameError(ValueError):
    """What came is no frame, or above the limits; the stream can't be read on."""


def encode(body: Any) -> list[bytes | memoryview]:
    """The frame of a value, as parts to write. FrameError where a value can't travel."""
    buffers: list[bytes | memoryview] = []
    packed = _pack(body, buffers)
    sizes = [len(buffer) for buffer in buffers]
    try:
        header = ENCODER.encode({"body": packed, "sizes": sizes}).encode()
    except (TypeError, ValueError) as error:
        raise FrameError(str(error)) from error
    _check_sizes(len(header), sizes)
    return [LENGTH.pack(len(header)) + header, *buffers]


def write(stream: BinaryIO, body: Any) -> None:
    """Write a value's frame and flush. Callers hold a lock."""
    for part in encode(body):
        stream.write(part)
    stream.flush()


def read(stream: BinaryIO) -> Any:
    """The next value; EOFError at the end of the stream, FrameError where it is no frame."""
    head = stream.read(LENGTH.size)
    if not head:
        raise EOFError
    size = LENGTH.unpack(_whole(head, LENGTH.size))[0]
    _check_sizes(size, [])
    try:
        header = json.loads(_whole(stream.read(size), size))
        body, sizes = header["body"], header["sizes"]
        _check_sizes(size, sizes)
    except FrameError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FrameError(f"the header is no frame's: {error}") from error
    buffers = [_buffer(stream, size) for size in sizes]
    try:
        return _unpack(body, buffers)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError) as error:
        raise FrameError(f"the body does not fit its buffers: {error}") from error


def _check_sizes(header: int, sizes: list[int]) -> None:
    if not isinstance(sizes, list) or any(type(size) is not int for size in sizes):
        raise FrameError("the sizes of a frame's buffers are no list of whole numbers")
    if header > MAX_HEADER or any(size < 0 for size in sizes) or sum(sizes) > MAX_BUFFERS:
        raise FrameError(f"a frame of {header} + {sum(sizes)} bytes; at most {MAX_HEADER} + {MAX_BUFFERS}")


def _whole(data: bytes, size: int) -> bytes:
    if len(data) < size:
        raise FrameError(f"the stream ended after {len(data)} of {size} bytes")
    return data


def _buffer(stream: BinaryIO, size: int) -> bytearray:
    # A bytearray, so that arrays over it may be written to.
    buffer = bytearray(min(size, CHUNK))
    done = 0
    while done < size:
        if done == len(buffer):
            buffer.extend(bytes(min(size - done, max(CHUNK, done))))
        with memoryview(buffer) as view:
            count = stream.readinto(view[done:])  # type: ignore[attr-defined]
        if not count:
            raise FrameError(f"the stream ended after {done} of {size} bytes")
        done += count
    return buffer


def _pack(value: Any, buffers: list[bytes | memoryview]) -> Any:
    if isinstance(value, np.ndarray):
        return _pack_array(value, buffers)
    if isinstance(value, dict):  # most mappings are; asking for Mapping takes longer
        return _pack_object(value, buffers)
    if isinstance(value, np.generic):
        return _pack_array(np.asarray(value), buffers)
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return [_pack(inner, buffers) for inner in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        buffers.append(bytes(value))
        return {"$bytes": len(buffers) - 1}
    if isinstance(value, Mapping):
        return _pack_object(value, buffers)
    raise FrameError(f"a {type(value).__name__} can't travel")


def _pack_object(value: Mapping[Any, Any], buffers: list[bytes | memoryview]) -> dict[str, Any]:
    packed = {str(key): _pack(inner, buffers) for key, inner in value.items()}
    return {"$object": packed} if any(key[:1] == "$" for key in packed) else packed


def _pack_array(array: np.ndarray[Any, Any], buffers: list[bytes | memoryview]) -> Any:
    if array.dtype.kind not in NUMBERS:
        raise FrameError(f"an array of dtype {array.dtype} can't travel")
    flat = np.ascontiguousarray(array).reshape(-1)
    buffers.append(flat.view(np.uint8).data)
    return {"$array": [len(buffers) - 1, array.dtype.str, list(array.shape)]}


def _unpack(value: Any, buffers: list[bytearray]) -> Any:
    if isinstance(value, list):
        return [_unpack(inner, buffers) for inner in value]
    if not isinstance(value, dict):
        return value
    if "$array" in value:
        return _unpack_array(value["$array"], buffers)
    if "$bytes" in value:
        return bytes(buffers[value["$bytes"]])
    inside = value.get("$object", value)
    return {key: _unpack(inner, buffers) for key, inner in inside.items()}


def _unpack_array(packed: Any, buffers: list[bytearray]) -> np.ndarray[Any, Any]:
    number, name, shape = packed
    kind = np.dtype(name)
    if kind.kind not in NUMBERS or kind.itemsize * math.prod(shape) != len(buffers[number]):
        raise ValueError(f"{len(buffers[number])} bytes for shape {shape} of {name}")
    return np.frombuffer(buffers[number], kind).reshape(shape)
