"""A bundle from its shipped files alone: golden vectors, self-test and command line, in processes of their own."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dspec.targets import shipped
from dspec.targets.shipped import frames, steps
from dspec.targets.shipped.errors import GoldenError
from dspec.targets.shipped.golden import (
    Golden,
    array_from_json,
    array_to_json,
    read_golden,
    read_policy,
    write_golden,
)
from dspec.targets.shipped.parts import BESIDE, COMMON, FORWARD, SERVE, parts
from dspec.targets.shipped.selftest import differences, selftest, summary
from dspec.targets.triton.runtime import OF_TRITON

SHIPPED = Path(shipped.__path__[0])
Amend = Callable[[Path, Any], None]


def dspec_bundle(
    bundle: Path, *arguments: str, given: str | bytes = "", module: str = "dspec_bundle"
) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of `python -m dspec_bundle`, from inside the bundle, with nothing in its environment."""
    done = subprocess.run(
        [sys.executable, "-B", "-m", module, *arguments],
        cwd=bundle,
        env={},
        input=given if isinstance(given, bytes) else given.encode(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode()


def test_parts_are_the_files_there_are() -> None:
    here = {path.relative_to(SHIPPED).as_posix() for path in SHIPPED.rglob("*.py")}
    named = {*parts(steps.NAMES), *SERVE, *FORWARD, "engine_onnxruntime.py", "engine_executorch.py"}
    named |= {f"triton/{name}.py" for name in OF_TRITON}
    assert here - named == {"parts.py"}
    assert named <= here
    assert parts(()) == tuple(sorted(COMMON))
    assert set(BESIDE) <= set(steps.NAMES)


def test_nothing_shipped_imports_dspec_or_a_framework() -> None:
    """But for the engine of executorch, whose library is linked against torch and brings it."""
    banned = re.compile(r"^\s*(import|from) (dspec|torch|pydantic)\b", re.MULTILINE)
    assert [path.name for path in SHIPPED.rglob("*.py") if banned.search(path.read_text())] == ["engine_executorch.py"]


def test_the_steps_import_no_library_when_listed() -> None:
    heavy = "numpy PIL tokenizers onnxruntime torch"
    code = "import sys; from dspec.targets.shipped import steps; [steps.load(name) for name in steps.NAMES]; "
    code += f"import dspec.targets.shipped.tolerance; print(*(set(sys.modules) & set('{heavy}'.split())))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_bundle_runs_isolated_from_its_copied_files(toy: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(toy)!r}); sys.argv[0] = 'x'; import runpy; "
    code += "runpy.run_module('dspec_bundle', run_name='__main__', alter_sys=True)"
    done = subprocess.run(
        [sys.executable, "-I", "-B", "-c", code, "selftest"],
        cwd="/",
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ok: 4 golden fixtures, 8 answers compared\nran on python ")


def test_it_runs_as_a_module_of_dspec_too(toy: Path) -> None:
    code, out, _ = dspec_bundle(toy, "selftest", module="dspec.targets.shipped")
    assert (code, out[:2]) == (0, "ok")


def test_selftest_as_json(toy: Path) -> None:
    from dspec.spec.records import Case

    code, out, _ = dspec_bundle(toy, "selftest", "--json")
    report = json.loads(out)
    assert (code, report["ok"], report["bundle"], report["failures"]) == (0, True, "b" * 64, [])
    cases = [Case.model_validate_json(json.dumps(case)) for case in report["cases"]]
    assert {(case.id, case.call) for case in cases} == {
        (f"texts.jsonl:{n}", call) for n in range(1, 5) for call in (1, 2)
    }
    assert set(cases[0].valid) == {"hidden"}
    assert set(cases[0].door) == {"input_ids", "attention_mask"}


def spoil(path: Path, change: Callable[[Any], Any]) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def test_selftest_fails_on_another_answer(own_toy: Path) -> None:
    def move(answer: Any) -> None:
        answer["outputs"]["embedding"]["data"][0] += 0.5

    spoil(own_toy / "golden/0001/answer.json", move)
    code, out, _ = dspec_bundle(own_toy, "selftest")
    assert code == 1
    assert out.startswith("FAILED: 4 golden fixtures")
    assert "texts.jsonl:2: output embedding: |difference| 0.5 at (0, 0) where |reference| is" in out


def test_selftest_spares_as_many_fixtures_as_the_policy_does(own_toy: Path) -> None:
    def move(answer: Any) -> None:
        answer["outputs"]["hidden"]["data"][0] += 0.5

    spoil(own_toy / "golden/0001/answer.json", move)
    assert not selftest(own_toy)["ok"]
    spoil(own_toy / "golden/policy.json", lambda policy: policy.update(max_failing=1))
    report = selftest(own_toy)
    assert report["ok"]
    assert "output hidden" in summary(report)


def test_selftest_fails_when_the_pipeline_parts_from_what_was_recorded(own_toy: Path) -> None:
    spoil(own_toy / "golden/0000/request.json", lambda request: request.update(text="red blue"))
    spoil(own_toy / "golden/policy.json", lambda policy: policy.update(max_failing=4))
    report = selftest(own_toy)
    assert not report["ok"]
    first, door = report["failures"][:2]
    assert first.startswith("texts.jsonl:1: step tokens (input_ids), the first that differs: |difference| 1 at (2)")
    assert "texts.jsonl:1: input input_ids: |difference| 1 at (0, 2) where |reference| is 5" in door


def test_selftest_fails_when_postprocessing_differs(own_toy: Path) -> None:
    (own_toy / "pipeline/code/post.py").write_text("def label(embedding):\n    return {'index': -1, 'best': 0.0}\n")
    failures = selftest(own_toy)["failures"]
    assert re.match(r"texts.jsonl:1: response: top\.best is 0\.0, recorded -?\d", failures[0])


def test_selftest_fails_without_an_answer(own_toy: Path) -> None:
    spoil(own_toy / "golden/0000/request.json", lambda request: request.update(text=3))
    report = selftest(own_toy)
    assert not report["ok"]
    assert report["failures"][0] == "texts.jsonl:1: no answer: text: the number 3; expected a text"


def test_differences() -> None:
    assert differences({"a": [1, 2.0, "x", None]}, {"a": [1.000001, 2.0, "x", None]}) == []
    assert differences({"a": [1]}, {"a": [1, 2]}) == ["a is [1, 2], recorded [1]"]
    assert differences({"a": {"b": 1}}, {"a": {"b": True}}) == ["a.b is True, recorded 1"]
    assert differences({"a": 1}, {"b": 1}) == ["whole is {'b': 1}, recorded {'a': 1}"]
    assert differences({"a": "nan"}, {"a": "nan"}) == []


def test_golden_round_trip_and_equal_bytes(tmp_path: Path) -> None:
    item = Golden(
        id="a.jsonl:1",
        request={"photo": {"file": "files/p.png"}, "text": "ü"},
        outputs={"y": np.array([[0.1, np.nan, -np.inf]], np.float32), "n": np.array([2**62]), "b": np.array([True])},
        response={"y": np.array([0.1, np.inf], np.float32)},
        trace=[("s.1", "ids", np.arange(3)), ("s.1", "text", "x"), ("t", "ids.2", np.zeros((2, 0)))],
        door={"ids": np.arange(3)[None]},
        files={"files/p.png": b"123"},
    )
    policy = {"tolerance": {}, "max_failing": 0, "load": {}}
    for name in ("one", "two"):
        write_golden(tmp_path / name, [item], policy)
    for path in (tmp_path / "one").rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "two" / path.relative_to(tmp_path / "one")).read_bytes()
    found = read_golden(tmp_path / "one")[0]
    assert (found.id, found.request, found.response) == (item.id, item.request, {"y": [0.10000000149011612, "inf"]})
    assert found.folder is not None
    assert (found.folder / "files/p.png").read_bytes() == b"123"
    assert [(step, name) for step, name, _ in found.trace] == [("s.1", "ids"), ("s.1", "text"), ("t.ids", "2")]
    assert found.trace[1][2] == "x"
    for name, array in item.outputs.items():
        assert found.outputs[name].dtype == array.dtype
        np.testing.assert_array_equal(found.outputs[name], array)
    np.testing.assert_array_equal(found.door["ids"], item.door["ids"])
    assert read_policy(tmp_path / "one") == policy


def test_every_float_survives_json() -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, 2000, np.uint32).view(np.float32)
    again = array_from_json(json.loads(json.dumps(array_to_json(bits), allow_nan=False)))
    np.testing.assert_array_equal(again, bits)


def test_a_file_outside_is_not_written(tmp_path: Path) -> None:
    item = Golden(id="a", request={}, outputs={}, response={}, door={}, files={"../x": b""})
    with pytest.raises(GoldenError, match=r"the file \.\./x lies outside"):
        write_golden(tmp_path / "g", [item], {})


SPOILT = [
    ("policy.json", "[]", r"golden/policy\.json is no JSON object"),
    ("policy.json", "{}", r"golden/policy\.json: no tolerance"),
    ("index.json", "{", r"golden/index\.json can't be read"),
    ("index.json", '{"fixtures": [{}]}', "a malformed fixture .KeyError: 'id'|a malformed fixture .KeyError"),
    ("index.json", '{"fixtures": [{"id": "a", "folder": "../.."}]}', "lies elsewhere"),
    (
        "0000/answer.json",
        '{"outputs": {"y": {"dtype": "float32", "shape": [3], "data": [1]}}, "response": {}}',
        "1 num",
    ),
    ("0000/answer.json", '{"outputs": {"y": {"dtype": "object", "shape": [], "data": []}}, "response": {}}', "object"),
    ("0000/answer.json", '{"outputs": 3, "response": {}}', "a malformed fixture"),
    ("0000/trace.npz", "no archive", r"0000/trace\.npz can't be read"),
    ("0000/request.json", "3", r"0000/request\.json is no JSON object"),
]


@pytest.mark.parametrize(("file", "content", "message"), SPOILT)
def test_a_malformed_golden_folder_is_an_error_in_one_line(
    own_toy: Path, file: str, content: str, message: str
) -> None:
    (own_toy / "golden" / file).write_text(content)
    with pytest.raises(GoldenError, match=message):
        selftest(own_toy)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "one.json").write_text('{"text": "red"}')
    (tmp_path / "two.jsonl").write_text('{"text": "red", "expected": 3}\n\n{"text": "blue"}\n')
    (tmp_path / "text.txt").write_text("green")
    (tmp_path / "bad.jsonl").write_text('{"text": "red"}\n{"text": \n')
    return tmp_path


RUNS = [
    (["text=red"], "", ["red"]),
    (["text=a=b"], "", ["a = b"]),
    (["text=@{}/text.txt"], "", ["green"]),
    (["{}/one.json"], "", ["red"]),
    (["{}/two.jsonl"], "", ["red", "blue"]),
    (["{}/one.json", "text=blue"], "", ["red", "blue"]),
    (["-"], '{"text":\n "dark"}', ["dark"]),
    (["-"], '{"text": "dark"}\n{"text": "light"}\n', ["dark", "light"]),
]


@pytest.mark.parametrize(("inputs", "given", "texts"), RUNS)
def test_run(toy: Path, files: Path, expected: Any, inputs: list[str], given: str, texts: list[str]) -> None:
    arguments = [part for name in inputs for part in ("--input", name.format(files))]
    code, out, err = dspec_bundle(toy, "run", *arguments, given=given)
    assert (code, err) == (0, "")
    answers = [json.loads(line) for line in out.splitlines()]
    assert len(answers) == len(texts)
    for text, answer in zip(texts, answers, strict=True):
        np.testing.assert_allclose(answer["embedding"], expected(text)[1]["embedding"][0], 1e-4)


MISTAKES = [
    (["run"], "the following arguments are required: --input"),
    (["run", "--input", "txt=red"], "error: --input txt=red: no field txt; there are text"),
    (["run", "--input", "text=red", "--input", "text=blue"], "error: --input text=blue: the field text is given twice"),
    (["run", "--input", "{}/none.json"], "none.json can't be read: "),
    (["run", "--input", "{}/bad.jsonl"], "bad.jsonl:2: no JSON ("),
    (["run", "--input", "text=" + "red " * 90], "error: text: 360 bytes; expected at most 200 bytes"),
    (["run", "--input", "{}/two.jsonl", "--trace", "{}/t.npz"], "error: --trace takes one request, not 2"),
    (["run", "--input", "text=red", "--trace", "/nowhere/t.npz"], "error: --trace: "),
    (["walk"], "invalid choice: 'walk'"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_a_users_mistake_is_one_line_and_exit_2(toy: Path, files: Path, arguments: list[str], message: str) -> None:
    code, _, err = dspec_bundle(toy, *(part.format(files) for part in arguments))
    assert code == 2
    assert message in err
    assert "Traceback" not in err
    if not err.startswith("usage"):
        assert err.count("\n") == 1


def test_trace(toy: Path, tmp_path: Path) -> None:
    code, _, err = dspec_bundle(toy, "run", "--input", "text=red", "--trace", str(tmp_path / "t.npz"))
    assert (code, err) == (0, "")
    with np.load(tmp_path / "t.npz") as trace:
        assert trace.files == [
            "request",
            "00.tokens.input_ids",
            "01.tokens.attention_mask",
            "door.input_ids",
            "door.attention_mask",
            "output.embedding",
            "output.hidden",
            "02.label.top (json)",
            "response",
        ]
        assert json.loads(trace["02.label.top (json)"].tobytes()) == json.loads(trace["response"].tobytes())["top"]
        assert json.loads(trace["request"].tobytes()) == {"text": "red"}
        assert trace["door.input_ids"].tolist() == [[2, 4, 3]]


def test_info(toy: Path) -> None:
    code, out, _ = dspec_bundle(toy, "info")
    assert code == 0
    assert "name      toy\n" in out
    assert "input     input_ids: int64 [batch, seq]\n" in out


def test_outside_a_bundle(toy: Path, tmp_path: Path) -> None:
    shutil.copytree(toy / "dspec_bundle", tmp_path / "dspec_bundle")
    code, _, err = dspec_bundle(tmp_path, "selftest")
    assert code == 1
    assert err.startswith("error: no bundle.json in ")
    assert dspec_bundle(tmp_path, "info")[2].startswith("error: no bundle.json in ")


def test_a_missing_library_is_exit_4(own_toy: Path) -> None:
    (own_toy / "pipeline/code/post.py").write_text("import no_such_library\n")
    code, _, err = dspec_bundle(own_toy, "run", "--input", "text=red")
    assert code == 4
    assert err == ("error: step label needs no_such_library, which is not installed: pip install -r requirements.txt\n")


def frame(body: Any) -> bytes:
    return b"".join(bytes(part) for part in frames.encode(body))


def test_the_pipe_answers_what_was_asked_before_the_end_and_stops(toy: Path) -> None:
    asked = [{"id": n, "op": "ask", "request": {"text": "red"}} for n in (1, 2)] + [{"id": 3, "op": "fly"}, 4]
    code, out, err = dspec_bundle(toy, "pipe", given=b"".join(map(frame, asked)))
    assert (code, err) == (0, "")
    assert out.count('"response"') == 2
    assert "unknown op 'fly'" in out
    assert "no request: 4" in out


def test_the_pipe_says_that_it_can_not_read_on(toy: Path) -> None:
    code, out, _ = dspec_bundle(toy, "pipe", given=frame({"id": 1, "op": "facts"}) + b"\xff\xff\xff\xffgarbage")
    assert code == 0
    assert "no request: a frame of 4294967295 + 0 bytes; at most" in out


def test_close_ends_the_pipe(toy: Path) -> None:
    code, out, _ = dspec_bundle(toy, "pipe", given=frame({"id": 1, "op": "close"}) + frame({"id": 2, "op": "facts"}))
    assert code == 0
    assert "facts" not in out
