"""`dspec serve` of a Triton bundle: a server over its repository until told to stop."""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path
from types import FrameType

from dspec.spec.errors import MachineError
from dspec.targets.protocol import Environment
from dspec.targets.triton.announced import Repository
from dspec.targets.triton.here import remedy, why_not
from dspec.targets.triton.laid_out import laid_out
from dspec.targets.triton.server import Server

POLL_S = 0.2
COMPLETE = ("--disable-auto-complete-config",)  # nothing is left to guess, and each model starts once less


class _Told(Exception):  # noqa: N818 (reads as what it is)
    """A signal to stop, while the server starts or runs."""


def serve(bundle: Path, environment: Environment, host: str, port: int) -> int:
    """0: told to stop, and nothing is left behind. `port` is that of HTTP, the next two those of gRPC and metrics; 0: free ones.

    Raises MachineError E1013 where there is no server for the bundle, and what `Server` does.
    """
    known = Repository.of(bundle)
    if lacking := why_not(known.shape):
        raise MachineError.of("E1013", lacking, hint=remedy())
    ports = (port, port + 1, port + 2) if port else (0, 0, 0)
    before = {number: signal.signal(number, _stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with laid_out(bundle) as repository:
            server = Server(repository, environment, host=host, ports=ports, extra=COMPLETE, echo=_tell)
            try:
                return _until_told(server, known, host)
            finally:
                server.close()
    except _Told:
        _tell("stopped")
        return 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _until_told(server: Server, known: Repository, host: str) -> int:
    _tell(
        f"{known.name} {known.stamp}: http {host}:{server.http}, grpc {host}:{server.grpc}, metrics {host}:{server.metrics}"
    )
    _tell(f"{known.name} takes {', '.join(known.fields)}; {known.model} takes {', '.join(known.door)}")
    while server.ended_with(0) is None:
        time.sleep(POLL_S)
    raise server.died()


def _stop(number: int, frame: FrameType | None) -> None:
    if threading.current_thread() is threading.main_thread():
        raise _Told


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
