"""`bundle.json`, measurements and answers of strangers: a record, or an error in words."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dspec.compiler.bundle import check_digests, read_manifest
from dspec.compiler.evidence import read_measurement
from dspec.compiler.machine import this_machine
from dspec.compiler.store import describe
from dspec.compiler.verify import read_answers
from dspec.spec.errors import DspecError, GateError, SpecError
from dspec.spec.records import Manifest, Measurement
from dspec.targets.shipped.golden import array_from_json

FUZZ = settings.get_profile("dspec-fuzz")
Spoiler = Callable[..., bytes]

INTERFACE = {
    "inputs": {"x": {"dtype": "float32", "shape": ["batch", 4], "range": [-1.0, 1.0]}},
    "outputs": {"y": {"dtype": "float32", "shape": ["batch", 2], "range": None}},
    "dims": {"batch": {"min": 1, "max": 8, "multiple_of": 1}},
    "batch": "batch",
}
POINT = {"ref": 1.0, "diff": 1e-6, "index": [0, 1], "case": "a:1"}
ERROR = {"frontier": [POINT], "cosine": 0.99, "topk": {"5": 1.0}, "broken": ""}
MEASUREMENT = {
    "artifact": "a" * 64, "reference": "b" * 64, "target": "fleet", "candidate": "onnxruntime/onnxruntime/fp32",
    "machine": this_machine(2).model_dump(mode="json"),
    "versions": {"onnx": "1.0"}, "facts": {"provider": "CPUExecutionProvider"}, "source": "reference",
    "parity": {"cases": [{"id": "a:1", "kind": "fixture", "call": 1, "outputs": {"y": ERROR}, "door": {"x": ERROR}, "valid": {}}],
               "spread": {"y": {"span": 1.0, "cosine": 0.5, "magnitude": 2.0, "noise": None, "noise_reason": "no"}},
               "on": "CPUExecutionProvider"},
    "latency": {"rate_rps": 10.0, "duration_s": 1.0, "warmup": 3, "warmup_ms": 4.0, "sorted_ms": [1.0, 2.0],
                "stages_ms": {"model": 1.0}, "in_process_ms": 1.0, "errors": 0},
    "cold_start_s": [1.0], "peak_memory_bytes": 1000, "smoke": "ok", "missing": {"skew": "no"},
}  # fmt: skip
ANSWERS = {
    "answers": {
        "a:1": {"outputs": {"y": {"dtype": "float32", "shape": [1, 2], "data": [0.5, "nan"]}}, "ms": 3.2},
        "a:2": {"outputs": {"n": {"dtype": "int64", "shape": [2], "data": [5, -1]},
                            "b": {"dtype": "bool", "shape": [1], "data": [True]}}},
    }
}  # fmt: skip


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz") / "fleet"
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "model.onnx").write_bytes(b"graph")
    (folder / "requirements.txt").write_text("numpy==2.4.6\n")
    return folder


@pytest.fixture(scope="session")
def manifest(bundle: Path) -> dict[str, Any]:
    """A right bundle.json, with something in every field."""
    weight = {"name": "w", "dtype": "float32", "shape": [2], "sha256": "c" * 64, "norm": 1.0, "mean": None}
    body = {
        "schema": "dspec/bundle/v1alpha1", "name": "demo", "version": "1", "target": "fleet", "owner": "me",
        "hardware": "host", "runtime": "onnxruntime", "engine": "onnxruntime", "variant": "fp32",
        "command": ["python", "-m", "dspec_bundle", "pipe"], "cores": 2, "interface": INTERFACE,
        "model": {"path": "model/model.onnx", "format": "onnx", "opset": 20}, "options": {"provider": "CPUExecutionProvider"},
        "toolchain": {"torch": "2.13.0"}, "metrics": [{"name": "nodes", "value": 3.0, "unit": "nodes", "better": "lower"}],
        "weights": [weight], "files": [entry.model_dump(mode="json") for entry in describe(bundle) if entry.path != "bundle.json"],
        "reference": {"torch": "2.13.0", "cpu": "x86-64-avx2", "threads": 1, "fixtures": 1, "source": "0" * 64},
    }  # fmt: skip
    found = Manifest.model_validate_json(json.dumps(body)).with_digests()
    whole: dict[str, Any] = json.loads(found.model_dump_json(by_alias=True))
    return whole


def _asked(read: Callable[[], Any]) -> tuple[str, Any]:
    """The code of the refusal and nothing, or '' and what was read."""
    try:
        return "", read()
    except DspecError as error:
        return error.diagnostics[0].code, None


def _written(bundle: Path, content: bytes) -> Path:
    (bundle / "bundle.json").write_bytes(content)
    return bundle


def test_the_right_ones_are_read(bundle: Path, manifest: dict[str, Any], tmp_path: Path) -> None:
    assert check_digests(_written(bundle, json.dumps(manifest).encode())).name == "demo"
    (tmp_path / "m.json").write_text(json.dumps(MEASUREMENT))
    assert read_measurement(tmp_path / "m.json").target == "fleet"
    (tmp_path / "a.json").write_text(json.dumps(ANSWERS))
    assert read_answers(tmp_path / "a.json").keys() == {"a:1", "a:2"}


@given(data=st.data())
@FUZZ
def test_any_manifest(bundle: Path, manifest: dict[str, Any], spoiler: Spoiler, data: st.DataObject) -> None:
    """A spoilt manifest is refused, or was not spoilt in anything that counts."""
    _written(bundle, spoiler(data, manifest))
    code, found = _asked(lambda: check_digests(bundle))
    assert code in ("", "E0711", "E0712")
    assert code or json.loads(found.model_dump_json(by_alias=True)) == manifest


@given(data=st.data())
@FUZZ
def test_any_measurement(tmp_path_factory: pytest.TempPathFactory, spoiler: Spoiler, data: st.DataObject) -> None:
    path = tmp_path_factory.getbasetemp() / "measurement.json"
    path.write_bytes(spoiler(data, MEASUREMENT))
    code, found = _asked(lambda: read_measurement(path))
    assert code == "E0702" or isinstance(found, Measurement)


@given(data=st.data())
@FUZZ
def test_any_answers(tmp_path_factory: pytest.TempPathFactory, spoiler: Spoiler, data: st.DataObject) -> None:
    """Whatever is let through, the comparison can make arrays of."""
    path = tmp_path_factory.getbasetemp() / "answers.json"
    path.write_bytes(spoiler(data, ANSWERS))
    code, answers = _asked(lambda: read_answers(path))
    assert code in ("", "E0714")
    for answer in (answers or {}).values():
        for packed in answer["outputs"].values():
            array_from_json(packed)
        float(answer.get("ms", 0))


HOSTILE_NAMES = ["../outside.txt", "/etc/passwd", "model/../model/model.onnx", "./requirements.txt", "model\\model.onnx",
                 "", ".", "a" * 5000, "\0", "bundle.json", "requirements.txt/"]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_listed_path_leads_nowhere_else(bundle: Path, manifest: dict[str, Any], name: str) -> None:
    """Listed paths are compared with what lies in the folder, and never opened."""
    (bundle.parent / "outside.txt").write_text("secret")
    entry = manifest["files"][0] | {"path": name}
    body = manifest | {"files": [*manifest["files"], entry], "digests": None}
    sealed = Manifest.model_validate_json(json.dumps(body)).with_digests()
    _written(bundle, sealed.model_dump_json(by_alias=True).encode())
    with pytest.raises(GateError, match=r"E0712.*\n.*\n.*missing"):
        check_digests(bundle)


def test_a_path_listed_twice_is_refused(bundle: Path, manifest: dict[str, Any]) -> None:
    """Readers differ in which of the two they take."""
    first = manifest["files"][0]
    body = manifest | {"files": [first | {"sha256": "0" * 64}, *manifest["files"]], "digests": None}
    _written(
        bundle, Manifest.model_validate_json(json.dumps(body)).with_digests().model_dump_json(by_alias=True).encode()
    )
    with pytest.raises(GateError, match=f"{first['path']}: listed 2 times"):
        check_digests(bundle)


def _pipe(bundle: Path) -> None:
    os.mkfifo(bundle / "pipe")


def _link(bundle: Path) -> None:
    (bundle / "pipe").symlink_to("/etc/passwd")


def _no_text(bundle: Path) -> None:
    Path(os.fsdecode(os.fsencode(bundle / "pipe") + b"\xff")).write_bytes(b"")


@pytest.mark.parametrize(
    ("spoil", "said"), [(_pipe, "a pipe, socket or device"), (_link, "a link"), (_no_text, "can't be read|not listed")]
)
def test_a_folder_holds_files_alone(
    bundle: Path, manifest: dict[str, Any], spoil: Callable[[Path], None], said: str
) -> None:
    """Reading a pipe would wait for ever."""
    _written(bundle, json.dumps(manifest).encode())
    spoil(bundle)
    try:
        with pytest.raises(GateError, match=said):
            check_digests(bundle)
    finally:
        for name in os.listdir(os.fsencode(bundle)):
            if name.startswith(b"pipe"):
                os.unlink(os.path.join(os.fsencode(bundle), name))


@pytest.mark.parametrize("read", [read_manifest, read_measurement, read_answers])
def test_what_has_no_end_is_not_read(tmp_path: Path, read: Callable[[Path], object]) -> None:
    for kind in ("pipe", "device"):
        folder = tmp_path / kind
        folder.mkdir()
        if kind == "pipe":
            os.mkfifo(folder / "bundle.json")
        else:
            (folder / "bundle.json").symlink_to("/dev/zero")
        with pytest.raises(SpecError, match=r"it is no file|it is a link"):
            read(folder if read is read_manifest else folder / "bundle.json")


def test_a_file_beyond_the_limit_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "bundle.json").open("wb") as file:
        file.truncate(2 * 2**30)  # sparse
    for read, path in ((read_manifest, tmp_path), (read_measurement, tmp_path / "bundle.json"),
                       (read_answers, tmp_path / "bundle.json")):  # fmt: skip
        with pytest.raises(SpecError, match="larger than"):
            read(path)
