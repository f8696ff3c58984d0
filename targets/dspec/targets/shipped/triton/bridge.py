"""Tensors between numpy and the server, whatever numpy the server's stub was built for.

A stub built for numpy 1 reads the size of an element where numpy 2 keeps a dtype's flags, which are 0 there. So it sees
arrays of 0 bytes: inputs come with strides of 0, or as the first byte again and again; outputs go out empty. `install`
gives it a table of numpy's functions whose `PyArray_NewFromDescr` mends such strides; numbers leave through DLPack; texts
leave as an array whose dtype is ours alone and, for that moment, has its 1 where either reads it. A stub that was built
for numpy 2 does not notice, and with numpy 1 nothing is changed.
"""

from __future__ import annotations

import ctypes
import importlib
import struct
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import triton_python_backend_utils as pb  # type: ignore[import-not-found]  # the server brings it

from ..arrays import Array

NUMPY_1 = int(np.__version__.partition(".")[0]) < 2
TABLE, NEW_FROM_DESCR = 305, 94  # entries that numpy 1 has; `numpy/__multiarray_api.h`
ELSIZE_1 = 32  # where numpy 1 keeps a dtype's element size: int elsize, behind head, type, four chars and type_num
USED = b"used_dltensor"

_Pointer = ctypes.c_void_p
_New = ctypes.PYFUNCTYPE(
    _Pointer, _Pointer, _Pointer, ctypes.c_int, _Pointer, _Pointer, _Pointer, ctypes.c_int, _Pointer
)
_kept: list[Any] = []  # the table, for as long as the stub may call it

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = _Pointer, [ctypes.py_object, ctypes.c_char_p]
_capsule_new = ctypes.pythonapi.PyCapsule_New
_capsule_new.restype, _capsule_new.argtypes = ctypes.py_object, [_Pointer, ctypes.c_char_p, _Pointer]
_capsule_name = ctypes.pythonapi.PyCapsule_SetName
_capsule_name.restype, _capsule_name.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]


def install() -> None:
    """Before the first tensor of this process: the stub looks numpy up once."""
    if NUMPY_1 or _kept:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the old name is deprecated, and what such a stub asks for
        old: Any = importlib.import_module("numpy.core.multiarray")
        real = old._ARRAY_API
    table = (_Pointer * TABLE)(*(_Pointer * TABLE).from_address(_capsule_pointer(real, None)))
    original = _New(table[NEW_FROM_DESCR] or 0)

    def mended(kind: Any, dtype: Any, rank: int, sizes: Any, strides: Any, data: Any, flags: int, owner: Any) -> Any:
        if strides and rank and not any((ctypes.c_ssize_t * rank).from_address(strides)):
            strides = None  # numpy finds them itself
        return original(kind, dtype, rank, sizes, strides, data, flags, owner)

    called = _New(mended)
    table[NEW_FROM_DESCR] = ctypes.cast(called, _Pointer).value
    _kept.extend((table, original, called))
    old._ARRAY_API = _capsule_new(ctypes.addressof(table), None, None)
    try:
        pb.Tensor("first", np.zeros(1, np.uint8))
    finally:
        old._ARRAY_API = real


def array_of(tensor: Any) -> Array:
    """An input: numbers, or objects of type bytes; valid as long as its request."""
    found: Array = tensor.as_numpy()
    return found


def numbers(name: str, array: Array) -> Any:
    """An output of numbers or truth values."""
    capsule = _own(array).__dlpack__()
    tensor = pb.Tensor.from_dlpack(name, capsule)
    _capsule_name(capsule, USED)  # the stub gives it another name, of which numpy complains
    return tensor


def _own(array: Array) -> Array:
    """Contiguous, writable and of this machine's byte order: what DLPack can export."""
    array = np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape)
    return array if array.flags.writeable else array.copy()


def texts(name: str, values: Iterable[bytes], shape: tuple[int, ...]) -> Any:
    """An output of strings."""
    array = np.empty(shape, object)
    array.reshape(-1)[:] = list(values)
    if NUMPY_1:
        return pb.Tensor(name, array)
    dtype = np.dtype(np.uint8, metadata={"of": "dspec"})  # an object of its own: numpy's is every array's

    def serialized(given: Array) -> Array:
        parts = (part for text in given.reshape(-1) for part in (struct.pack("<I", len(text)), text))
        found = np.frombuffer(b"".join(parts), np.uint8).view(dtype)
        _element_size(found.dtype, 1)
        return found

    before = pb.serialize_byte_tensor
    pb.serialize_byte_tensor = serialized
    try:
        return pb.Tensor(name, array)
    finally:
        pb.serialize_byte_tensor = before
        _element_size(dtype, 0)


def _element_size(dtype: Any, size: int) -> None:
    ctypes.c_int32.from_address(id(dtype) + ELSIZE_1).value = size
