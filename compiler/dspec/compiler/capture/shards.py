"""Writes the reference folder: cases in shards of bounded size, raw files by digest, an index. No clock in any of it."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dspec.compiler.capture.fixtures import Fixture
from dspec.compiler.capture.shapes import Array, Arrays

SHARD_BYTES = 64 * 2**20
_INLINE = 10_000  # characters of nested lists that may stay in the index
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest day a zip can name


class ReferenceWriter:
    """Cases in, one at a time; `finish` writes the index."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.cases: list[dict[str, Any]] = []
        self.fixtures: list[dict[str, Any]] = []
        self._shard: zipfile.ZipFile | None = None
        self._bytes = self._shards = 0
        out.mkdir(parents=True, exist_ok=True)

    def add(self, kind: str, name: str, sizes: Mapping[str, int], inputs: Arrays, outputs: Arrays) -> None:
        """One case; a fixture's case follows `add_fixture`."""
        size = sum(array.nbytes for array in (*inputs.values(), *outputs.values()))
        if self._shard is None or (self._bytes and self._bytes + size > SHARD_BYTES):
            self._next_shard()
        assert self._shard is not None
        key = f"{len(self.cases):06d}"
        for side, arrays in (("in", inputs), ("out", outputs)):
            for array_name, array in arrays.items():
                _write_array(self._shard, f"{key}/{side}/{array_name}", array)
        self._bytes += size
        fixture = len(self.fixtures) - 1 if kind == "fixture" else None
        shard = f"{self._shards - 1:03d}.npz"
        case = {"id": name, "kind": kind, "fixture": fixture, "shard": shard, "key": key, "sizes": dict(sizes)}
        self.cases.append(case)

    def add_fixture(self, fixture: Fixture, fields: Mapping[str, Any]) -> None:
        """The raw request, its files copied to `files/` under their digest."""
        request = {name: self._kept(fixture, name, fields) for name in fields}
        found = {"id": fixture.id, "source": fixture.source, "request": request, "expected": fixture.expected}
        self.fixtures.append(found)

    def finish(self, index: Mapping[str, Any]) -> None:
        if self._shard is not None:
            self._shard.close()
        body = {"cases": self.cases, "fixtures": self.fixtures, **index}
        (self.out / "index.json").write_text(json.dumps(body, indent=1, allow_nan=False) + "\n")

    def _next_shard(self) -> None:
        if self._shard is not None:
            self._shard.close()
        self._shard = zipfile.ZipFile(self.out / f"{self._shards:03d}.npz", "w")
        self._shards, self._bytes = self._shards + 1, 0

    def _kept(self, fixture: Fixture, name: str, fields: Mapping[str, Any]) -> Any:
        kind, raw, value = fields[name]["type"], fixture.raw[name], fixture.request[name]
        if kind in ("image", "audio"):
            path = raw if isinstance(raw, str) else raw.get("file", "") if isinstance(raw, Mapping) else ""
            return {"file": self._file(value, Path(path).suffix)}
        if kind == "tensor" and (not isinstance(raw, list | int | float | bool) or len(json.dumps(raw)) > _INLINE):
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, value, allow_pickle=False)
            return {"npy": self._file(buffer.getvalue(), ".npy")}
        return value if isinstance(raw, np.ndarray | np.generic) else raw

    def _file(self, content: bytes, suffix: str) -> str:
        plain = suffix.lower() if suffix[1:].isalnum() else ".bin"
        name = f"files/{hashlib.sha256(content).hexdigest()}{plain}"
        (self.out / "files").mkdir(exist_ok=True)
        (self.out / name).write_bytes(content)
        return name


def _write_array(shard: zipfile.ZipFile, name: str, array: Array) -> None:
    with shard.open(zipfile.ZipInfo(f"{name}.npy", _EPOCH), "w", force_zip64=True) as stream:
        np.lib.format.write_array(stream, np.asarray(array), allow_pickle=False)
