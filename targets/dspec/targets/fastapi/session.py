"""The client of `python -m dspec_bundle serve`: a service as its callers meet it, over HTTP."""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dspec.spec.errors import DspecError, GateError, MachineError
from dspec.targets.connection import Connection, Response
from dspec.targets.protocol import Answer, Environment
from dspec.targets.rows import row_of
from dspec.targets.session import ANSWER_S, LACKING, LAST_LINES, START_S, STOP_S, ended, start_process
from dspec.targets.shipped.serve.datatypes import BYTES, DTYPES, NAMES, field_datatype

# The measured service answers what its golden vectors say about it, as numbers; and shows what stood at the model's door.
VARIABLES = {"DSPEC_TRACE": "1", "DSPEC_SERVE_UNPROVED": "1"}
ARGUMENTS = ("--port", "0", "--drain-s", "0", "--no-access-log")
STAGES = ("preprocess", "model", "postprocess")
JSON = {"content-type": "application/json"}
DOOR, MODEL = "door.", "model."


class HttpSession:
    """A running service; implements `protocol.Session`. A connection per thread, kept alive.

    `start_seconds` is the time from starting the process to being ready: golden vectors replayed.
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
        """Start `command` in `bundle` on a free port, its `python` replaced by the environment's, and wait until it is ready.

        Raises MachineError where interpreter or libraries are missing, GateError where the service does not get ready.
        """
        self._manifest = json.loads((bundle / "bundle.json").read_text("utf-8"))
        self._fields = json.loads((bundle / "pipeline" / "pipeline.json").read_text("utf-8"))["request"]
        self._answer_s = answer_s
        self._local = threading.local()
        self._connections: list[Connection] = []
        self._log: deque[str] = deque(maxlen=LAST_LINES)
        self._told = threading.Condition()
        self._port, self._workers = 0, set[int]()
        self._facts: Mapping[str, str] = {}
        start = time.perf_counter()
        self._process = start_process(bundle, (*command, *ARGUMENTS), environment, VARIABLES)
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()
        try:
            self._wait(start_s)
        except BaseException:
            self.close()
            raise
        self.start_seconds = time.perf_counter() - start

    @property
    def facts(self) -> Mapping[str, str]:
        return self._facts

    @property
    def pids(self) -> tuple[int, ...]:
        return (self._process.pid, *sorted(self._workers))

    @property
    def together(self) -> int:
        return int(self._facts.get("max_batch", 1))

    def ask(self, request: Mapping[str, Any], *, tensors: bool = False, company: int = 1) -> Answer:
        """One request in Python form, as JSON; with `tensors`, before that as an inference that shows the door, in `company`.

        GateError: E0806 refused or failed, E0804 died, E0805 no answer in time.
        """
        raw = {name: _as_json(value) for name, value in request.items()}
        door = self._traced(request, company) if tensors else {}
        found = self._post("/predict", json.dumps(raw, ensure_ascii=False).encode(), JSON)
        return Answer(
            response=json.loads(found.body),
            inputs={name.removeprefix(DOOR): array for name, array in door.items() if name.startswith(DOOR)},
            outputs={name.removeprefix(MODEL): array for name, array in door.items() if name.startswith(MODEL)},
            seconds=_seconds(found.headers.get("server-timing", "")),
        )

    def run(self, tensors: Mapping[str, Any]) -> Mapping[str, Any]:
        """The model alone, batch axis included, in the binary extension; errors as `ask`."""
        inputs = [(name, NAMES[array.dtype.name], array) for name, array in tensors.items()]
        return self._infer(f"{self._manifest['name']}.model", inputs, ())

    def close(self) -> None:
        """Tell the service to stop; kill it if it does not within a few seconds."""
        for connection in self._connections:
            connection.close()
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(STOP_S)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def __enter__(self) -> HttpSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _traced(self, request: Mapping[str, Any], company: int) -> dict[str, Any]:
        interface = self._manifest["interface"]
        wanted = (*(DOOR + name for name in interface["inputs"]), *(MODEL + name for name in interface["outputs"]))
        inputs = [(name, field_datatype(field), row_of(field, request[name])) for name, field in self._fields.items()]
        return self._infer(self._manifest["name"], inputs, wanted, company)

    def _infer(
        self, model: str, inputs: list[tuple[str, str, Any]], wanted: tuple[str, ...], company: int = 1
    ) -> dict[str, Any]:
        from dspec.targets.shipped.serve.tensors import binary

        parts = [binary(value) for _, _, value in inputs]
        described = [
            {
                "name": name,
                "datatype": NAMES[value.dtype.name] if isinstance(value, np.ndarray) else datatype,
                "shape": list(value.shape) if isinstance(value, np.ndarray) else [len(value)],
                "parameters": {"binary_data_size": len(part)},
            }
            for (name, datatype, value), part in zip(inputs, parts, strict=True)
        ]
        head: dict[str, Any] = {"inputs": described, "parameters": {"binary_data_output": True, "company": company}}
        if wanted:
            head["outputs"] = [{"name": name} for name in wanted]
        text = json.dumps(head).encode()
        headers = {"content-type": "application/octet-stream", "inference-header-content-length": str(len(text))}
        return _tensors(self._post(f"/v2/models/{model}/infer", b"".join((text, *parts)), headers))

    def _post(self, path: str, body: bytes, headers: Mapping[str, str]) -> Response:
        try:
            found = self._connection().ask("POST", path, body, headers)
        except TimeoutError as error:
            self._drop()
            raise GateError.of(
                "E0805", f"no answer within {self._answer_s:g} s", expected="an answer", notes=tuple(self._log)
            ) from error
        except OSError as error:
            self._drop()
            raise self._died() from error
        if found.status != 200:
            raise _refused(found)
        return found

    def _connection(self) -> Connection:
        found: Connection | None = getattr(self._local, "connection", None)
        if found is None:
            found = self._local.connection = Connection(self._port, self._answer_s)
            self._connections.append(found)
        return found

    def _drop(self) -> None:
        found = getattr(self._local, "connection", None)
        if found is not None:
            found.close()
            self._local.connection = None

    def _listen(self) -> None:
        """Follow the service's log: where it listens, which workers there are, when it is ready."""
        assert self._process.stderr is not None
        with contextlib.suppress(ValueError, OSError):
            for line in self._process.stderr:
                text = line.decode(errors="replace").rstrip()
                try:
                    found = json.loads(text)
                except ValueError:
                    found = {}
                with self._told:
                    self._log.append(text)
                    self._take(found if isinstance(found, dict) else {})
                    self._told.notify_all()
        with self._told:
            self._told.notify_all()

    def _take(self, found: Mapping[str, Any]) -> None:
        match found.get("event"):
            case "listening":
                self._port = found["port"]
            case "worker_started":
                self._workers.add(found["pid"])
            case "worker_gone":
                self._workers.discard(found["pid"])
            case "worker_ready":
                self._facts = found["facts"]

    def _wait(self, start_s: float) -> None:
        end = time.monotonic() + start_s
        with self._told:
            while not self._facts:
                if self._process.poll() is not None:
                    raise self._died()
                if time.monotonic() > end:
                    notes = tuple(self._log)
                    raise GateError.of(
                        "E0805",
                        f"the service is not ready after {start_s:g} s",
                        expected="a service that gets ready",
                        notes=notes,
                    )
                self._told.wait(0.1)

    def _died(self) -> DspecError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)
        self._reader.join(1)
        code, notes = self._process.returncode, tuple(self._log)
        last = _said(notes)
        if code == LACKING:
            return MachineError.of("E0803", last, hint="install the bundle's requirements.txt", notes=notes)
        if not self._facts:
            return GateError.of("E0802", f"the bundle did not start ({ended(code)}): {last}", notes=notes)
        return GateError.of("E0804", f"the bundle's process ended ({ended(code)}): {last}", notes=notes)


def _said(lines: tuple[str, ...]) -> str:
    """The last line that tells of an error, in words."""
    for line in reversed(lines):
        try:
            found = json.loads(line)
        except ValueError:
            return line.removeprefix("error: ")
        if found.get("level") == "error" and found.get("message"):
            return str(found["message"])
    return "it wrote nothing to stderr"


def _refused(found: Response) -> GateError:
    try:
        error = json.loads(found.body)["error"]
        message = error if isinstance(error, str) else error["message"]
    except (ValueError, KeyError, TypeError):
        message = found.body[:200].decode(errors="replace")
    what = "refused the request" if found.status < 500 else "failed"
    return GateError.of("E0806", f"the bundle {what}: {message}", expected=f"status 200, not {found.status}")


def _seconds(timing: str) -> dict[str, float]:
    """Of `Server-Timing`: what the worker spent, waiting left out."""
    found = (part.strip().partition(";dur=") for part in timing.split(","))
    return {stage: float(milliseconds) / 1000 for stage, _, milliseconds in found if stage in STAGES}


def _as_json(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"base64": base64.b64encode(value).decode()}
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def _tensors(found: Response) -> dict[str, Any]:
    size = int(found.headers["inference-header-content-length"])
    at, tensors = size, {}
    for output in json.loads(found.body[:size])["outputs"]:
        length = output["parameters"]["binary_data_size"]
        if output["datatype"] != BYTES:
            kind = np.dtype(DTYPES[output["datatype"]]).newbyteorder("<")
            array = np.frombuffer(found.body, kind, length // kind.itemsize, at).reshape(output["shape"])
            tensors[output["name"]] = array.astype(kind.newbyteorder("="))
        at += length
    return tensors
