"""The pipe and its client, for real: a process of its own, several requests in flight, deaths and late answers."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dspec.spec.errors import GateError, MachineError
from dspec.targets.protocol import Environment
from dspec.targets.session import PipeSession
from dspec.targets.shipped.runner import Bundle

Expected = Callable[[str], tuple[dict[str, Any], dict[str, Any]]]


@pytest.fixture(scope="module")
def session(toy: Path) -> Iterator[PipeSession]:
    import sys

    with PipeSession.of_bundle(toy, Environment(python=Path(sys.executable), cpus=())) as opened:
        yield opened


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_a_request_goes_the_whole_way(session: PipeSession, expected: Expected) -> None:
    door, outputs = expected("red green")
    answer = session.ask({"text": "red green"}, tensors=True)
    for name, array in door.items():
        np.testing.assert_array_equal(answer.inputs[name], array)
    np.testing.assert_allclose(answer.outputs["embedding"], outputs["embedding"], 1e-5)
    np.testing.assert_allclose(answer.response["embedding"], outputs["embedding"][0], 1e-5)
    assert answer.response["top"]["index"] == outputs["embedding"][0].argmax()
    assert set(answer.seconds) == {"preprocess", "model", "postprocess"}
    assert all(0 < seconds < 1 for seconds in answer.seconds.values())


def test_tensors_travel_only_when_asked_for(session: PipeSession) -> None:
    answer = session.ask({"text": "red"})
    assert (answer.inputs, answer.outputs) == ({}, {})


def test_the_model_alone(session: PipeSession, expected: Expected) -> None:
    door, outputs = expected("blue")
    found = session.run({name: np.repeat(array, 3, axis=0) for name, array in door.items()})
    np.testing.assert_allclose(found["embedding"], np.repeat(outputs["embedding"], 3, axis=0), 1e-5)


def test_facts_and_start(session: PipeSession) -> None:
    assert session.facts["provider"] == "CPUExecutionProvider"
    assert int(session.facts["intra_op_threads"]) >= 1
    assert 0 < session.start_seconds < 60
    assert session.pids != (os.getpid(),)


def test_several_in_flight_get_their_own_answers(
    session: PipeSession, expected: Expected, texts: tuple[str, ...]
) -> None:
    texts *= 50
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda text: session.ask({"text": text}), texts))
    for text, answer in zip(texts, answers, strict=True):
        np.testing.assert_allclose(answer.response["embedding"], expected(text)[1]["embedding"][0], 1e-5)


REFUSED = [
    ({"text": 3}, "text: the number 3; expected a text"),
    ({"txt": "red"}, "txt: an unknown field; expected the field text"),
    ({}, "text: nothing; expected the field text (text)"),
    ({"text": "red " * 100}, "text: 400 bytes; expected at most 200 bytes"),
]


@pytest.mark.parametrize(("request_", "message"), REFUSED)
def test_a_refusal_says_why_and_the_next_request_is_answered(session: PipeSession, request_: Any, message: str) -> None:
    with pytest.raises(GateError, match="E0806") as raised:
        session.ask(request_)
    assert message in str(raised.value)
    assert session.ask({"text": "red"}).response


def test_tensors_outside_the_declared_sizes_are_refused(session: PipeSession) -> None:
    with pytest.raises(GateError) as raised:
        session.run({name: np.ones((100, 3), np.int64) for name in ("input_ids", "attention_mask")})
    assert "axis 0 of the tensor is 100; expected at most 8 (batch)" in str(raised.value)


def test_the_bundle_stays_as_it_was(session: PipeSession, toy: Path) -> None:
    session.ask({"text": "red"})
    assert not list(toy.rglob("__pycache__"))


def test_overhead_of_the_pipe_is_small(session: PipeSession, toy: Path) -> None:
    inside, outside = [], []
    for _ in range(300):
        start = time.perf_counter()
        answer = session.ask({"text": "red green"})
        outside.append(time.perf_counter() - start)
        inside.append(sum(answer.seconds.values()))
    # Of the quicker requests: other work on this machine is not the pipe's.
    assert sorted(outside)[30] - sorted(inside)[30] < 0.001


def test_closing_leaves_no_process(toy: Path, here: Environment) -> None:
    session = PipeSession.of_bundle(toy, here)
    session.close()
    assert gone(*session.pids)
    with pytest.raises(GateError, match=r"process ended \(exit code 0\)"):
        session.ask({"text": "red"})
    session.close()


def test_death_is_reported_to_all_that_wait(own_toy: Path, here: Environment) -> None:
    slow = "import time\ndef label(embedding):\n    time.sleep(30)\n"
    (own_toy / "pipeline/code/post.py").write_text(slow)
    session = PipeSession.of_bundle(own_toy, here)
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(session.ask, {"text": "red"}) for _ in range(3)]
        time.sleep(0.3)
        (pid,) = session.pids
        os.kill(pid, signal.SIGKILL)
        for future in waiting:
            with pytest.raises(GateError, match=r"E0804.*signal 9"):
                future.result(10)
    session.close()
    assert gone(*session.pids)


def test_a_late_answer_is_an_error_and_a_stuck_process_is_ended(own_toy: Path, here: Environment) -> None:
    (own_toy / "pipeline/code/post.py").write_text("import time\ndef label(embedding):\n    time.sleep(60)\n")
    session = PipeSession.of_bundle(own_toy, here, answer_s=0.3)
    with pytest.raises(GateError, match=r"no answer within 0\.3 s"):
        session.ask({"text": "red"})
    session.close()
    assert gone(*session.pids)


def test_prints_of_libraries_do_not_reach_the_pipe(own_toy: Path, here: Environment) -> None:
    noisy = (
        "import os\nprint('hello')\ndef label(embedding):\n    print('x' * 9)\n    os.write(1, b'raw')\n    return 1\n"
    )
    (own_toy / "pipeline/code/post.py").write_text(noisy)
    with PipeSession.of_bundle(own_toy, here) as session:
        assert session.ask({"text": "red"}).response["top"] == 1


def test_a_step_that_fails_is_named(own_toy: Path, here: Environment) -> None:
    (own_toy / "pipeline/code/post.py").write_text("def label(embedding):\n    return 1 / 0\n")
    message = "the bundle failed: step label: ZeroDivisionError: division by zero"
    with PipeSession.of_bundle(own_toy, here) as session, pytest.raises(GateError, match=message):
        session.ask({"text": "red"})


def test_a_response_that_can_not_travel_is_an_answered_error(own_toy: Path, here: Environment) -> None:
    (own_toy / "pipeline/code/post.py").write_text("def label(embedding):\n    return {1, 2}\n")
    with PipeSession.of_bundle(own_toy, here) as session:
        for _ in range(2):
            with pytest.raises(GateError, match="a set can't travel"):
                session.ask({"text": "red"})


def test_the_environment_is_scrubbed(own_toy: Path, here: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(own_toy))
    monkeypatch.setenv("SECRET", "1")
    reads = "import os\ndef label(embedding):\n    return sorted(os.environ)\n"
    (own_toy / "pipeline/code/post.py").write_text(reads)
    with PipeSession.of_bundle(own_toy, here) as session:
        names = session.ask({"text": "red"}).response["top"]
    assert "PATH" in names
    assert not {"PYTHONPATH", "SECRET"} & set(names)


def test_cpus_are_granted(toy: Path, here: Environment) -> None:
    mine = os.sched_getaffinity(0)
    one = min(mine)
    with PipeSession.of_bundle(toy, Environment(python=here.python, cpus=(one,))) as session:
        assert os.sched_getaffinity(*session.pids) == {one}
        assert session.facts["intra_op_threads"] == "1"
    assert os.sched_getaffinity(0) == mine


def test_cpus_that_are_not_there(toy: Path, here: Environment) -> None:
    with pytest.raises(MachineError, match=r"E0807: CPUs \[9999\] can't be granted"):
        PipeSession.of_bundle(toy, Environment(python=here.python, cpus=(9999,)))


def test_an_interpreter_that_is_not_there(toy: Path) -> None:
    with pytest.raises(MachineError, match=r"E0801.*does not start: No such file"):
        PipeSession.of_bundle(toy, Environment(python=Path("/nowhere/python"), cpus=()))


def test_a_bundle_that_does_not_start(own_toy: Path, here: Environment) -> None:
    (own_toy / "model/model.onnx").write_bytes(b"no graph")
    with pytest.raises(GateError, match=r"E0802: the bundle did not start \(exit code 1\): ONNX Runtime can't load"):
        PipeSession.of_bundle(own_toy, here)


def test_a_library_that_is_not_there(own_toy: Path, here: Environment) -> None:
    (own_toy / "pipeline/code/post.py").write_text("import no_such_library\n")
    with pytest.raises(MachineError, match="E0803: step label needs no_such_library, which is not installed"):
        PipeSession.of_bundle(own_toy, here)


def test_the_same_numbers_in_process_and_served(session: PipeSession, toy: Path, texts: tuple[str, ...]) -> None:
    bundle = Bundle(toy)
    for text in texts:
        mine, served = bundle.ask({"text": text}), session.ask({"text": text}, tensors=True)
        for name, array in mine.outputs.items():
            np.testing.assert_array_equal(array, served.outputs[name])


def test_options_in_the_manifest_are_in_force(
    own_toy: Path, here: Environment, amend: Callable[[Path, Any], None]
) -> None:
    options = json.loads((own_toy / "bundle.json").read_text())["options"]
    amend(own_toy / "bundle.json", {"options": options | {"intra_op_threads": 3, "spinning": True}})
    with PipeSession.of_bundle(own_toy, here) as session:
        assert (session.facts["intra_op_threads"], session.facts["spinning"]) == ("3", "true")
