"""`dspec build` as a user runs it, on a real (small) model, with a real ONNX Runtime in a clean environment."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dspec.compiler.environment import clean_environment
from dspec.compiler.store import describe, tree_digest

Project = Any  # conftest.Project: importlib mode gives test folders no names


def _digests(project: Project) -> dict[str, str]:
    digests: dict[str, str] = json.loads((project.published / "fleet" / "bundle.json").read_text())["digests"]
    return digests


def test_a_bundle_is_published_with_its_evidence(built: Project) -> None:
    names = {path.name for path in (built.published / "fleet").iterdir()}
    expected = {"bundle.json", "README.md", "model", "pipeline", "golden", "dspec_bundle", "requirements.txt"}
    assert names == expected
    evidence = json.loads((built.published / "evidence" / "fleet.json").read_text())
    verdicts = {found["gate"]: found["verdict"] for found in evidence["verdicts"]}
    assert (verdicts["parity"], verdicts["smoke"], verdicts["latency"]) == ("pass", "pass", "not asked")
    assert evidence["digest"] == _digests(built)["bundle"]


def test_nothing_changed_nothing_done(project: Project) -> None:
    before = tree_digest(describe(project.published))
    start = time.perf_counter()
    done = project.dspec("build")
    assert done.code == 0
    assert time.perf_counter() - start < 10
    assert "every stage answered from the store" in done.out
    assert "unchanged" in done.out
    assert tree_digest(describe(project.published)) == before


def test_verify_replays_the_golden_vectors(built: Project) -> None:
    done = built.dspec("verify", "bundles/tiny/fleet")
    assert done.code == 0, done.err
    assert "3 golden vectors replayed" in done.out


def test_a_changed_byte_is_noticed(project: Project) -> None:
    model = project.published / "fleet" / "model" / "model.onnx"
    content = bytearray(model.read_bytes())
    content[len(content) // 2] ^= 1
    model.unlink()
    model.write_bytes(content)
    done = project.dspec("verify", "bundles/tiny/fleet", "--digests")
    assert done.code == 1
    assert "model/model.onnx: sha256" in done.err


def test_a_tolerance_beyond_float32_withholds_and_says_what_would_have_passed(project: Project) -> None:
    before = tree_digest(describe(project.published))
    project.add("tolerance: {default: {atol: 1.0e-12, rtol: 1.0e-12}}")
    done = project.dspec("build")
    assert done.code == 1, done.out + done.err
    assert "fleet: parity fail" in done.out
    assert "the least tolerance that would have passed: atol" in done.out
    assert "noise floor of the reference itself (float32 against float64)" in done.out
    assert "withheld: tiny is not proved" in done.out
    assert tree_digest(describe(project.published)) == before
    assert (project.folder / ".dspec" / "withheld" / "tiny" / "fleet" / "bundle.json").is_file()
    project.edit("atol: 1.0e-12, rtol: 1.0e-12", "atol: 1.0e-3, rtol: 1.0e-3")
    again = project.dspec("build")
    assert again.code == 0, again.out + again.err
    assert "every stage answered from the store" in again.out


def test_an_impossible_latency_is_a_failed_gate(project: Project) -> None:
    project.edit("load: {rate_rps: 100", "slo: {latency_ms: {p95: 0.01}}\nload: {rate_rps: 200")
    done = project.dspec("build")
    assert done.code == 1, done.out + done.err
    assert "fleet: latency fail" in done.out
    assert "limit 0.01 ms" in done.out


def test_a_waiver_in_force_publishes_and_an_expired_one_is_refused(project: Project) -> None:
    project.add("tolerance: {default: {atol: 1.0e-12, rtol: 1.0e-12}}")
    project.add(
        "waivers: [{target: fleet, gate: parity, verdict: fail, reason: known, owner: ada, expires: 2020-01-01}]"
    )
    done = project.dspec("build")
    assert done.code == 1
    assert "waiver of ada refused: it expired on 2020-01-01" in done.out
    project.edit("2020-01-01", "2999-01-01")
    done = project.dspec("build")
    assert done.code == 0, done.out + done.err
    assert "waived by ada until 2999-01-01: known" in done.out


def test_the_artifact_digest_does_not_depend_on_folder_or_hash_seed(
    built: Project, new_project: Callable[[Path], Project], tmp_path: Path
) -> None:
    other = new_project(tmp_path / "another place" / "deep")
    done = other.dspec("build", PYTHONHASHSEED="7", TZ="Pacific/Auckland")
    assert done.code == 0, done.out + done.err
    assert _digests(other) == _digests(built)


def test_no_path_of_this_machine_is_in_a_bundle(built: Project) -> None:
    places = [str(built.folder), str(Path.home()) + "/", sys.prefix, "/tmp/"]
    for path in sorted((built.published / "fleet").rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            assert not [place for place in places if place.encode() in content], path


def test_the_bundle_runs_elsewhere_with_only_its_requirements(built: Project, tmp_path: Path) -> None:
    shutil.copytree(built.published / "fleet", tmp_path / "elsewhere")
    environment = clean_environment(tmp_path / "elsewhere" / "requirements.txt", 1, print)
    command = [str(environment.python), "-m", "dspec_bundle", "run", "--input", "-"]
    done = subprocess.run(
        command,
        cwd=tmp_path / "elsewhere",
        input='{"x": [1, 2, 3, 4]}',
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)) == {"scores", "top"}
    listed = subprocess.run(
        [str(environment.python), "-c", "import importlib.util as u; print([n for n in ('torch', 'dspec', 'onnx') if u.find_spec(n)])"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert listed.stdout.strip() == "[]"


def test_run_answers_as_pytorch_does(built: Project) -> None:
    request = built.folder / "request.json"
    request.write_text((built.folder / "fixtures.jsonl").read_text().splitlines()[0])
    done = built.dspec("run", "bundles/tiny/fleet", "--input", str(request))
    request.unlink()
    golden = json.loads((built.published / "fleet" / "golden" / "0000" / "answer.json").read_text())
    assert done.code == 0, done.err
    answer = json.loads(done.out)
    assert answer["top"] == golden["response"]["top"]
    assert max(abs(a - b) for a, b in zip(answer["scores"], golden["response"]["scores"], strict=True)) < 1e-5


def test_a_model_that_branches_on_data_is_exit_3_with_the_users_line(project: Project) -> None:
    project.edit_file(
        "model.py", 'return {"scores"', 'if x.sum() > 0:\n            x = x * 2\n        return {"scores"'
    )
    done = project.dspec("build")
    assert done.code == 3, done.out + done.err
    assert "model.py:12" in done.err
    assert "torch.where" in done.err
    assert project.published.is_dir()


@pytest.mark.slow
def test_evidence_of_another_bundle_is_refused(project: Project) -> None:
    assert project.dspec("measure", "bundles/tiny/fleet", "-o", "numbers.json").code == 0
    assert project.dspec("build", "--evidence", "numbers.json").code == 0
    project.edit("config: {width: 32}", "config: {width: 33}")
    done = project.dspec("build", "--evidence", "numbers.json")
    assert done.code == 2
    assert "E0701" in done.out


def test_a_target_that_this_machine_does_not_match_is_unmeasured(project: Project) -> None:
    arch = "linux-arm64"
    project.edit("hardware: host}", f"hardware: {arch}}}")
    done = project.dspec("build")
    assert done.code == 5, done.out + done.err
    assert "unmeasured" in done.out
    assert "linux-arm64 is arm64, this machine is" in done.out


def test_answers_made_elsewhere_are_judged(built: Project, tmp_path: Path) -> None:
    golden = built.published / "fleet" / "golden"
    index = json.loads((golden / "index.json").read_text())["fixtures"]
    answers = {
        item["id"]: {"outputs": json.loads((golden / item["folder"] / "answer.json").read_text())["outputs"], "ms": 3.0}
        for item in index
    }
    file = tmp_path / "answers.json"
    file.write_text(json.dumps({"answers": answers}))
    done = built.dspec("verify", "bundles/tiny/fleet", "--answers", str(file), "--machine", "phone")
    assert done.code == 0, done.err
    assert "3 golden vectors answered within tolerance; p50 3 ms" in done.out
    answers[index[0]["id"]]["outputs"]["scores"]["data"][0] += 1
    file.write_text(json.dumps({"answers": answers}))
    done = built.dspec("verify", "bundles/tiny/fleet", "--answers", str(file))
    assert done.code == 1
    assert "1 of 3 golden vectors are outside tolerance" in done.err


@pytest.mark.slow
def test_a_file_that_only_native_code_reads_is_part_of_the_cache(project: Project) -> None:
    import numpy as np
    from safetensors.numpy import save_file

    def write(scale: float) -> None:
        save_file({"scale": np.full(1, scale, np.float32)}, project.folder / "scale.safetensors")

    write(1.0)
    project.edit_file("model.py", "def build(width):", "def build(width):\n    from safetensors.torch import load_file")
    project.edit_file(
        "model.py",
        "return Net(width)",
        "net = Net(width)\n    net.scale = load_file('scale.safetensors')['scale'].item()\n    return net",
    )
    project.edit_file("model.py", "self.layers(x),", "self.layers(x) * self.scale,")
    project.edit("config: {width: 32}", "config: {width: 32}\n  files: [scale.safetensors]")
    done = project.dspec("build")
    assert done.code == 0, done.out + done.err
    first = _digests(project)["artifact"]
    write(2.0)
    assert project.dspec("build").code == 0
    assert _digests(project)["artifact"] != first


def test_a_file_outside_the_folder_is_refused(project: Project, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("1.0")
    line = f"def build(width):\n    float(open({str(tmp_path / 'outside.txt')!r}).read())"
    project.edit_file("model.py", "def build(width):", line)
    done = project.dspec("build")
    assert done.code == 2, done.out + done.err
    assert "E0407" in done.err
    assert "outside.txt was read; it is neither in the spec's folder nor part of an installed package" in done.err


def test_numbers_of_another_kind_of_machine_do_not_count(project: Project) -> None:
    project.edit("hardware: host}", "hardware: linux-arm64}")
    assert project.dspec("build").code == 5
    done = project.dspec("measure", ".dspec/withheld/tiny/fleet", "-o", "numbers.json")
    assert done.code == 0, done.err
    done = project.dspec("build", "--evidence", "numbers.json")
    assert done.code == 2
    assert "E0708" in done.out
    assert "linux-arm64 is arm64" in done.out


def test_a_failure_measured_elsewhere_counts(project: Project) -> None:
    assert project.dspec("measure", "bundles/tiny/fleet", "-o", "numbers.json").code == 0
    numbers = json.loads((project.folder / "numbers.json").read_text())
    for case in numbers["parity"]["cases"]:
        case["outputs"]["scores"]["broken"] = "NaN at (0, 0)"
    (project.folder / "numbers.json").write_text(json.dumps(numbers))
    done = project.dspec("build", "--evidence", "numbers.json")
    assert done.code == 1, done.out
    assert "the golden vectors alone" in done.out


def test_private_fixtures_stay_at_home_and_verify_says_it_proved_nothing(project: Project) -> None:
    project.edit("golden: 3", "private: true")
    assert project.dspec("build").code == 0
    first = json.loads((project.folder / "fixtures.jsonl").read_text().splitlines()[0])
    written = [path.read_bytes() for path in (project.published / "fleet").rglob("*") if path.is_file()]
    assert not any(str(first["x"][0]).encode() in content for content in written)
    done = project.dspec("verify", "bundles/tiny/fleet")
    assert done.code == 5
    assert "E0716" in done.err
    assert project.dspec("verify", "bundles/tiny/fleet", "--digests").code == 0


def test_a_step_that_writes_into_the_bundle_publishes_nothing(project: Project) -> None:
    (project.folder / "step.py").write_text("def keep(x):\n    open('cache.txt', 'w').write('x')\n    return x\n")
    project.add("request: {raw: {type: tensor, dtype: float32, shape: [4]}}")
    project.add("preprocess: [{id: keep, python: step.py:keep, in: raw, out: x}]")
    project.edit_file("fixtures.jsonl", '"x"', '"raw"')
    done = project.dspec("build")
    assert done.code == 1, done.out + done.err
    assert "cache.txt: not listed" in done.out


def test_run_answers_with_the_bundle_named_and_no_other(built: Project, tmp_path: Path) -> None:
    (tmp_path / "dspec_bundle").mkdir()
    (tmp_path / "dspec_bundle" / "__main__.py").write_text("print('another bundle')")
    request = tmp_path / "request.json"
    request.write_text('{"x": [1, 2, 3, 4]}')
    command = [
        sys.executable,
        "-m",
        "dspec.compiler.cli",
        "run",
        str(built.published / "fleet"),
        "--input",
        str(request),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) == {"scores", "top"}


def test_a_folder_with_other_files_is_not_replaced(project: Project) -> None:
    (project.folder / "keep" / "tiny").mkdir(parents=True)
    (project.folder / "keep" / "tiny" / "notes.txt").write_text("mine")
    done = project.dspec("build", "--bundles", "keep")
    assert done.code == 2
    assert "E0706" in done.err
    assert (project.folder / "keep" / "tiny" / "notes.txt").read_text() == "mine"
    (project.folder / "other").mkdir()
    (project.folder / "other" / "work").mkdir()
    assert "E0608" in project.dspec("build", "--store", "other").err
    assert (project.folder / "other" / "work").is_dir()


def test_a_wrong_option_is_told_at_its_line_before_anything_runs(project: Project) -> None:
    project.edit("hardware: host}", "hardware: host, options: {opset: 5}}")
    start = time.perf_counter()
    done = project.dspec("build")
    assert done.code == 2, done.out + done.err
    assert time.perf_counter() - start < 10
    assert "deploy.yaml:15:" in done.err
