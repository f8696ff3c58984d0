"""The client of `python -m dspec_bundle pipe`: a bundle as its callers meet it, in a process of its own."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from typing import IO, Any

from dspec.spec.errors import DspecError, GateError, MachineError
from dspec.targets.protocol import Answer, Environment
from dspec.targets.shipped import frames

START_S = 300.0
ANSWER_S = 120.0
STOP_S = 5.0
LAST_LINES = 20  # of stderr, kept for the error that a death becomes
LACKING = 4  # exit code of a bundle that lacks a library

# What a library needs to start at all; everything else of ours stays out of the bundle's sight.
PASSED_ON = ("HOME", "LD_LIBRARY_PATH", "SYSTEMROOT", "TEMP", "TMPDIR")


class PipeSession:
    """A running bundle; implements `protocol.Session`. Safe from several threads, any number of requests in flight.

    `start_seconds` is the time from starting the process to its first answer, the model loaded.
    """

    def __init__(
        self,
        bundle: Path,
        command: tuple[str, ...],
        environment: Environment,
        *,
        start_s: float = START_S,
        answer_s: float = ANSWER_S,
    ) -> None:
        """Start `command` (of bundle.json) in `bundle`, its `python` replaced by the environment's, and wait for it.

        Raises MachineError where interpreter or libraries are missing, GateError where the bundle does not start.
        """
        self._answer_s = answer_s
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[Mapping[str, Any]]] = {}
        self._lock = threading.Lock()  # over stdin and _waiting
        self._closed = False
        start = time.perf_counter()
        self._process = start_process(bundle, command, environment)
        self._stderr: deque[str] = deque(maxlen=LAST_LINES)
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._listen, self._note)]
        for thread in self._threads:
            thread.start()
        try:
            self._facts: Mapping[str, str] = self._call({"op": "facts"}, start_s)["facts"]
        except BaseException:
            self.close()
            raise
        self.start_seconds = time.perf_counter() - start

    @classmethod
    def of_bundle(cls, bundle: Path, environment: Environment, **limits: float) -> PipeSession:
        """The session over the command that `bundle`/bundle.json names."""
        manifest = json.loads((bundle / "bundle.json").read_text("utf-8"))
        return cls(bundle, tuple(manifest["command"]), environment, **limits)

    @property
    def facts(self) -> Mapping[str, str]:
        """Engine, provider and threads that really run."""
        return self._facts

    @property
    def pids(self) -> tuple[int, ...]:
        return (self._process.pid,)

    @property
    def together(self) -> int:
        return 1

    def ask(self, request: Mapping[str, Any], *, tensors: bool = False, company: int = 1) -> Answer:
        """One request in Python form; GateError: E0806 refused or failed, E0804 died, E0805 no answer in time."""
        found = self._call({"op": "ask", "request": request, "tensors": tensors}, self._answer_s)
        return Answer(
            response=found["response"],
            inputs=found.get("inputs", {}),
            outputs=found.get("outputs", {}),
            seconds=found["seconds"],
        )

    def run(self, tensors: Mapping[str, Any]) -> Mapping[str, Any]:
        """The model alone, batch axis included; errors as `ask`."""
        outputs: Mapping[str, Any] = self._call({"op": "run", "tensors": tensors}, self._answer_s)["outputs"]
        return outputs

    def close(self) -> None:
        """Let the process end; kill it if it does not within a few seconds."""
        if not self._lock.acquire(timeout=STOP_S):  # a caller waits for a process that reads no more
            self._process.kill()
            self._lock.acquire()
        self._closed = True
        with contextlib.suppress(OSError):
            self._stdin.close()
        self._lock.release()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for thread in self._threads:
            thread.join(STOP_S)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def __enter__(self) -> PipeSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _stdin(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _call(self, asked: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
        number, future = next(self._numbers), Future[Mapping[str, Any]]()
        parts = frames.encode({"id": number, **asked})
        with self._lock:
            if self._closed:
                raise self._died()
            self._waiting[number] = future
            try:
                for part in parts:
                    self._stdin.write(part)
                self._stdin.flush()
            except OSError as error:
                self._waiting.pop(number, None)
                raise self._died() from error
        try:
            answer = future.result(timeout)
        except FutureTimeoutError as error:
            self._waiting.pop(number, None)
            raise _late(timeout, self._stderr) from error
        if "error" in answer:
            raise _refused(answer["error"])
        return answer

    def _listen(self) -> None:
        """Hand each answer to whoever waits for it; on the end of the stream, tell all that wait."""
        assert self._process.stdout is not None
        with contextlib.suppress(EOFError, frames.FrameError, OSError, ValueError):
            while True:
                answer = frames.read(self._process.stdout)  # type: ignore[arg-type]
                future = self._waiting.pop(answer["id"], None)
                if future is not None:
                    future.set_result(answer)
        with self._lock:
            self._closed = True
            left = [self._waiting.pop(number) for number in list(self._waiting)]
        if left:
            error = self._died()
            for future in left:
                future.set_exception(error)

    def _note(self) -> None:
        assert self._process.stderr is not None
        with contextlib.suppress(ValueError, OSError):
            for line in self._process.stderr:
                self._stderr.append(line.decode(errors="replace").rstrip())

    def _died(self) -> DspecError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)
        if threading.current_thread() is not self._threads[1]:
            self._threads[1].join(1)
        code, notes = self._process.returncode, tuple(self._stderr)
        last = notes[-1].removeprefix("error: ") if notes else "it wrote nothing to stderr"
        if code == LACKING:
            return MachineError.of("E0803", last, hint="install the bundle's requirements.txt", notes=notes)
        if not hasattr(self, "_facts"):
            return GateError.of("E0802", f"the bundle did not start ({ended(code)}): {last}", notes=notes)
        return GateError.of("E0804", f"the bundle's process ended ({ended(code)}): {last}", notes=notes)


def ended(code: int | None) -> str:
    """How a process ended, in words."""
    if code is None:
        return "still running, its pipe closed"
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _late(timeout: float, stderr: deque[str]) -> DspecError:
    return GateError.of("E0805", f"no answer within {timeout:g} s", expected="an answer", notes=tuple(stderr))


def _refused(error: Mapping[str, str]) -> DspecError:
    what = "refused the request" if error["kind"] == "request" else "failed"
    return GateError.of("E0806", f"the bundle {what}: {error['message']}", expected=error["expected"])


def start_process(
    bundle: Path, command: tuple[str, ...], environment: Environment, variables: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """`command` in `bundle`, on the CPUs granted, with `variables` more. Raises MachineError E0801, E0807."""
    program = [str(environment.python) if command[0] == "python" else command[0], *command[1:]]
    try:
        with _on_cpus(environment.cpus):
            return subprocess.Popen(
                program,
                cwd=bundle,
                env=_variables(environment.python) | dict(variables or {}),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
    except OSError as error:
        raise MachineError.of(
            "E0801",
            f"{program[0]} does not start: {error.strerror}",
            expected="an interpreter with the bundle's requirements",
        ) from error


@contextlib.contextmanager
def _on_cpus(cpus: tuple[int, ...]) -> Iterator[None]:
    """A child inherits the affinity of the thread that starts it, so this thread's is set for that moment."""
    if not cpus or not hasattr(os, "sched_setaffinity"):
        yield
        return
    mine = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        raise MachineError.of(
            "E0807", f"CPUs {list(cpus)} can't be granted", expected=f"some of {sorted(mine)}"
        ) from error
    try:
        yield
    finally:
        os.sched_setaffinity(0, mine)


def _variables(python: Path) -> dict[str, str]:
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    own = {
        "PATH": os.pathsep.join((str(python.parent), "/usr/bin", "/bin")),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",  # the bundle's folder stays as it was shipped
        "PYTHONNOUSERSITE": "1",
    }
    return passed | own
