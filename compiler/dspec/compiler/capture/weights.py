"""Reads a checkpoint as named tensors, without running anything in it: safetensors, torch's zip and legacy files, .npz."""

from __future__ import annotations

import json
import pickle
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dspec.spec.errors import DspecError, ExportError

_DEPTH = 3  # of containers: {"model": {"state_dict": {…}}}
_FOREIGN = {
    b"\x89HDF": "an HDF5 file (Keras)",
    b"GGUF": "a GGUF file (llama.cpp)",
    b"\x1f\x8b": "a gzip archive",
    b"BZh": "a bzip2 archive",
    b"\xfd7zXZ": "an xz archive",
    b"\x93NUMPY": "one .npy array without names; save named arrays as .npz",
}
_SAVE_HINT = (
    "save the weights alone: torch.save(model.state_dict(), …) or safetensors.torch.save_file; "
    "the class comes from model.factory"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Tensors under one container of a checkpoint (`""`: the whole file), their keys joined with dots."""

    path: str
    tensors: Mapping[str, torch.Tensor]


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """Every container that may be the state_dict, outermost first; `top`: top-level key → whether it is a tensor."""

    groups: tuple[Group, ...]
    top: Mapping[str, bool]

    def beside(self, path: str) -> list[str]:
        """Top-level keys that are not part of the container at `path`."""
        mine = path.partition(".")[0]
        return sorted(key for key, tensor in self.top.items() if (key != mine if path else not tensor))


def read_checkpoint(path: Path) -> Checkpoint:
    """The tensors of `path`, on the CPU, mapped from disk where the format allows it.

    Raises ExportError saying what the file is when it is no checkpoint.
    """
    with path.open("rb") as stream:
        head = stream.read(512)
    content = _reader(path, head)(path)
    groups = tuple(_groups(content, "", 0))
    if not groups:
        raise _refuse(
            path,
            "holds no tensors",
            f"its keys: {', '.join(map(str, list(content)[:8])) or 'none'}",
        )
    top = {str(key): bool(dict(_flat({key: value}, ""))) for key, value in content.items()}
    return Checkpoint(groups=groups, top=top)


def _refuse(path: Path, what: str, hint: str, code: str = "E0410") -> DspecError:
    return ExportError.of(code, f"{path.name} {what}", key="model.weights", hint=hint)


def _reader(path: Path, head: bytes) -> Callable[[Path], Mapping[Any, Any]]:
    if not head:
        raise _refuse(path, "is empty", "fetch it again")
    if head.startswith(b"version https://git-lfs"):
        raise _refuse(path, "is a Git LFS pointer, not the file it points to", "run `git lfs pull`")
    if re.match(rb"\s*(<!doctype|<html|<\?xml)", head, re.IGNORECASE):
        raise _refuse(
            path,
            "is a web page, not weights",
            "the download failed: fetch it again, logged in if need be",
        )
    for magic, what in _FOREIGN.items():
        if head.startswith(magic):
            raise _refuse(path, f"is {what}", "give safetensors, a state_dict or .npz")
    if head.startswith(b"PK"):
        return _read_zip
    if len(head) > 8 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 2**40:
        return _read_safetensors
    if head.startswith(b"\x80"):
        return _load_torch
    if head.lstrip().startswith(b"{"):
        raise _refuse(
            path,
            "is JSON, perhaps the index of a sharded checkpoint",
            "merge the shards into one file",
        )
    raise _refuse(
        path,
        f"is no checkpoint: it begins with {head[:16]!r}",
        "give safetensors, a state_dict or .npz",
    )


def _read_safetensors(path: Path) -> Mapping[str, Any]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    size = path.stat().st_size
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header = stream.read(length) if length + 8 <= size else b""
    wanted = length + 8
    try:
        entries = json.loads(header or b"{}")
        wanted += max(
            (entry["data_offsets"][1] for key, entry in entries.items() if key != "__metadata__"),
            default=0,
        )
        if size < wanted:
            raise _refuse(path, f"is truncated: {size} bytes of {wanted}", "fetch it again")
        return load_file(path)  # type: ignore[no-any-return]
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise _refuse(path, f"is a damaged safetensors file: {error}", "fetch it again") from error


def _read_zip(path: Path) -> Mapping[Any, Any]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile as error:
        raise _refuse(path, "is a truncated archive: its table of contents is missing", "fetch it again") from error
    if any(name.endswith("/constants.pkl") for name in names) and any("/code/" in name for name in names):
        raise _refuse(path, "is a TorchScript archive, code and all", _SAVE_HINT, "E0411")
    if any(name.endswith("data.pkl") for name in names):
        return _load_torch(path, mmap=True)
    if names and all(name.endswith(".npy") for name in names):
        return _read_npz(path)
    raise _refuse(
        path,
        f"is an archive of other things ({', '.join(names[:3])}, …)",
        "give a state_dict, or .npz",
    )


def _load_torch(path: Path, *, mmap: bool = False) -> Mapping[Any, Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's own remarks about old storages
            found = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except pickle.UnpicklingError as error:
        named = re.search(r"(?:GLOBAL|class|type) ['`]?([\w.]+)", str(error))
        if "Unsupported" not in str(error):
            raise _refuse(path, "can't be unpickled: truncated, or no checkpoint", "fetch it again") from error
        what = f"holds a pickled {named[1] if named else 'object'}: loading it would run code, so it is refused"
        raise _refuse(path, what, _SAVE_HINT, "E0411") from error
    except Exception as error:
        raise _refuse(path, f"can't be read: {_first_line(error)}", "fetch it again, or save it anew") from error
    if isinstance(found, torch.Tensor):
        raise _refuse(path, "is one tensor without a name", _SAVE_HINT)
    if not isinstance(found, Mapping):
        raise _refuse(path, f"holds a {type(found).__name__}, not a state_dict", _SAVE_HINT)
    return found


def _read_npz(path: Path) -> Mapping[str, torch.Tensor]:
    with np.load(path, allow_pickle=False) as arrays:
        return {name: _from_numpy(path, name, arrays) for name in arrays.files}


def _from_numpy(path: Path, name: str, arrays: Any) -> torch.Tensor:
    try:
        array = arrays[name]
        return torch.from_numpy(np.array(array.astype(array.dtype.newbyteorder("="), copy=False), order="C"))
    except (ValueError, TypeError) as error:
        hint = "save plain numeric arrays; bfloat16 needs safetensors"
        raise _refuse(path, f"can't be read: {name}: {_first_line(error)}", hint) from error


def _groups(content: Mapping[Any, Any], path: str, depth: int) -> Iterator[Group]:
    tensors = dict(_flat(content, ""))
    inner = [value for value in content.values() if isinstance(value, Mapping) and dict(_flat(value, ""))]
    if tensors and not (len(inner) == 1 and len(dict(_flat(inner[0], ""))) == len(tensors)):  # else the same, deeper
        yield Group(path=path, tensors=tensors)
    for key, value in content.items():
        if isinstance(value, Mapping) and isinstance(key, str) and depth < _DEPTH:
            yield from _groups(value, f"{path}.{key}" if path else key, depth + 1)


def _flat(content: Mapping[Any, Any], prefix: str) -> Iterator[tuple[str, torch.Tensor]]:
    for key, value in content.items():
        if isinstance(value, torch.Tensor):
            yield f"{prefix}{key}", value
        elif isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
