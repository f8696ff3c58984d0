"""`dspec plan` says what a build would do: candidates, places, limits, and every default taken."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dspec.compiler.cli import main
from dspec.targets import runtime_names

EXAMPLES = Path(__file__).parents[3] / "examples"
SPEC = """\
apiVersion: dspec/v1alpha1
name: small
model:
  factory: model.py:build
  inputs: {x: {dtype: float32, shape: [batch, 4]}}
  outputs:
    y: {dtype: float32, shape: [batch, 2]}
    n: {dtype: int64, shape: [batch]}
  dims: {batch: {max: 8}}
fixtures: [{file: requests.jsonl}]
targets:
  local: {runtime: onnxruntime}
"""


@pytest.fixture
def said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """`said(more, old, new)`: the exit code and text of `dspec plan` for the spec with lines added or a text replaced."""

    def plan(more: str = "", old: str = "", new: str = "", *arguments: str) -> tuple[int, str]:
        (tmp_path / "requests.jsonl").write_text('{"x": [1, 2, 3, 4]}\n')
        (tmp_path / "model.py").write_text("import numpy\nraise SystemExit('must not run')\ndef build(): ...\n")
        assert old in SPEC
        (tmp_path / "deploy.yaml").write_text(SPEC.replace(old, new) + more if old else SPEC + more)
        code = main(["plan", str(tmp_path / "deploy.yaml"), *arguments])
        done = capsys.readouterr()
        return code, done.out + done.err

    return plan


@pytest.mark.parametrize("name", runtime_names())
def test_every_runtime_takes_a_small_spec_as_it_stands(said: Callable[..., tuple[int, str]], name: str) -> None:
    code, text = said("", "runtime: onnxruntime", f"runtime: {name}")
    assert code == 0, text
    assert f"  takes {name}/" in text


def _json(said: Callable[..., tuple[int, str]], more: str = "", old: str = "", new: str = "") -> dict[str, Any]:
    _, text = said(more, old, new, "--format", "json")
    found: dict[str, Any] = json.loads(text)
    return found


def test_the_smallest_spec(said: Callable[..., tuple[int, str]]) -> None:
    code, text = said()
    assert code == 0
    for line in (
        "target local: onnxruntime on host, 1 core",
        "  takes onnxruntime/onnxruntime/fp32: one portable graph for CPUs; needs neither torch nor dspec where it runs",
        "    builds onnx",
        "  parity      yes    y atol 0.0001, rtol 0.001",
        "                     n atol 0, rtol 0",
        "  skew        no     no training.preprocess",
        "  latency     no",
        "  smoke       yes",
        "  steps: none, a request is the model's own inputs",
        '  version = "1"',
        "  model.dims.batch.min = 1",
        "  model.weights: the module keeps the weights its factory gave it",
        '  targets.local.hardware = "host"',
        "  targets.local.options.inter_op_threads = 1",
        "  load.duration_s = 10",
        "  fixtures[0].golden = 16",
    ):
        assert line in text.splitlines(), text
    assert "runtime =" not in text  # the file says it


def test_what_the_file_says_is_no_default(said: Callable[..., tuple[int, str]]) -> None:
    more = "version: '7'\nload: {duration_s: 20}\n"
    options = "{runtime: onnxruntime, options: {opset: 20}, hardware: host}"
    keys = {one["key"] for one in _json(said, more, "{runtime: onnxruntime}", options)["defaults"]}
    assert {"load.max_duration_s", "targets.local.options.provider", "targets.local.optional", "model.config"} <= keys
    said_keys = {
        "version",
        "load.duration_s",
        "targets.local.options.opset",
        "targets.local.hardware",
        "name",
        "model.inputs.x.dtype",
    }
    assert said_keys.isdisjoint(keys)


def test_defaults_are_those_of_the_spec_that_is_built(said: Callable[..., tuple[int, str]]) -> None:
    defaults = {one["key"]: one["value"] for one in _json(said)["defaults"]}
    assert defaults["request"] == {"x": {"type": "tensor", "max_bytes": 10000000, "dtype": "float32", "shape": [4]}}
    assert defaults["response"] == {"y": {"from": "y"}, "n": {"from": "n"}}
    assert defaults["targets.local.resources.memory"] is None


def test_a_target_overrides_the_slo(said: Callable[..., tuple[int, str]]) -> None:
    more = "slo: {latency_ms: {p50: 10, p95: 40}, min_throughput_rps: 5}\nload: {rate_rps: 100, duration_s: 30}\n"
    own = "{runtime: onnxruntime, slo: {latency_ms: {p95: 20}, cold_start_s: 3}, resources: {memory: 1GiB}}"
    found = _json(said, more, "{runtime: onnxruntime}", own)["targets"]["local"]
    assert found["slo"]["latency_ms"] == {"p50": 10, "p95": 20}
    assert found["gates"]["latency"]["limit"] == "p50 ≤ 10 ms, p95 ≤ 20 ms"
    assert {gate for gate, asked in found["gates"].items() if not asked["asked"]} == {"quality", "skew"}
    assert found["gates"]["memory"]["limit"] == "≤ 1024 MiB"


def test_a_waiver_in_force_is_shown(said: Callable[..., tuple[int, str]]) -> None:
    waiver = "{target: local, gate: smoke, verdict: unmeasured, reason: no index here, owner: me, expires: 9999-01-01}"
    assert "  smoke       waived by me until 9999-01-01: no index here" in said(f"waivers: [{waiver}]\n")[1]


def test_a_refusal_stands_at_its_line(said: Callable[..., tuple[int, str]]) -> None:
    code, text = said("", "n: {dtype: int64", "n: {dtype: bfloat16")
    assert code == 2
    assert "  refused by runtime onnxruntime:" in text
    assert "deploy.yaml:8:16: error E0517: output n is bfloat16, which ONNX Runtime can't serve on a CPU" in text
    assert "    n: {dtype: bfloat16, shape: [batch]}" in text


def test_check_refuses_what_plan_and_build_refuse(
    said: Callable[..., tuple[int, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said("", "{runtime: onnxruntime}", "{runtime: triton, options: {preferred_batch: [9]}}")
    assert main(["check", str(tmp_path / "deploy.yaml")]) == 2
    text = capsys.readouterr().out
    assert "deploy.yaml:12:38: error E1002: preferred_batch has 9 and model.dims.batch ends at 8" in text
    assert "1 file checked: 1 error, 0 warnings" in text


def test_what_an_optional_target_asks_in_vain_is_refused_too(said: Callable[..., tuple[int, str]]) -> None:
    refused = "{runtime: onnxruntime, options: {opset: 5}, optional: true}"
    code, text = said("", "{runtime: onnxruntime}", refused)
    assert code == 2
    assert "option opset is 5" in text
    assert "deploy.yaml:12:50: error E0518" in text


def test_a_wrong_spec_is_what_check_says(said: Callable[..., tuple[int, str]]) -> None:
    code, text = said("", "runtime: onnxruntime", "runtime: onnxruntim")
    assert code == 2
    assert "E0209: unknown runtime `onnxruntim`" in text


def test_steps_of_the_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(EXAMPLES / "efficientnet_lite0" / "deploy.yaml"), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    steps = {step["id"]: step for step in found["steps"]}
    assert list(steps) == ["photo", "crop", "small", "normal", "planes", "(the model)", "best"]
    assert steps["photo"] == {"section": "preprocess", "id": "photo", "use": "decode", "place": "host", "why": "default",
                              "reads": ["image"], "writes": ["photo"], "gives": ["image uint8 [?, ?, 3] from 0 to 255"],
                              "requires": ["numpy", "pillow"]}  # fmt: skip
    assert steps["best"]["use"] == "answer.py:top5"
    assert "numpy" in steps["best"]["requires"]
    assert found["tolerance"]["logits"].startswith("atol 0.0001, rtol 0.001, top-5 agreement ≥ 1")


FUSED = """\
request: {rows: {type: tensor, dtype: uint8, shape: [4]}}
preprocess: [{use: scale, factor: 0.5, place: graph}]
postprocess: [{use: softmax, in: y, out: shares, place: graph}]
"""


def test_where_each_step_runs_and_why(said: Callable[..., tuple[int, str]]) -> None:
    code, text = said(FUSED)
    assert code == 0, text
    for line in (
        "scale        scale           graph  declared  rows   x       tensor float32 [4]",
        "(the model)  model.py:build  graph            x      y       tensor float32 [2]",
        "softmax      softmax         graph  declared  y      shares  tensor float32 [2] from 0 to 1",
        "enters the graph: rows uint8 [batch, 4]",
        "leaves the graph: n int64 [batch], shares float32 [batch, 2]",
        "parity      yes    n atol 0, rtol 0",
    ):
        assert f"  {line}" in text, text
    assert "shares atol 0.0001, rtol 0.001" in text
    assert "y atol" not in text


def test_a_second_target_refers_to_the_table_of_the_first(said: Callable[..., tuple[int, str]]) -> None:
    _, text = said("", "targets:\n", "targets:\n  other: {runtime: onnxruntime}\n")
    assert text.count("  steps: none") == 1
    assert "  steps as for other" in text
