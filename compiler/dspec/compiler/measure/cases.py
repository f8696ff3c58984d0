"""What a bundle is held against: requests and tensors with the answers PyTorch gave, streamed from disk."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dspec.targets.shipped.golden import read_golden
from dspec.targets.shipped.request import LABEL, read_request

Tensors = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """One case: a raw request (fixtures only), the tensors at the model's door and the answers, batch axis included.

    Attributes:
        expected: the fixture's label; None where it has none.
        response: PyTorch's whole answer to a golden vector, in JSON form; None elsewhere.
    """

    id: str
    kind: Literal["fixture", "shape"]
    request: Mapping[str, Any] | None
    inputs: Tensors
    outputs: Tensors
    expected: Any = None
    response: Mapping[str, Any] | None = None


def reference_cases(folder: Path, fields: Mapping[str, Any]) -> Iterator[Expected]:
    """Every case of a reference folder; one shard in memory at a time."""
    index = json.loads((folder / "index.json").read_text())
    shard, name = _Shard(), ""
    for case in index["cases"]:
        if case["shard"] != name:
            name = case["shard"]
            shard = _Shard(folder / name)
        fixture = case["fixture"] if case["kind"] == "fixture" else None
        yield Expected(
            id=case["id"],
            kind=case["kind"],
            request=None if fixture is None else read_request(fields, index["fixtures"][fixture]["request"], folder),
            inputs=shard.arrays(f"{case['key']}/in"),
            outputs=shard.arrays(f"{case['key']}/out"),
            expected=None if fixture is None else index["fixtures"][fixture]["expected"],
        )


class _Shard:
    """The arrays of one .npz by folder, so that a case does not search thousands of names for its own."""

    def __init__(self, path: Path | None = None) -> None:
        self._file: Any = np.load(path, allow_pickle=False) if path else {}
        self._names: dict[str, list[str]] = {}
        for key in self._file:
            folder, _, name = key.rpartition("/")
            self._names.setdefault(folder, []).append(name)

    def arrays(self, folder: str) -> dict[str, Any]:
        return {name: self._file[f"{folder}/{name}"] for name in self._names.get(folder, ())}


def golden_cases(bundle: Path, fields: Mapping[str, Any]) -> Iterator[Expected]:
    """Every golden vector of a bundle, as a case."""
    for vector in read_golden(bundle / "golden"):
        yield Expected(
            id=vector.id,
            kind="fixture",
            request=read_request(fields, vector.request, vector.folder),
            inputs=vector.door,
            outputs=vector.outputs,
            expected=vector.request.get(LABEL) if LABEL not in fields else None,
            response=vector.response if vector.contract is None else vector.contract.response,
        )
