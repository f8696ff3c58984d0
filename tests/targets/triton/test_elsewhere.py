"""`dspec verify BUNDLE --server URL`: a server that runs already, and whether it holds and answers as this bundle."""

from __future__ import annotations

import json
import re
import shutil
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dspec.compiler.cli import main
from dspec.compiler.elsewhere import replay_at
from dspec.spec.errors import GateError, MachineError, NotProvedError, SpecError
from dspec.targets.triton.elsewhere import Elsewhere
from dspec.targets.triton.session import TritonSession


def _urls(session: TritonSession) -> tuple[str, str]:
    return f"http://127.0.0.1:{session.http_port}", f"grpc://127.0.0.1:{session.grpc_port}"


@pytest.fixture
def copied(bundle: Callable[..., Path], tmp_path: Path) -> Path:
    """A copy of the bundle of texts, to change."""
    return Path(shutil.copytree(bundle("texts"), tmp_path / "bundle"))


def test_both_ways_answer_as_the_golden_vectors(texts: TritonSession, bundle: Callable[..., Path]) -> None:
    for url in _urls(texts):
        lines = replay_at(bundle("texts"), "triton", url)
        assert len(lines) == 8
        assert re.fullmatch(r"texts\.jsonl:1 call 1: embedding max \|Δ\| [0-9.e-]+, hidden max \|Δ\| 0", lines[0])


def test_tensors_and_requests(
    texts: TritonSession, bundle: Callable[..., Path], hand: Callable[[str], Mapping[str, Any]]
) -> None:
    wanted = hand("blue dark")
    with Elsewhere(bundle("texts"), _urls(texts)[0]) as found:
        tensors = found.run({name: wanted[name] for name in ("input_ids", "attention_mask")})
        np.testing.assert_array_equal(tensors["hidden"], wanted["hidden"])
        np.testing.assert_allclose(found.ask({"text": "blue dark"})["embedding"], wanted["embedding"][0], rtol=1e-6)


def test_another_bundle_on_the_server(texts: TritonSession, copied: Path) -> None:
    manifest = json.loads((copied / "bundle.json").read_text())
    manifest["digests"]["bundle"] = "c" * 64
    (copied / "bundle.json").write_text(json.dumps(manifest))
    for url in _urls(texts):
        with pytest.raises(GateError, match=f"E1016: {url} holds another bundle: toy is of bundle bbbbbbbbbbbb"):
            replay_at(copied, "triton", url)
    manifest["name"] = "other"
    (copied / "bundle.json").write_text(json.dumps(manifest))
    (copied / "model_repository" / "toy").rename(copied / "model_repository" / "other")
    for url in _urls(texts):
        with pytest.raises(GateError, match=f"E1016: {url} does not serve other: .*unknown model"):
            replay_at(copied, "triton", url)


def test_an_answer_outside_the_tolerance(texts: TritonSession, copied: Path) -> None:
    """The golden vectors tell of another model."""
    path = copied / "golden" / "0000" / "answer.json"
    answer = json.loads(path.read_text())
    answer["outputs"]["embedding"]["data"][0] += 0.01
    path.write_text(json.dumps(answer))
    with pytest.raises(GateError, match=r"E1019: http://.* answers otherwise than") as caught:
        replay_at(copied, "triton", _urls(texts)[0])
    (note,) = caught.value.diagnostics[0].notes
    assert note.startswith("texts.jsonl:1: output embedding: ")


def test_a_response_that_the_bundles_steps_do_not_make(texts: TritonSession, copied: Path) -> None:
    steps = copied / "pipeline" / "code" / "steps.py"
    steps.write_text(steps.read_text().replace("größte", "kleinste"))
    with pytest.raises(GateError, match="E1019") as caught:
        replay_at(copied, "triton", _urls(texts)[1])
    assert "texts.jsonl:1: response: top.name is 'größte', recorded 'kleinste'" in caught.value.diagnostics[0].notes


def test_without_golden_vectors_nothing_is_proved(texts: TritonSession, copied: Path) -> None:
    index = copied / "golden" / "index.json"
    index.write_text(json.dumps(json.loads(index.read_text()) | {"fixtures": []}))
    with pytest.raises(NotProvedError, match="E0716"):
        replay_at(copied, "triton", _urls(texts)[0])


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://here", "http://", "http://here:port", "http://here/v2"])
def test_what_is_no_address(bundle: Callable[..., Path], url: str) -> None:
    with pytest.raises(SpecError, match=f"E1017: --server {url} is no address of a Triton server"):
        replay_at(bundle("texts"), "triton", url)


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_nobody_is_there(bundle: Callable[..., Path], scheme: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"{scheme}://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(MachineError, match=f"E1015: nobody answers at {url}"):
            replay_at(bundle("texts"), "triton", url)


def test_a_runtime_without_a_server(bundle: Callable[..., Path]) -> None:
    with pytest.raises(SpecError, match=r"E1018: .* is a bundle of onnxruntime, and --server names a server of Triton"):
        replay_at(bundle("texts"), "onnxruntime", "http://127.0.0.1:8000")


def test_the_command_looks_at_the_digests_first(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(copied), "--server", "http://127.0.0.1:9"]) in (1, 2)
    assert "E0711" in capsys.readouterr().err
