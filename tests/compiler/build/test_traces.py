"""`dspec run --trace` and `dspec trace-diff`: where two ways of the same request part."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dspec.compiler.trace_diff import first_apart, inside_graph, rows
from dspec.spec.models import Spec
from dspec.targets.shipped.pipeline import Pipeline, Trace
from dspec.targets.shipped.trace import Traced, read_trace, values_before, write_trace

Project = Any  # conftest.Project: importlib mode gives test folders no names
STEPS = [
    {"id": "scaled", "use": "scale", "params": {"factor": 2.0}, "in": ["raw"], "out": ["half"]},
    {"id": "normal", "use": "normalize", "params": {"mean": 1.0, "std": 2.0}, "in": ["half"], "out": ["x"]},
]


def traced(folder: Path, name: str, **changed: float) -> Path:
    """The trace of one request through two steps, the first step's parameters changed."""
    port = {"dtype": "float32", "shape": ["batch", 3], "range": None}
    first = STEPS[0] | {"params": {"factor": 2.0, **changed}}
    declared = {
        "request": {"raw": {"type": "tensor", "dtype": "float32", "shape": [3], "max_bytes": 100}},
        "before": [first, STEPS[1]],
        "inputs": {"x": port},
        "outputs": {"y": port},
        "dims": {"batch": {"min": 1, "max": 4, "multiple_of": 1}},
        "batch": "batch",
        "after": [{"id": "scaled", "use": "scale", "params": {}, "in": ["y"], "out": ["z"]}],
        "response": {"z": "z"},
    }
    pipeline = Pipeline(declared, folder)
    trace: Trace = []
    request = {"raw": np.array([1, 2, 3], np.float32)}
    door = pipeline.before(request, trace)
    outputs = {"y": door["x"] * 3}
    response = pipeline.after(outputs, trace)
    write_trace(folder / name, request, trace, door, outputs, response, values_before(declared))
    return folder / name


def test_a_trace_keeps_request_values_and_answer_in_order(tmp_path: Path) -> None:
    found = read_trace(traced(tmp_path, "a.npz"))
    assert list(found.values) == ["scaled.half", "normal.x", "door.x", "output.y", "scaled.z"]
    assert found.request == {"raw": [1, 2, 3]}
    assert found.response == {"z": [1.5, 4.5, 7.5]}


def test_the_first_step_that_differs_is_named(project: Project, tmp_path: Path) -> None:
    one, other = traced(tmp_path, "a.npz"), traced(tmp_path, "b.npz", factor=2.5)
    done = project.dspec("trace-diff", str(one), str(other))
    assert done.code == 1
    assert "they part at scaled.half: |difference| 1.5 at (2) where |reference| is 6" in done.out
    assert "output.y" in done.out
    same = project.dspec("trace-diff", str(one), str(one), "--format", "json")
    assert (same.code, same.json[0]["parts_at"]) == (0, None)
    loose = project.dspec("trace-diff", str(one), str(other), "--atol", "100")
    assert "they agree in every value" in loose.out


def test_values_that_are_no_arrays_are_compared_too() -> None:
    one = Traced(None, {"clean.text": "a cat", "best.top": [{"label": "cat", "score": 0.5}]}, None)
    near = Traced(None, {"clean.text": "a cat", "best.top": [{"label": "cat", "score": 0.500001}]}, None)
    assert [(row.what, row.apart, row.summary) for row in rows(one, near)] == [("json", "", "equal")] * 2
    other = Traced(None, {"clean.text": "a dog", "best.top": np.zeros(2)}, None)
    assert [row.apart for row in rows(one, other)] == [
        "whole is 'a dog', recorded 'a cat'",
        "float64 [2] where the first has json",
    ]


def test_only_what_the_spec_places_in_the_graph_is_excused() -> None:
    def step(name: str, place: str, reads: str, writes: str) -> dict[str, Any]:
        return {"id": name, "use": "scale", "in": [reads], "out": [writes], "place": place, "params": {}}

    spec = Spec.model_validate_json(json.dumps({
        "apiVersion": "dspec/v1alpha1", "name": "demo", "fixtures": [{"file": "f.jsonl"}],
        "model": {"factory": "model.py:build", "inputs": {"x": {"dtype": "float32", "shape": [2]}}},
        "targets": {"t": {"runtime": "onnxruntime"}},
        "preprocess": [step("first", "host", "raw", "half"), step("fused", "graph", "half", "x")],
    }))  # fmt: skip
    array = np.zeros(2, np.float32)
    whole = Traced(None, dict.fromkeys(("first.half", "fused.x", "door.x", "output.y", "last.z"), array), {})
    served = Traced(None, dict.fromkeys(("first.half", "door.half", "output.y", "last.z"), array), {})
    found = rows(whole, served, inside=inside_graph(spec))
    assert first_apart(found) is None
    assert {row.name: row.summary for row in found if row.summary not in ("max |Δ| 0", "equal")} == {
        "fused.x": "inside the graph", "door.x": "at the graph's door", "door.half": "at the graph's door",
    }  # fmt: skip
    lost = Traced(None, {name: value for name, value in served.values.items() if name != "last.z"}, {})
    lacking = first_apart(rows(whole, lost, inside=inside_graph(spec)))
    assert lacking is not None
    assert (lacking.name, lacking.apart) == ("last.z", "only in the first")


def test_a_bundle_against_pytorch(project: Project) -> None:
    (project.folder / "request.json").write_text(json.dumps({"x": [0.5, -1, 2, 3]}))
    assert project.dspec("run", "bundles/tiny/fleet", "--input", "request.json", "--trace", "a.npz").code == 0
    done = project.dspec("trace-diff", "a.npz", "a.npz", "--spec", "deploy.yaml")
    assert done.code == 0, done.out + done.err
    assert done.out.count("PyTorch and a.npz") == 2
    golden = "bundles/tiny/fleet/golden/0000/trace.npz"
    lacking = project.dspec("trace-diff", golden, "a.npz", "--spec", "deploy.yaml")
    assert (lacking.code, "E0719" in lacking.err) == (2, True)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"{}"])
def test_what_is_no_trace(project: Project, content: bytes) -> None:
    (project.folder / "a.npz").write_bytes(content)
    done = project.dspec("trace-diff", "a.npz", "missing.npz")
    assert (done.code, "error E0718: a.npz is no trace" in done.err) == (2, True)
