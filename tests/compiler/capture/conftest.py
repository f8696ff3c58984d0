"""Captures small models: `capture(folder, model, …)` writes what a spec's folder holds and runs the real thing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dspec.compiler.capture import CaptureRequest, CaptureResult, capture
from dspec.compiler.pipeline import declared_interface, write_pipeline_json
from dspec.spec.models import Spec

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Captured:
    """A finished capture and its two folders."""

    result: CaptureResult
    program: Path
    reference: Path
    lines: tuple[str, ...]

    @property
    def described(self) -> Any:
        return json.loads((self.program / "program.json").read_text())

    @property
    def index(self) -> Any:
        return json.loads((self.reference / "index.json").read_text())

    def said(self) -> str:
        return "\n".join(str(warning) for warning in self.result.warnings)

    def cases(self) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
        """Every case with its inputs and outputs."""
        for case in self.index["cases"]:
            with np.load(self.reference / case["shard"], allow_pickle=False) as shard:
                sides = [
                    {k.removeprefix(p): shard[k] for k in shard.files if k.startswith(p)}
                    for p in (f"{case['key']}/in/", f"{case['key']}/out/")
                ]
            yield case, sides[0], sides[1]


def make_spec(model: Mapping[str, Any], request: Mapping[str, Any] | None = None, **more: Any) -> Spec:
    body = {
        "apiVersion": "dspec/v1alpha1",
        "name": "case",
        "model": {"factory": "model.py:build", **model},
        "request": request if request is not None else _request(model),
        "fixtures": [{"file": "rows.jsonl"}],
        "targets": {"one": {"runtime": "onnxruntime"}},
        **more,
    }
    return Spec.model_validate_json(json.dumps(body))


def _request(model: Mapping[str, Any]) -> dict[str, Any]:
    batch = "batch" if "batch" in model.get("dims", {}) else None
    return {
        name: {"type": "tensor", "dtype": tensor["dtype"], "shape": [s for s in tensor["shape"] if s != batch]}
        for name, tensor in model["inputs"].items()
    }


def rows(model: Mapping[str, Any], count: int = 3) -> list[dict[str, Any]]:
    """Requests of random numbers, different from one another, at small sizes."""
    random = np.random.default_rng(7)
    dims = model.get("dims", {})

    def value(tensor: Mapping[str, Any], number: int) -> Any:
        least = [1 if s == "batch" else s if isinstance(s, int) else max(1, dims[s]["min"]) for s in tensor["shape"]]
        shape = [size for size, name in zip(least, tensor["shape"], strict=True) if name != "batch"]
        if tensor["dtype"] == "bool":
            return (random.random(shape) > 0.5).tolist()
        if "int" in tensor["dtype"]:
            return random.integers(0, 7, shape).tolist()
        return np.round(random.normal(size=shape) + number, 3).tolist()

    return [{name: value(tensor, n) for name, tensor in model["inputs"].items()} for n in range(count)]


Run = Callable[..., Captured]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Capture a model.py given as text; keywords beyond its own go into the spec."""

    def call(
        source: str,
        model: Mapping[str, Any],
        *,
        lines: Sequence[Row] | None = None,
        weights: str | None = None,
        folder: Path = tmp_path / "spec",
        out: Path = tmp_path / "out",
        **more: Any,
    ) -> Captured:
        spec = write(source, model, folder, lines, **more)
        write_pipeline_json(spec, declared_interface(spec), out / "pipeline")
        said: list[str] = []
        request = CaptureRequest(
            spec=spec,
            folder=folder,
            spec_file="deploy.yaml",
            weights=folder / weights if weights else None,
            pipeline=out / "pipeline",
            program_out=out / "program",
            reference_out=out / "reference",
        )
        result = capture(request, said.append)
        return Captured(result, out / "program", out / "reference", tuple(said))

    return call


def write(source: str, model: Mapping[str, Any], folder: Path, lines: Sequence[Row] | None = None, **more: Any) -> Spec:
    """What a spec's folder holds: model.py and rows.jsonl (kept where it is there already)."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.py").write_text(source)
    if lines is not None or not (folder / "rows.jsonl").exists():
        found = rows(model) if lines is None else lines
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found))
    spec = make_spec(model, **more)
    (folder / "spec.json").write_text(spec.model_dump_json(by_alias=True))
    return spec


@pytest.fixture
def write_spec() -> Callable[..., Spec]:
    return write
