"""The toy bundles in a real server, asked as callers ask it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

from dspec.spec.errors import GateError
from dspec.targets.triton.laid_out import PREFIX, SHARED, laid_out
from dspec.targets.triton.processes import started
from dspec.targets.triton.session import TritonSession

Hand = Callable[[str], Mapping[str, Any]]
MIXED = {"image": b"ab\x00\x00", "grid": np.ones((2, 2), np.float32), "scale": 0.5, "more": {"plus": 1}}
X = np.array([97, 98, 0, 0], np.float32) * np.float32(0.5) + 5


def test_an_answer_and_what_stood_at_the_door(texts: TritonSession, hand: Hand) -> None:
    expected = hand("dark blue")
    found = texts.ask({"text": "dark blue"}, tensors=True)
    assert found.response["top"] == {"index": int(expected["embedding"].argmax()), "name": "größte"}
    assert found.response["embedding"].shape == (4,)
    np.testing.assert_allclose(found.response["hidden"], expected["hidden"][0], rtol=1e-6)
    for name, array in found.inputs.items():
        np.testing.assert_array_equal(array, expected[name], strict=True)
    for name, array in found.outputs.items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-6)
    assert list(found.inputs) == ["input_ids", "attention_mask"]
    assert set(found.seconds) == {"preprocess", "model", "postprocess"}
    assert texts.ask({"text": "red"}).inputs == {}


def test_over_grpc_as_over_http(texts: TritonSession, mixed: TritonSession) -> None:
    for session, request in ((texts, {"text": "light"}), (mixed, MIXED)):
        http, grpc = (session.ask_by(client, request).response for client in (session._http, session.over_grpc))
        assert list(http) == list(grpc)
        for name, value in http.items():
            np.testing.assert_array_equal(value, grpc[name])


def test_what_is_held_against_the_reference_goes_both_ways(mixed: TritonSession) -> None:
    before = mixed.facts
    for _ in range(2):
        mixed.ask(MIXED, tensors=True)
    mixed.ask(MIXED)
    for way in ("http", "grpc"):
        assert int(mixed.facts[f"asked over {way}"]) == int(before[f"asked over {way}"]) + 1


def test_company_runs_at_once_and_changes_nothing(texts: TritonSession, hand: Hand) -> None:
    words = ["red", "red green", "dark blue light", "blue green light dark"] * 4
    assert texts.together == 8
    with ThreadPoolExecutor(16) as pool:
        first = pool.submit(texts.ask, {"text": "sleep 0.3"})  # those that arrive meanwhile are the next batch
        time.sleep(0.1)
        found = list(pool.map(lambda text: texts.ask({"text": text}, tensors=True, company=8), words))
        first.result()
    for text, answer in zip(words, found, strict=True):
        for name, array in answer.outputs.items():
            np.testing.assert_allclose(array, hand(text)[name], rtol=1e-5, atol=1e-6)
    assert texts.largest_batch() > 1


def test_the_model_alone_however_many_rows(texts: TritonSession, hand: Hand) -> None:
    expected = hand("dark blue light red")
    tensors = {name: np.concatenate([expected[name]] * 11) for name in ("input_ids", "attention_mask")}
    found = texts.run(tensors)
    assert found["hidden"].shape == (11, 6, 4)
    np.testing.assert_allclose(found["embedding"], np.concatenate([expected["embedding"]] * 11), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(texts.run_by(texts.over_grpc, tensors)["hidden"], found["hidden"])


def test_one_that_is_at_fault_does_not_fail_its_company(texts: TritonSession) -> None:
    def ask(text: str) -> Any:
        try:
            return texts.ask({"text": text}).response["top"]["name"]
        except GateError as error:
            return str(error.diagnostics[0].message)

    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(ask, "sleep 0.3")
        time.sleep(0.1)
        found = list(pool.map(ask, ["red", "a" * 201, "blue", "fail", "green", "dark"]))
        assert first.result() == "größte"
    assert [found[at] for at in (0, 2, 4, 5)] == ["größte"] * 4
    assert "refused the request" in found[1]
    assert "text: 201 bytes; expected at most 200 bytes" in found[1]
    assert "the bundle failed" in found[3]
    assert "step probe: KeyError: '/secret/path'" in found[3]


def test_facts_and_processes(texts: TritonSession) -> None:
    facts = texts.facts
    assert facts["server"] == "triton 2.51.0"
    assert facts["backend"] == "python"
    assert facts["instances"] == "1"
    assert facts["max_batch"] == "8"
    assert facts["bundle"] == "b" * 12
    assert float(facts["start_s ready"]) >= float(facts["start_s toy.model"]) > 0
    assert len(texts.pids) >= 3
    assert texts.start_seconds < 60


def test_every_kind_of_field_through_an_ensemble(mixed: TritonSession) -> None:
    """Row 92: not a byte of a picture is lost, zeros at its end neither; row 158: numbers arrive."""
    found = mixed.ask(MIXED, tensors=True)
    np.testing.assert_array_equal(found.inputs["x"], X[np.newaxis], strict=True)
    np.testing.assert_array_equal(found.response["y"], 2 * X, strict=True)
    assert found.response["total"].shape == ()
    assert found.response["total"] == (2 * X).sum()
    assert found.response["odd"].tolist() == [True] * 4
    np.testing.assert_array_equal(found.outputs["total"], [(2 * X).sum()])
    assert mixed.largest_batch() >= 1


def test_instances_and_calls_with_every_kind_of_field(bundle: Callable[..., Path], start: Any) -> None:
    session = start(bundle("mixed", instances=2, max_batch=4, preferred_batch=(2, 4), max_delay_ms=2.0))
    found = session.ask(MIXED, tensors=True)
    np.testing.assert_array_equal(found.response["y"], 2 * X, strict=True)
    np.testing.assert_array_equal(found.inputs["x"], X[np.newaxis], strict=True)
    np.testing.assert_array_equal(found.outputs["total"], [(2 * X).sum()])
    assert found.response["total"] == (2 * X).sum()
    assert session.facts["instances"] == "2"
    assert session.together == 4


@pytest.mark.parametrize("pipeline", ["calls", "ensemble"])
def test_a_model_that_takes_one_item(bundle: Callable[..., Path], start: Any, pipeline: str) -> None:
    session = start(bundle("single", pipeline=pipeline))
    grid = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = session.ask({"grid": grid}, tensors=True)
    np.testing.assert_array_equal(found.response["y"], 2 * grid, strict=True)
    np.testing.assert_array_equal(found.inputs["x"], grid, strict=True)
    np.testing.assert_array_equal(found.outputs["total"], 2 * grid.sum(1))
    np.testing.assert_array_equal(session.run({"x": grid})["odd"], 2 * grid > 3)
    assert session.together == 1


@pytest.mark.parametrize("module", [tritonclient.http, tritonclient.grpc], ids=["http", "grpc"])
def test_a_plain_client(texts: TritonSession, hand: Hand, module: Any) -> None:
    """Rows 83 and 93: the declared datatype, and the batch's own axis, are what a client sends."""
    port = texts.http_port if module is tritonclient.http else texts.grpc_port
    client = module.InferenceServerClient(f"127.0.0.1:{port}")

    def ask(model: str, name: str, array: Any, datatype: str) -> Any:
        given = module.InferInput(name, array.shape, datatype)
        given.set_data_from_numpy(array)
        return client.infer(model, [given])

    found = ask("toy", "text", np.array([["red green"], ["blue dark"]], object), "BYTES")
    expected = np.concatenate([hand("red green")["embedding"], hand("blue dark")["embedding"]])
    np.testing.assert_allclose(found.as_numpy("embedding"), expected, rtol=1e-5, atol=1e-6)
    assert [json.loads(one)["name"] for one in found.as_numpy("top").reshape(-1)] == ["größte"] * 2
    with pytest.raises(InferenceServerException, match=r"unexpected shape for input 'text'|must specify batch"):
        ask("toy", "text", np.array(["red"], object), "BYTES")
    with pytest.raises(InferenceServerException, match="data-type is 'FP32', but model 'toy' expects 'BYTES'"):
        ask("toy", "text", np.ones((1, 1), np.float32), "FP32")
    with pytest.raises(InferenceServerException, match=r"answers of shapes|ask one by one"):
        ask("toy", "text", np.array([["red"], ["blue dark"]], object), "BYTES")
    client.close()


def test_a_server_that_is_killed_leaves_nothing(bundle: Callable[..., Path], start: Any) -> None:
    session = start(bundle("texts"))
    before = {pid: started(pid) for pid in session.pids}
    assert len(before) >= 3
    region, environments = session._server._region, session._server._own_environments
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(session.ask, {"text": "sleep 5"})
        time.sleep(0.3)
        os.kill(session.pids[0], signal.SIGKILL)
        with pytest.raises(GateError, match=r"E0804: the Triton server ended \(signal 9\)"):
            asked.result(10)
    with pytest.raises(GateError, match="E0804"):
        session.ask({"text": "red"})
    session.close()
    assert [pid for pid, began in before.items() if began and started(pid) == began] == []
    assert list(Path("/dev/shm").glob(f"{region}*")) == []
    assert environments
    assert [folder for folder in environments if folder.exists()] == []


def test_what_a_killed_process_left_is_swept(bundle: Callable[..., Path]) -> None:
    left = [Path(tempfile.gettempdir()) / f"{PREFIX}4194999-x", SHARED / f"{PREFIX}4194999-8000-shm"]
    left[0].mkdir()
    left[1].write_bytes(b"shared")
    with laid_out(bundle("texts")) as repository:
        assert (repository / "toy.model/3/model.onnx").is_file()
        assert [path for path in left if path.exists()] == []
        with laid_out(bundle("single")):
            assert repository.is_dir()
    assert not repository.exists()


def _broken(bundle: Path, to: Path) -> Path:
    return Path(shutil.copytree(bundle, to / "broken"))


def test_what_does_not_load_says_why(bundle: Callable[..., Path], tmp_path: Path, start: Any) -> None:
    folder = _broken(bundle("texts"), tmp_path)
    (folder / "model_repository/toy.model/3/model.onnx").write_bytes(b"nonsense")
    with pytest.raises(GateError, match=r"E0802: the bundle did not start: toy.model does not load: .*ONNX Runtime can't load model.onnx") as caught:  # fmt: skip
        start(folder)
    assert not any("+---" in note or "NVML" in note for note in caught.value.diagnostics[0].notes)


def test_another_python_says_so(bundle: Callable[..., Path], tmp_path: Path, start: Any) -> None:
    """Row 91."""
    folder = _broken(bundle("texts"), tmp_path)
    path = folder / "model_repository/toy/3/settings.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"python": "3.7"}))
    with pytest.raises(
        GateError, match=r"toy does not load: .*toy was made for Python 3.7, and the server runs it with 3\.\d+"
    ):
        start(folder)


def test_a_folder_of_another_name(bundle: Callable[..., Path], tmp_path: Path, start: Any) -> None:
    """Row 94: Triton's own words, without its tables."""
    folder = _broken(bundle("texts"), tmp_path)
    (folder / "model_repository/toy.model").rename(folder / "model_repository/other")
    with pytest.raises(GateError, match=r"E0802: the bundle did not start: other: .*toy.model"):
        start(folder)


def test_a_server_that_announces_something_else(bundle: Callable[..., Path], tmp_path: Path, start: Any) -> None:
    folder = _broken(bundle("texts"), tmp_path)
    path = folder / "model_repository/toy/3/../config.pbtxt"
    path.write_text(path.read_text().replace("TYPE_FP32", "TYPE_FP64", 1))
    with pytest.raises(GateError, match=r"E1014: the server announces FP64 .* for embedding of toy's outputs"):
        start(folder)
