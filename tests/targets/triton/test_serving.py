"""`dspec serve` of a Triton bundle: what it tells, and what is left when it is told to stop."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dspec.targets.triton.client import Http, strings
from dspec.targets.triton.processes import descendants, started

CODE = """
import sys
from pathlib import Path
from dspec.targets.protocol import Environment
from dspec.targets.triton.serving import serve
sys.exit(serve(Path(sys.argv[1]), Environment(python=Path(sys.executable), cpus=()), "127.0.0.1", 0))
"""


@pytest.fixture
def process(server: None, bundle: Callable[..., Path]) -> Iterator[subprocess.Popen[str]]:
    found = subprocess.Popen([sys.executable, "-c", CODE, str(bundle("texts"))], stderr=subprocess.PIPE, text=True)
    yield found
    found.kill()
    found.wait()
    assert found.stderr
    found.stderr.close()


def _told(process: subprocess.Popen[str], words: str) -> str:
    assert process.stderr
    lines = []
    for line in process.stderr:
        lines.append(line)
        if words in line:
            return line
    raise AssertionError(f"no {words!r} in {lines}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_it_tells_its_ports_and_stops_without_a_trace(process: subprocess.Popen[str], number: int) -> None:
    line = _told(process, "http")
    found = re.match(
        r"toy b{12}: http 127\.0\.0\.1:(\d+), grpc 127\.0\.0\.1:\d+, metrics 127\.0\.0\.1:\d+$", line.strip()
    )
    assert found, line
    http = Http(int(found[1]), 20)
    assert http.infer("toy", {"text": strings([b"red"], (1, 1))}, ("embedding",))["embedding"].shape == (1, 4)
    http.close()
    below = {pid: started(pid) for pid in descendants(process.pid)}
    assert len(below) >= 3
    process.send_signal(number)
    assert process.wait(30) == 0
    assert [pid for pid, began in below.items() if began and started(pid) == began] == []


def test_told_to_stop_while_it_starts(process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 20
    while not (below := {pid: started(pid) for pid in descendants(process.pid)}) and time.monotonic() < end:
        time.sleep(0.05)
    assert below
    process.send_signal(signal.SIGTERM)
    reader = threading.Thread(target=lambda: process.stderr and process.stderr.read(), daemon=True)
    reader.start()
    assert process.wait(30) == 0
    assert [pid for pid, began in below.items() if began and started(pid) == began] == []
    reader.join(5)
