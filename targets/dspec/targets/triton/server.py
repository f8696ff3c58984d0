"""A running tritonserver: started on free ports of the loopback, watched, and ended without a trace."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dspec.spec.errors import DspecError, GateError, MachineError
from dspec.targets.connection import Connection
from dspec.targets.protocol import Environment
from dspec.targets.session import START_S, STOP_S, ended, start_process
from dspec.targets.triton import log
from dspec.targets.triton.here import remedy, server_here, why_none
from dspec.targets.triton.laid_out import PREFIX, SHARED
from dspec.targets.triton.processes import GONE_S, descendants, end_all, started

HOST = "127.0.0.1"
KEPT = 2000  # lines of the log: all of a start, with its tables
SHOWN = 20
EXIT_S = 3  # the server waits so long for requests that are still in it
POLL_S = 0.02
FAILED = "error: creating server"  # it still takes seconds to end


class Server:
    """A server over a model repository. `seconds`: from starting it to being ready, and what each model took of that."""

    def __init__(
        self,
        repository: Path,
        environment: Environment,
        *,
        host: str = HOST,
        extra: Sequence[str] = (),
        ports: tuple[int, int, int] = (0, 0, 0),
        environ: Mapping[str, str] | None = None,
        echo: Callable[[str], None] | None = None,
        meanwhile: Callable[[], object] = lambda: None,
        start_s: float = START_S,
    ) -> None:
        """Start it and wait until it is ready. `ports`: HTTP, gRPC, metrics; 0: a free one. `meanwhile` runs while it starts.

        Raises MachineError E1013 no server is installed, E0803 a library is missing; GateError E0802 the repository does not
        load, E0805 it does not get ready.
        """
        if words := why_none():
            raise MachineError.of("E1013", words, hint=remedy())
        self.http, self.grpc, self.metrics = _free(ports)
        self._host = host
        self._region = f"{PREFIX}{os.getpid()}-{self.http}-"
        self._lines: deque[str] = deque(maxlen=KEPT)
        self._echo = echo
        self._ended = False
        before = _environments()
        start = time.perf_counter()
        self.process = start_process(repository.parent, self._command(repository, extra), environment,
                                     {**server_here().variables, **(environ or {})})  # fmt: skip
        self._known: dict[int, str] = {}
        self._readers = [threading.Thread(target=self._read, args=(stream,), daemon=True)
                         for stream in (self.process.stdout, self.process.stderr)]  # fmt: skip
        for reader in self._readers:
            reader.start()
        try:
            meanwhile()
            self._wait(start_s)
        except BaseException:
            self._own_environments = _environments() - before
            self.close(gently=False)
            raise
        self._own_environments = _environments() - before
        self.seconds = {"ready": time.perf_counter() - start, **log.model_seconds(tuple(self._lines))}
        self._note_children()

    def _command(self, repository: Path, extra: Sequence[str]) -> tuple[str, ...]:
        ports = {"http": self.http, "grpc": self.grpc, "metrics": self.metrics}
        places = [word for name, port in ports.items()
                  for word in (f"--{name}-address={self._host}", f"--{name}-port={port}")]  # fmt: skip
        return (
            *server_here().arguments,
            "--model-repository", str(repository.resolve()), *places,
            f"--backend-config=python,shm-region-prefix-name={self._region}",
            f"--exit-timeout-secs={EXIT_S}", *extra,
        )  # fmt: skip

    @property
    def pids(self) -> tuple[int, ...]:
        """The server and what it started."""
        self._note_children()
        return (self.process.pid, *(pid for pid, began in self._known.items() if started(pid) == began))

    @property
    def lines(self) -> tuple[str, ...]:
        """The last lines of the log that people want to read."""
        return tuple(line for line in tuple(self._lines) if log.matters(line))[-SHOWN:]

    def is_ready(self) -> bool:
        try:
            connection = Connection(self.http, 1.0)
        except OSError:
            return False
        try:
            return connection.ask("GET", "/v2/health/ready").status == 200
        except (OSError, ValueError):
            return False
        finally:
            connection.close()

    def ended_with(self, seconds: float = STOP_S) -> int | None:
        """The exit code, once the server has ended; None where it still runs after so long."""
        if not seconds:
            return self.process.poll()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(seconds)
        return None

    def died(self) -> DspecError:
        """The error that the server's end is."""
        code = self.ended_with(STOP_S if hasattr(self, "seconds") else 0)
        found = log.causes(tuple(self._lines))
        lacking = next((words for words in found if "ModuleNotFoundError" in words), "")
        notes = found[1:] or self.lines[-5:]
        if lacking:
            return MachineError.of("E0803", lacking, hint="install the bundle's requirements.txt", notes=notes)
        if not hasattr(self, "seconds"):
            said = found[0] if found else self._last()
            return GateError.of("E0802", f"the bundle did not start: {said}", notes=notes)
        return GateError.of("E0804", f"the Triton server ended ({ended(code)}): {self._last()}", notes=notes)

    def close(self, *, gently: bool = True) -> None:
        """End the server and all it started, and remove the memory that they shared.

        `gently`: what is being answered is answered, and models may say goodbye: some seconds.
        """
        if self._ended:
            return
        self._ended = True
        self._note_children()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM if gently else signal.SIGKILL)
        if self.ended_with(STOP_S + EXIT_S) is None:
            self.process.kill()
            self.process.wait()
        end_all(self._known, GONE_S if gently else 0)
        for reader in self._readers:
            reader.join(STOP_S)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        for path in SHARED.glob(f"{self._region}*"):
            with contextlib.suppress(OSError):
                path.unlink()
        for folder in self._own_environments:
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _last(self) -> str:
        lines = self.lines
        if not lines:
            return "its log holds no warning and no error"
        found = log.read(lines[-1])
        return found.text if found else lines[-1]

    def _note_children(self) -> None:
        for pid in descendants(self.process.pid):
            if pid not in self._known and (began := started(pid)):
                self._known[pid] = began

    def _read(self, stream: object) -> None:
        assert stream is not None
        with contextlib.suppress(ValueError, OSError):
            for raw in stream:  # type: ignore[attr-defined]
                line = raw.decode(errors="replace").rstrip("\n")
                self._lines.append(line)
                if self._echo is not None and log.matters(line):
                    self._echo(line)

    def _wait(self, start_s: float) -> None:
        end = time.monotonic() + start_s
        while not self.is_ready():
            self._note_children()
            if self.process.poll() is not None or any(line.startswith(FAILED) for line in tuple(self._lines)):
                raise self.died()
            if time.monotonic() > end:
                raise GateError.of("E0805", f"the Triton server is not ready after {start_s:g} s",
                                   expected="a server that gets ready", notes=self.lines)  # fmt: skip
            time.sleep(POLL_S)


def _environments() -> set[Path]:
    """Folders that Python backends made for packed environments. A killed one leaves its own: empty, as ours are never packed."""
    return set(Path("/tmp").glob("python_env_*"))


def _free(wanted: tuple[int, int, int]) -> tuple[int, int, int]:
    """These ports, the zeros among them replaced by free ones; all three are held until all are known."""
    with contextlib.ExitStack() as held:
        found = []
        for port in wanted:
            listening = held.enter_context(socket.socket())
            if port == 0:
                listening.bind((HOST, 0))
            found.append(port or listening.getsockname()[1])
    return (found[0], found[1], found[2])
