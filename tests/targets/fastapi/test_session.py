"""The session over HTTP: what measuring meets."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dspec.spec.errors import GateError
from dspec.targets.fastapi.session import HttpSession
from dspec.targets.protocol import Environment

COMMAND = ("python", "-B", "-m", "dspec_bundle", "serve")
HERE = Environment(python=Path(sys.executable), cpus=())


@pytest.fixture(scope="module")
def session(bundles: Callable[..., Path]) -> Iterator[HttpSession]:
    with HttpSession(bundles("texts"), COMMAND, HERE) as found:
        yield found


def test_answers_and_the_door(session: HttpSession, hand: Callable[[str], Any]) -> None:
    expected = hand("red green")
    found = session.ask({"text": "red green"}, tensors=True)
    assert found.response["top"]["index"] == expected["embedding"].argmax()
    assert set(found.seconds) == {"preprocess", "model", "postprocess"}
    for name, array in found.inputs.items():
        assert array.dtype == np.int64
        np.testing.assert_array_equal(array, expected[name])
    for name, array in found.outputs.items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-6)
    assert set(found.outputs) == {"embedding", "hidden"}
    assert session.ask({"text": "red"}).inputs == {}


def test_company_runs_at_once_and_changes_nothing(session: HttpSession, hand: Callable[[str], Any]) -> None:
    texts = ["red", "red green", "dark blue light", "blue green light dark"] * 2
    assert session.together == 8
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda text: session.ask({"text": text}, tensors=True, company=8), texts))
    for text, answer in zip(texts, found, strict=True):
        for name, array in answer.outputs.items():
            np.testing.assert_allclose(array, hand(text)[name], rtol=1e-5, atol=1e-6)
    scraped = session._connection().ask("GET", "/metrics").body.decode().splitlines()
    sizes = {
        line.split(',le="')[1].split('"')[0]: float(line.split()[-1])
        for line in scraped
        if "dspec_batch_size_bucket" in line
    }
    assert sizes["4.0"] < sizes["8.0"], sizes


def test_the_model_alone(session: HttpSession, hand: Callable[[str], Any]) -> None:
    expected = hand("dark blue light red")
    tensors = {name: np.concatenate([expected[name]] * 8) for name in ("input_ids", "attention_mask")}
    found = session.run(tensors)
    np.testing.assert_allclose(found["hidden"], np.concatenate([expected["hidden"]] * 8), rtol=1e-5, atol=1e-6)


def test_refusals_and_processes(session: HttpSession) -> None:
    with pytest.raises(GateError, match=r"E0806: the bundle refused the request: text: .* at most 200 bytes"):
        session.ask({"text": "a" * 201})
    with pytest.raises(GateError, match=r"the bundle failed: step probe: KeyError: '/secret/path'"):
        session.ask({"text": "fail"})
    web, worker = session.pids
    assert web != worker
    assert session.facts["provider"] == "CPUExecutionProvider"
    assert session.start_seconds < 30


def test_a_service_that_is_killed(bundles: Callable[..., Path]) -> None:
    with HttpSession(bundles("texts"), COMMAND, HERE) as session:
        os.kill(session.pids[0], signal.SIGKILL)
        time.sleep(0.1)
        with pytest.raises(GateError, match=r"E0804: the bundle's process ended \(signal 9\)"):
            session.ask({"text": "red"})


def test_what_does_not_start_says_why(bundles: Callable[..., Path], tmp_path: Path) -> None:
    bundle = Path(shutil.copytree(bundles("texts"), tmp_path / "broken"))
    (bundle / "model/model.onnx").write_bytes(b"nonsense")
    with pytest.raises(
        GateError, match=r"E0802: the bundle did not start \(exit code 1\): ONNX Runtime can't load model.onnx"
    ):
        HttpSession(bundle, COMMAND, HERE)


def test_a_golden_vector_that_fails_is_a_matter_of_parity(bundles: Callable[..., Path], tmp_path: Path) -> None:
    """Measuring must give numbers of a bundle that is wrong, not a start that failed."""
    bundle = Path(shutil.copytree(bundles("texts"), tmp_path / "wrong"))
    text = (bundle / "golden/0000/answer.json").read_text()
    (bundle / "golden/0000/answer.json").write_text(text.replace('"index": ', '"index": 1'))
    with HttpSession(bundle, COMMAND, HERE) as session:
        assert session.ask({"text": "red"}).response
