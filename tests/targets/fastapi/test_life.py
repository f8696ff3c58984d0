"""Start, stop, and what happens when a worker dies, hangs or can't prove itself."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

JSON = "application/json"


def gone(pid: int, within_s: float = 5.0) -> bool:
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_sigterm_during_a_request(bundles: Callable[..., Path], start: Callable[..., Any]) -> None:
    service = start(bundles("texts"), "--drain-s", "0.5").ready()
    (worker,) = service.workers
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(service.predict, {"text": "sleep 1"})
        time.sleep(0.3)
        service.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        assert service.ask("GET", "/v2/health/ready").status == 503
        assert service.ask("GET", "/v2/health/live").status == 200
        assert answer.result().status == 200
    assert service.process.wait(10) == 0
    assert gone(worker)
    assert service.event("stopped") is not None


def test_health_answers_while_the_model_is_busy(service: Any) -> None:
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(service.predict, {"text": "sleep 0.6"})
        time.sleep(0.1)
        taken = []
        while not answer.done():
            begun = time.perf_counter()
            assert service.ask("GET", "/v2/health/live").status == 200
            taken.append(time.perf_counter() - begun)
    assert sorted(taken)[len(taken) // 2] < 0.05


def test_a_killed_server_leaves_no_worker(bundles: Callable[..., Path], start: Callable[..., Any]) -> None:
    service = start(bundles("texts")).ready()
    (worker,) = service.workers
    service.process.kill()
    assert gone(worker)


def test_a_worker_that_dies_is_replaced_and_its_requests_fail_cleanly(
    bundles: Callable[..., Path], start: Callable[..., Any]
) -> None:
    service = start(bundles("texts")).ready()
    (first,) = service.workers
    found = service.predict({"text": "die now"})
    assert (found.status, found.json["error"]["code"]) == (503, "worker_died")
    assert found.headers["retry-after"]
    assert service.event("worker_ready", 2) is not None
    assert service.workers != [first]
    assert service.predict({"text": "red"}).status == 200
    assert (
        'dspec_worker_restarts_total{bundle="bbbbbbbbbbbb",why="died"} 1.0'
        in service.ask("GET", "/metrics").body.decode()
    )


def test_every_request_is_answered_while_workers_are_killed(
    bundles: Callable[..., Path], start: Callable[..., Any]
) -> None:
    service = start(bundles("texts"), "--no-access-log").ready()
    end = time.monotonic() + 4

    def caller(number: int) -> list[int]:
        statuses = []
        while time.monotonic() < end:
            found = service.predict({"text": "red green"})
            assert found.headers["content-type"] == JSON
            statuses.append(found.status)
        return statuses

    with ThreadPoolExecutor(8) as pool:
        callers = [pool.submit(caller, number) for number in range(8)]
        for _ in range(2):
            time.sleep(0.7)
            for pid in service.workers:
                os.kill(pid, signal.SIGKILL)
            service.event("worker_gone")
        statuses = {status for caller_ in callers for status in caller_.result()}
    assert 200 in statuses
    assert statuses <= {200, 503}


def test_a_worker_that_hangs_is_killed(bundles: Callable[..., Path], start: Callable[..., Any]) -> None:
    service = start(bundles("texts", hang_s=0.5)).ready()
    found = service.predict({"text": "sleep 30"})
    assert (found.status, found.json["error"]["code"]) == (503, "worker_died")
    assert "hung" in found.json["error"]["message"]
    assert service.event("worker_gone")["why"] == "hung"
    assert service.event("worker_ready", 2) is not None
    assert service.predict({"text": "red"}).status == 200


def test_deadline_and_queue(bundles: Callable[..., Path], start: Callable[..., Any]) -> None:
    service = start(bundles("texts", deadline_ms=600, max_queue=2)).ready()
    with ThreadPoolExecutor(3) as pool:
        slow = [pool.submit(service.predict, {"text": "sleep 1.2"}) for _ in range(2)]
        time.sleep(0.2)
        full = service.predict({"text": "red"})
        assert (full.status, full.json["error"]["code"]) == (429, "overloaded")
        assert full.headers["retry-after"] == "1"
        late = [answer.result() for answer in slow]
    assert {(found.status, found.json["error"]["code"]) for found in late} == {(504, "deadline")}
    end = time.monotonic() + 5
    while (found := service.predict({"text": "red"})).status != 200:  # the worker is still asleep over the first
        assert found.status == 504
        assert time.monotonic() < end


def test_a_body_that_does_not_arrive(bundles: Callable[..., Path], start: Callable[..., Any]) -> None:
    service = start(bundles("texts", deadline_ms=300)).ready()
    with socket.create_connection(("127.0.0.1", service.port), timeout=5) as connection:
        connection.sendall(
            b"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{"
        )
        with connection.makefile("rb") as answer:
            found = answer.read()  # the server closes
    assert found.startswith(b"HTTP/1.1 408 ")
    assert b'"slow_request"' in found


def test_too_large_is_said_before_the_body_is_read(service: Any) -> None:
    with socket.create_connection(("127.0.0.1", service.port), timeout=5) as connection:
        connection.sendall(
            b"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 99999999\r\n\r\n"
        )
        found = connection.recv(4096)
    assert found.startswith(b"HTTP/1.1 413 ")
    with socket.create_connection(("127.0.0.1", service.port), timeout=5) as connection:  # no length is announced
        connection.sendall(
            b"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        chunk = b"100000\r\n" + bytes(0x100000) + b"\r\n"
        found = b""
        try:
            for _ in range(20):
                connection.sendall(chunk)
        except OSError:
            pass
        else:
            found = connection.recv(4096)
    assert not found or found.startswith(b"HTTP/1.1 413 ")


def test_what_is_no_http(service: Any) -> None:
    with socket.create_connection(("127.0.0.1", service.port), timeout=5) as connection:
        connection.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
        assert b" 400 " in connection.recv(4096).split(b"\r\n")[0]
    assert service.predict({"text": "red"}).status == 200


def _tampered(bundle: Path, folder: Path) -> Path:
    copy = Path(shutil.copytree(bundle, folder / "tampered"))
    path = copy / "golden/0001/answer.json"
    answer = json.loads(path.read_text())
    answer["outputs"]["embedding"]["data"][2] += 0.5
    path.write_text(json.dumps(answer))
    return copy


def test_golden_vectors_that_do_not_agree(
    bundles: Callable[..., Path], start: Callable[..., Any], tmp_path: Path
) -> None:
    bundle = _tampered(bundles("texts"), tmp_path)
    service = start(bundle)
    line = service.event("golden_vectors_failed")
    assert any("texts.jsonl:2: output embedding" in reason for reason in line["failures"])
    assert not line["serving"]
    assert service.ask("GET", "/v2/health/ready").status == 503
    assert service.ask("GET", "/v2/models/toy/ready").status == 503
    assert service.ask("GET", "/v2/health/live").status == 200
    found = service.predict({"text": "red"})
    assert (found.status, found.json["error"]["code"]) == (503, "not_ready")
    assert service.stop() == 0


def test_it_serves_unproved_only_when_told_to(
    bundles: Callable[..., Path], start: Callable[..., Any], tmp_path: Path
) -> None:
    service = start(_tampered(bundles("texts"), tmp_path), DSPEC_SERVE_UNPROVED="1").ready()
    assert service.event("golden_vectors_failed")["serving"]
    assert service.predict({"text": "red"}).status == 200
    assert 'dspec_unproved{bundle="bbbbbbbbbbbb"} 1.0' in service.ask("GET", "/metrics").body.decode()


def test_answers_that_depend_on_their_company_never_get_ready(
    bundles: Callable[..., Path], start: Callable[..., Any], tmp_path: Path
) -> None:
    """Padding that the model counts: each golden vector agrees alone, and not in a batch."""
    bundle = Path(shutil.copytree(bundles("texts"), tmp_path / "leaky"))
    import onnx

    model = onnx.load(bundle / "model/model.onnx")
    for node in model.graph.node:  # the sum is over hidden itself, whatever the mask says
        node.input[:] = ["hidden" if name == "kept" else name for name in node.input]
    onnx.save(model, bundle / "model/model.onnx")
    service = start(bundle)
    failures = service.event("golden_vectors_failed")["failures"]
    assert "in a batch of 4" in failures[0]


def test_a_bundle_that_can_not_be_loaded(
    bundles: Callable[..., Path], start: Callable[..., Any], tmp_path: Path
) -> None:
    bundle = Path(shutil.copytree(bundles("texts"), tmp_path / "broken"))
    (bundle / "model/model.onnx").write_bytes(b"nonsense")
    service = start(bundle)
    assert service.process.wait(20) == 1
    assert "can't load model.onnx" in service.event("worker_broken")["message"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--workers", "64"), "64 workers of 1 threads on 2 cores"),
        (("--workers", "0"), "workers is 0; at least 1"),
        (("--host", "192.0.2.1"), "can't listen on 192.0.2.1"),
    ],
)
def test_what_can_not_be_started(
    bundles: Callable[..., Path], start: Callable[..., Any], arguments: tuple[str, ...], says: str
) -> None:
    service = start(bundles("texts"), *arguments)
    assert service.process.wait(20) == 1
    assert says in "".join(service.raw)


def test_two_workers_share_the_cores(bundles: Callable[..., Path], start: Callable[..., Any]) -> None:
    service = start(bundles("texts"), "--workers", "2").ready()
    assert service.event("worker_ready", 2)["facts"]["intra_op_threads"] == "1"
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: service.predict({"text": "red"}).status, range(40)))
    assert set(found) == {200}
    connection = http.client.HTTPConnection("127.0.0.1", service.port)
    connection.request("GET", "/v2/health/ready")
    assert json.loads(connection.getresponse().read()) == {"ready": True}
    connection.close()


def test_the_web_process_loads_nothing_that_computes(service: Any) -> None:
    """Rows 107 and 125: no session and no thread pool of a library exists where workers are started from."""
    web = Path(f"/proc/{service.process.pid}/maps").read_text()
    (worker,) = service.workers
    assert not [name for name in ("onnxruntime", "numpy", "tokenizers") if f"/{name}/" in web]
    assert "/onnxruntime/" in Path(f"/proc/{worker}/maps").read_text()
    assert b"serve.worker" in Path(f"/proc/{worker}/cmdline").read_bytes()  # a program of its own, not a fork


def test_no_caller_meets_a_shape_for_the_first_time(service: Any) -> None:
    """Row 126."""
    warmed = service.event("worker_ready")["warmed"]
    assert {"batch=1 seq=2", "batch=8 seq=2", "batch=1 seq=6", "batch=8 seq=6"} <= set(warmed)
