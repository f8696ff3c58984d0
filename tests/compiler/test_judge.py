"""Verdicts from numbers: a table of cases, each a change to one measurement that passes everything."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from dspec.compiler.judge import judge, publishable
from dspec.spec.models import Spec
from dspec.spec.records import GateVerdict, Interface, Measurement

TODAY = datetime.date(2026, 11, 30)
INTERFACE = Interface.model_validate_json(
    '{"inputs": {"x": {"dtype": "float32", "shape": ["batch", 4]}}, '
    '"outputs": {"y": {"dtype": "float32", "shape": ["batch", 2]}}, "dims": {"batch": {"min": 1, "max": 8}}, "batch": "batch"}'
)


def _spec(**changes: Any) -> Spec:
    body: dict[str, Any] = {
        "apiVersion": "dspec/v1alpha1",
        "name": "demo",
        "model": {
            "factory": "model.py:build",
            "inputs": {"x": {"dtype": "float32", "shape": ("batch", 4)}},
            "outputs": {"y": {"dtype": "float32", "shape": ("batch", 2)}},
            "dims": {"batch": {"min": 1, "max": 8}},
        },
        "fixtures": ({"file": "f.jsonl"},),
        "targets": {"t": {"runtime": "onnxruntime", "resources": {"memory": "1GiB"}}},
        "slo": {"latency_ms": {"p95": 40.0}, "min_throughput_rps": 100.0, "cold_start_s": 5.0},
    }
    return Spec.model_validate(body | changes)


def _error(diff: float, ref: float = 1.0, **more: Any) -> dict[str, Any]:
    return {"frontier": [{"ref": ref, "diff": diff, "index": [0, 1]}], "cosine": 1.0} | more


def _measurement(**changes: Any) -> Measurement:
    import json

    body: dict[str, Any] = {
        "artifact": "a" * 64,
        "reference": "b" * 64,
        "target": "t",
        "candidate": "onnxruntime/onnxruntime/fp32",
        "machine": {"os": "linux", "arch": "x86_64", "cpu": "c", "flags": ["f"], "cores": 1},
        "versions": {},
        "source": "reference",
        "parity": _parity([_error(1e-6)]),
        "latency": _latency([10.0] * 1000),
        "throughput": {"windows_rps": [200.0, 201.0, 199.0], "in_flight": 4},
        "cold_start_s": [1.0, 1.1],
        "peak_memory_bytes": 2**28,
        "smoke": "ok",
    }
    return Measurement.model_validate_json(json.dumps(body | changes))


def _parity(errors: list[dict[str, Any]], **spread: Any) -> dict[str, Any]:
    cases = [{"id": f"f:{n}", "kind": "fixture", "outputs": {"y": error}} for n, error in enumerate(errors, start=1)]
    base = {"span": 3.0, "cosine": 0.1, "magnitude": 2.0, "noise": 2e-7}
    return {"cases": cases, "spread": {"y": base | spread}, "on": "CPUExecutionProvider"}


def _latency(values: list[float], **more: Any) -> dict[str, Any]:
    base = {
        "rate_rps": 50,
        "duration_s": 20,
        "warmup": 20,
        "warmup_ms": 100,
        "stages_ms": {"model": 1.0},
        "in_process_ms": 1.0,
    }
    return base | {"sorted_ms": sorted(values)} | more


def _verdict(gate: str, measurement: Measurement, spec: Spec | None = None) -> GateVerdict:
    return next(v for v in judge(spec or _spec(), "t", INTERFACE, (measurement,), TODAY) if v.gate == gate)


def test_what_passes_publishes() -> None:
    verdicts = judge(_spec(), "t", INTERFACE, (_measurement(),), TODAY)
    assert {v.gate: v.verdict for v in verdicts} == {
        "parity": "pass",
        "skew": "not asked",
        "quality": "not asked",
        "latency": "pass",
        "throughput": "pass",
        "cold_start": "pass",
        "memory": "pass",
        "smoke": "pass",
    }
    assert publishable(verdicts)


CASES = [
    (
        "parity",
        {"parity": _parity([_error(1e-6), _error(0.01)])},
        "fail",
        "least tolerance that would have passed: atol 0.009",
    ),
    (
        "parity",
        {"parity": _parity([_error(0.01)])},
        "fail",
        "noise floor of the reference itself (float32 against float64): 2e-07",
    ),
    ("parity", {"parity": _parity([_error(0, broken="missing")])}, "fail", "missing"),
    ("parity", {"parity": _parity([])}, "inconclusive", "0 comparisons"),
    ("parity", {"parity": _parity([_error(1e-6)], span=1e-9)}, "inconclusive", "vacuous"),
    ("parity", {"parity": _parity([_error(1e-6)], span=0.0)}, "inconclusive", "vacuous"),
    ("parity", {"parity": None}, "unmeasured", "no comparison"),
    ("parity", {"missing": {"parity": "no such board here"}}, "unmeasured", "no such board"),
    ("latency", {"latency": _latency([60.0] * 1000)}, "fail", "95 % bounds [60, 60] ms, limit 40 ms"),
    ("latency", {"latency": _latency([10.0] * 50)}, "inconclusive", "fewer than 20 samples beyond p95"),
    ("latency", {"latency": _latency([10.0] * 950 + [60.0] * 50)}, "inconclusive", "p95 10 ms"),
    ("latency", {"latency": _latency([10.0] * 1000, errors=1)}, "fail", "1 requests got no answer"),
    ("latency", {"latency": _latency([], errors=9)}, "fail", "p95 none"),
    ("latency", {"latency": None}, "unmeasured", "no load"),
    ("throughput", {"throughput": {"windows_rps": [50.0, 51.0, 52.0], "in_flight": 4}}, "fail", "3 windows"),
    ("throughput", {"throughput": {"windows_rps": [50.0, 150.0, 100.0], "in_flight": 4}}, "inconclusive", "3 windows"),
    ("throughput", {"throughput": {"windows_rps": [500.0], "in_flight": 4}}, "inconclusive", "1 windows"),
    ("cold_start", {"cold_start_s": [6.0, 7.0]}, "fail", ""),
    ("cold_start", {"cold_start_s": [4.0, 7.0]}, "inconclusive", ""),
    ("cold_start", {"cold_start_s": []}, "unmeasured", "never started"),
    ("memory", {"peak_memory_bytes": 2**31}, "fail", ""),
    ("memory", {"peak_memory_bytes": None}, "unmeasured", "does not tell"),
    (
        "memory",
        {"soak_bytes": [n * 2**24 for n in range(10, 18)]},
        "inconclusive",
        "still grows with every round over the same sizes: 48 MiB in the last 3 of 8 rounds",
    ),
    ("smoke", {"smoke": "exit code 1: no module"}, "fail", ""),
    ("smoke", {"smoke": None}, "unmeasured", "not started"),
]


@pytest.mark.parametrize(("gate", "changes", "verdict", "words"), CASES)
def test_gate(gate: str, changes: dict[str, Any], verdict: str, words: str) -> None:
    verdicts = judge(_spec(), "t", INTERFACE, (_measurement(**changes),), TODAY)
    found = next(v for v in verdicts if v.gate == gate)
    assert found.verdict == verdict
    assert words in "\n".join(found.detail)
    assert not publishable(verdicts)


def test_some_fixtures_may_fail_where_the_spec_says_so() -> None:
    spec = _spec(tolerance={"max_failing_fixtures": 1})
    assert _verdict("parity", _measurement(parity=_parity([_error(0.01), _error(1e-6)])), spec).verdict == "pass"
    assert _verdict("parity", _measurement(parity=_parity([_error(0.01), _error(0.01)])), spec).verdict == "fail"


def test_a_mask_judges_valid_positions_only() -> None:
    spec = _spec(tolerance={"outputs": {"y": {"atol": 1e-4, "valid": "x"}}})
    parity = _parity([_error(0.5)])
    assert _verdict("parity", _measurement(parity=parity), spec).verdict == "fail"
    parity["cases"][0]["valid"] = {"y": _error(1e-6)}
    assert _verdict("parity", _measurement(parity=parity), spec).verdict == "pass"


def test_a_pipeline_that_feeds_other_tensors_fails_even_where_answers_agree() -> None:
    parity = _parity([_error(1e-6)])
    parity["cases"][0]["door"] = {"x": _error(0.5)}
    found = _verdict("parity", _measurement(parity=parity))
    assert found.verdict == "fail"
    assert "feeds the model other tensors" in "\n".join(found.detail)


WAIVER = {
    "target": "t",
    "gate": "parity",
    "verdict": "fail",
    "reason": "known",
    "owner": "ada",
    "expires": "2026-11-30",
}


@pytest.mark.parametrize(
    ("changes", "waived"),
    [({}, True), ({"expires": "2026-11-29"}, False), ({"verdict": "inconclusive"}, False), ({"gate": "smoke"}, False)],
)
def test_waiver(changes: dict[str, str], waived: bool) -> None:
    spec = _spec(waivers=(WAIVER | changes,))
    verdicts = judge(spec, "t", INTERFACE, (_measurement(parity=_parity([_error(0.01)])),), TODAY)
    assert publishable(verdicts) is waived
    refused = "waiver of ada refused: it expired on 2026-11-29 (today is 2026-11-30)"
    assert (refused in verdicts[0].detail) is ("expires" in changes)


def test_a_waiver_for_another_target_waives_nothing() -> None:
    targets = {"t": {"runtime": "onnxruntime"}, "other": {"runtime": "onnxruntime"}}
    spec = _spec(waivers=(WAIVER | {"target": "other"},), targets=targets)
    assert not publishable(judge(spec, "t", INTERFACE, (_measurement(parity=_parity([_error(0.01)])),), TODAY))


def test_a_target_overrides_the_slo_key_by_key() -> None:
    targets = {"t": {"runtime": "onnxruntime", "slo": {"latency_ms": {"p95": 5.0}}}}
    found = _verdict("latency", _measurement(), _spec(targets=targets))
    assert (found.verdict, found.limit) == ("fail", "p95 ≤ 5 ms")


def test_the_worst_of_several_machines_counts_and_silence_does_not() -> None:
    good, bad = _measurement(), _measurement(parity=_parity([_error(0.5)]))
    silent = _measurement(parity=None, latency=None, missing={"parity": "no such board", "latency": "no such board"})
    assert judge(_spec(), "t", INTERFACE, (good, bad), TODAY)[0].verdict == "fail"
    assert judge(_spec(), "t", INTERFACE, (bad, good), TODAY)[0].verdict == "fail"
    assert judge(_spec(), "t", INTERFACE, (silent, good), TODAY)[0].verdict == "pass"
    assert judge(_spec(), "t", INTERFACE, (silent, silent), TODAY)[0].verdict == "unmeasured"


@pytest.mark.parametrize("error", [_error(0, broken="NaN everywhere"), _error(0, broken="missing")])
def test_no_number_of_spared_fixtures_excuses_a_broken_answer(error: dict[str, Any]) -> None:
    spec = _spec(tolerance={"max_failing_fixtures": 9})
    assert _verdict("parity", _measurement(parity=_parity([error])), spec).verdict == "fail"


def test_no_number_of_spared_fixtures_excuses_a_declared_size() -> None:
    parity = _parity([_error(0.5)])
    parity["cases"][0]["kind"] = "shape"
    assert (
        _verdict("parity", _measurement(parity=parity), _spec(tolerance={"max_failing_fixtures": 9})).verdict == "fail"
    )


def test_ids_at_the_door_have_no_near_neighbours() -> None:
    interface = INTERFACE.model_copy(
        update={"inputs": {"x": INTERFACE.inputs["x"].model_copy(update={"dtype": "int64"})}}
    )
    parity = _parity([_error(1e-6)])
    parity["cases"][0]["door"] = {"x": _error(1.0, ref=200000.0)}
    verdicts = judge(_spec(), "t", interface, (_measurement(parity=parity),), TODAY)
    assert verdicts[0].verdict == "fail"


def test_postprocess_that_is_not_held_is_not_green() -> None:
    spec = _spec(training={"preprocess": "t.py:f", "postprocess": "t.py:g"})
    assert _verdict("skew", _measurement(), spec).verdict == "unmeasured"


def test_memory_that_grew_while_it_warmed_up_has_settled() -> None:
    settled = [2**27, 2**28, *(2**28 + number for number in range(6))]
    verdicts = judge(_spec(), "t", INTERFACE, (_measurement(soak_bytes=settled),), TODAY)
    assert publishable(verdicts)


def _skew_case(tensor: float, steps: dict[str, float]) -> dict[str, Any]:
    parts = [
        {"step": name, "value": name, "exact": True, "error": _error(off) if off else {"frontier": []}}
        for name, off in steps.items()
    ]
    return {"id": "f:1", "outputs": {"x": _error(tensor)}, "exact": [], "steps": parts}


def test_a_yielded_step_that_differs_is_told_though_the_tensor_agrees() -> None:
    steps = tuple({"id": name, "use": "scale", "in": ("x",), "out": (name,)} for name in ("small", "unit"))
    spec = _spec(training={"preprocess": "t.py:f"}, preprocess=steps)
    agreeing = _measurement(skew={"cases": [_skew_case(1e-9, {"small": 2.0, "unit": 0.0})]})
    found = _verdict("skew", agreeing, spec)
    assert found.verdict == "pass"
    assert found.detail[:2] == (
        "preprocess: 0 of 1 fixtures differ",
        "note: the step `small` (scale) differs, and what comes of it agrees: max |Δ| 2 at [0, 1] of f:1 (1 fixture)",
    )
    equal = _verdict("skew", _measurement(skew={"cases": [_skew_case(1e-9, {"small": 0.0})]}), spec)
    assert not any("note:" in line for line in equal.detail)
