"""Digest, norm and mean of every tensor of a program: what tells two builds' weights apart."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Iterator, Mapping

import numpy as np
import torch

from dspec.spec.records import TensorDigest

_CHUNK = 2**20  # elements in memory at once, as float64


def tensor_digests(tensors: Mapping[str, torch.Tensor]) -> tuple[TensorDigest, ...]:
    """One per tensor, sorted by name; tied tensors once, under their first name."""
    seen: set[object] = set()
    found = []
    for name, tensor in sorted(tensors.items()):
        tensor = tensor.detach()
        where = (tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tensor.shape, tensor.stride())
        if not tensor.numel() or where not in seen:
            seen.add(where)
            found.append(_digest(name, tensor))
    return tuple(found)


def _digest(name: str, tensor: torch.Tensor) -> TensorDigest:
    sha256, squares, total = hashlib.sha256(), 0.0, 0.0
    for chunk in _chunks(tensor):
        sha256.update(_little_endian(chunk))
        values = (torch.view_as_real(chunk) if chunk.is_complex() else chunk).to(torch.float64).numpy()
        squares += float(np.square(values).sum())
        total += float(values.sum())
    return TensorDigest(
        name=name,
        dtype=str(tensor.dtype).removeprefix("torch."),
        shape=tuple(tensor.shape),
        sha256=sha256.hexdigest(),
        norm=_six_digits(math.sqrt(squares)) if math.isfinite(squares) else None,
        mean=_six_digits(total / tensor.numel()) if math.isfinite(total) and tensor.numel() else None,
    )


def _chunks(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    flat = tensor.reshape(-1)  # a view, unless the tensor is strided
    yield from (flat[start : start + _CHUNK].contiguous() for start in range(0, flat.numel(), _CHUNK))


def _little_endian(chunk: torch.Tensor) -> bytes:
    raw = chunk.view(torch.uint8).numpy()
    if sys.byteorder == "big":
        raw = raw.reshape(-1, chunk.element_size())[:, ::-1]
    return raw.tobytes()


def _six_digits(value: float) -> float:
    return float(f"{value:.6g}")
