"""Writes named tensors as safetensors a piece at a time: the library's own writer holds every byte a second time."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

PIECE = 2**20  # elements in memory at once
ALIGNED = 8  # bytes that the header's length is a multiple of, as the library itself writes it
DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip


def once(tensors: Mapping[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Each storage under its first name, and the other names of tied tensors → that one. Sorted by name."""
    first: dict[Any, str] = {}
    kept, tied = {}, {}
    for name, value in sorted(tensors.items()):
        where = (value.untyped_storage().data_ptr(), value.storage_offset(), value.shape, value.stride())
        stored = first.setdefault(where, name) if value.numel() else name
        if stored == name:
            kept[name] = value
        else:
            tied[name] = stored
    return kept, tied


def write_safetensors(tensors: Mapping[str, torch.Tensor], path: Path) -> int:
    """Write them in the order given and return the file's size in bytes. ValueError for a dtype the format lacks."""
    odd = sorted(name for name, value in tensors.items() if value.dtype not in DTYPES or value.layout != torch.strided)
    if odd:
        raise ValueError(f"{odd[0]} is {tensors[odd[0]].dtype}, {tensors[odd[0]].layout}, which safetensors lacks")
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, value in tensors.items():
        start, end = end, end + math.prod(value.shape) * value.element_size()
        header[name] = {"dtype": DTYPES[value.dtype], "shape": list(value.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNED)
    with path.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for value in tensors.values():
            for piece in _pieces(value):
                stream.write(piece)
    return 8 + len(text) + end


def _pieces(value: torch.Tensor) -> Iterator[bytes]:
    flat = value.detach().reshape(-1)  # a view, unless the tensor is strided
    for start in range(0, flat.numel(), PIECE):
        raw = flat[start : start + PIECE].contiguous().view(torch.uint8).numpy()
        if sys.byteorder == "big":
            raw = raw.reshape(-1, value.element_size())[:, ::-1]
        yield raw.tobytes()
