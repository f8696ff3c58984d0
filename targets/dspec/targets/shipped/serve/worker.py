"""A worker: `python -m dspec_bundle.serve.worker FD FOLDER CORES SETTINGS`. Loads the bundle after it was started, never before.

One thread reads what is asked and prepares it; the main thread runs the model on what waits, and answers.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from ..arrays import Array
from ..errors import BundleError, EngineError, RequestError
from ..runner import Bundle
from . import wire
from .batch import Stacking
from .counts import Counts
from .intake import Intake, Item, Result
from .padding import padding_of
from .proof import proved, warm_up
from .refusals import body_of, refused
from .settings import Settings
from .tensors import column, described
from .waiting import Waiting
from .wire import ANSWER, COUNTS, INFER, INFER_MODEL, STATE, Asked, Reply

SWITCH_S = 0.0005  # between threads: the one that answers must not wait for the one that prepares
NOTHING = (0.0, 0.0, 0.0, 0.0)
PR_SET_PDEATHSIG = 1


def main() -> None:
    fd, folder, cores, settings = sys.argv[1:]
    os.dup2(2, 1)  # what a library prints goes to the log
    for number in (signal.SIGINT, signal.SIGTERM):  # the server decides when its workers end
        signal.signal(number, signal.SIG_IGN)
    _die_with_parent()
    sys.setswitchinterval(SWITCH_S)
    connection = socket.socket(fileno=int(fd))
    Worker(connection, Path(folder), int(cores), Settings(**json.loads(settings))).run()


def _die_with_parent() -> None:
    """Where Linux can tell: a server that was killed leaves no worker behind, whatever the worker is doing."""
    with contextlib.suppress(Exception):
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Worker:
    def __init__(self, connection: socket.socket, folder: Path, cores: int, settings: Settings) -> None:
        self._socket, self._settings = connection, settings
        self._sending = threading.Lock()
        self._trace = os.environ.get("DSPEC_TRACE") == "1"
        self._folder, self._cores = folder, cores
        self._waiting = Waiting(settings.max_batch, settings.max_delay_ms / 1000)

    def run(self) -> None:
        threading.Thread(target=self._read, daemon=True).start()
        try:
            self._open()
        except Exception as error:
            detail = str(error) if isinstance(error, BundleError) else traceback.format_exc()
            self._state(state="broken", failures=[detail])
            threading.Event().wait()  # the server ends it
        while True:
            self._batch(self._waiting.take())

    def _open(self) -> None:
        start = time.monotonic()
        bundle = self._bundle = Bundle(self._folder, self._cores)
        declared = bundle.pipeline.declared
        padding = padding_of(declared, self._folder / "pipeline")
        self._stacking = Stacking(bundle.manifest["interface"], padding, self._settings.max_batch)
        self._waiting = Waiting(self._stacking.most, self._settings.max_delay_ms / 1000)
        self._intake = Intake(bundle=bundle, stacking=self._stacking, most=self._settings.max_items, trace=self._trace)
        self._counts = Counts.of(self._folder)
        loaded = time.monotonic()
        warmed = warm_up(bundle, self._stacking)
        warm = time.monotonic()
        failures = proved(bundle, self._stacking)
        self._state(
            state="failed" if failures else "ready",
            failures=failures,
            facts={**bundle.facts, "max_batch": str(self._stacking.most), "padded": padding.dim if padding else ""},
            warmed=warmed,
            seconds={"load": loaded - start, "warm_up": warm - loaded, "golden": time.monotonic() - warm},
            response=self._response(),
        )

    def _response(self) -> list[dict[str, Any]]:
        """The response's fields as tensors of one row, as an answer to the first golden vector has them."""
        from ..golden import read_golden
        from ..request import read_request

        with contextlib.suppress(RequestError, BundleError):
            for item in read_golden(self._folder / "golden")[:1]:
                request = read_request(self._bundle.pipeline.fields, item.request, item.folder)
                response = self._bundle.ask(request).response
                return [described(name, column([value])) for name, value in response.items()]
        return []

    def _read(self) -> None:
        """Prepare what arrives, as long as the server is there."""
        requests = wire.Requests()
        while True:
            try:
                data = self._socket.recv(wire.CHUNK)
            except OSError:
                data = b""
            if not data:
                os._exit(0)  # whatever the other thread is doing
            arrived = list(requests.feed(data))
            self._waiting.arrived(len(arrived))
            for asked in arrived:
                self._waiting.prepared(self._prepared(asked))

    def _prepared(self, asked: Asked) -> list[Item]:
        if asked.kind == COUNTS:
            self._send([Reply(ANSWER, asked.id, 200, 0, 0, NOTHING, orjson.dumps(self._counts.found()))])
            return []
        if time.monotonic() > asked.deadline:
            self._send([Reply(ANSWER, asked.id, 504, 0, 0, NOTHING, b"")])
            return []
        try:
            return self._intake.items(asked)
        except Exception as error:
            self._send([self._refusal(asked, error)])
            return []

    def _batch(self, items: list[Item]) -> None:
        """Run the items at once and answer those requests that are complete."""
        start = time.monotonic()
        if len(items) == 1 and start > items[0].pending.asked.deadline:
            self._send([Reply(ANSWER, items[0].pending.asked.id, 504, 0, 0, NOTHING, b"")])
            return
        tensors = [item.tensors for item in items]
        try:
            answers: list[Any] = list(
                self._stacking.parted(self._bundle.infer(self._stacking.joined(tensors)), tensors)
            )
        except (EngineError, BundleError, MemoryError, ValueError) as error:
            answers = [error] if len(items) == 1 else [self._alone(item) for item in items]
        ran = time.monotonic()
        rows = sum(item.rows for item in items)
        done = [self._finished(item, answer, (start, ran), rows) for item, answer in zip(items, answers, strict=True)]
        self._send([reply for reply in done if reply])
        for item, answer in zip(items, answers, strict=True):
            if not isinstance(answer, Exception):
                self._counts.add(item.tensors, answer)

    def _alone(self, item: Item) -> Mapping[str, Array] | Exception:
        """One that is at fault must not fail its company."""
        try:
            return self._bundle.infer(item.tensors)
        except Exception as error:
            return error

    def _finished(self, item: Item, answer: Any, times: tuple[float, float], rows: int) -> Reply | None:
        """The reply, if this was the last item of its request, or the first to fail."""
        pending, (start, ran) = item.pending, times
        if pending.failed:
            return None
        try:
            if isinstance(answer, Exception):
                raise answer
            pending.results[item.number] = self._intake.after(item, answer)
            if None in pending.results:
                return None
            results: list[Result] = [result for result in pending.results if result is not None]
            header, body = pending.write(results)
        except Exception as error:
            pending.failed = True
            return self._refusal(pending.asked, error)
        seconds = (start - pending.ready, pending.preprocess, ran - start, time.monotonic() - ran)
        return Reply(ANSWER, pending.asked.id, 200, rows, header, seconds, body)

    def _refusal(self, asked: Asked, error: Exception) -> Reply:
        found = refused(error, tell=self._trace)
        if found.detail:
            trace = "".join(traceback.format_exception(error)[-3:]) if found.refusal.code == "internal" else ""
            self._state(state="error", request=asked.id, code=found.refusal.code, detail=found.detail, trace=trace)
        body = orjson.dumps(body_of(found.refusal, v2=asked.kind in (INFER, INFER_MODEL)))
        return Reply(ANSWER, asked.id, found.refusal.status, 0, 0, NOTHING, body)

    def _state(self, **found: Any) -> None:
        self._send([Reply(STATE, 0, 0, 0, 0, NOTHING, orjson.dumps(found))])

    def _send(self, replies: list[Reply]) -> None:
        """All of them in one write."""
        try:
            with self._sending:
                self._socket.sendall(b"".join(map(wire.reply, replies)))
        except OSError:
            os._exit(0)


if __name__ == "__main__":
    main()
