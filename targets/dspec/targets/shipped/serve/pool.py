"""The workers as the web process sees them: who is asked what, until when, and what happens to those that die or hang."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import json
import os
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from . import wire
from .log import Log
from .metrics import Metrics
from .refusals import Refusal
from .settings import Settings
from .wire import ANSWER, COUNTS, Reply

TICK_S = 0.05
STOP_S = 3.0
BACK_OFF_S = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)  # before a worker is replaced that was never ready
TRIES = 3  # starts of workers that die before the bundle is loaded; then the server ends
COUNTS_S = 1.0
STARTING, READY, FAILED, BROKEN = "starting", "ready", "failed", "broken"


@dataclasses.dataclass(slots=True)
class Ask:
    """A request on its way. `frame` is dropped once sent."""

    id: int
    deadline: float
    future: asyncio.Future[Reply]
    frame: bytes


class Link(asyncio.Protocol):
    """One worker process and the socket to it."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.state = STARTING
        self.process: subprocess.Popen[bytes] | None = None
        self.asked: dict[int, Ask] = {}
        self.progress = 0.0
        self.counts: Mapping[str, list[int]] = {}
        self.why = "died"
        self._transport: asyncio.Transport | None = None
        self._replies = wire.Replies()
        self._out: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def send(self, ask: Ask) -> None:
        """What is sent within one turn of the loop goes in one write."""
        if not self.asked:
            self.progress = time.monotonic()
        self.asked[ask.id] = ask
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(ask.frame)
        ask.frame = b""

    def _flush(self) -> None:
        out, self._out = self._out, []
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(out))

    def data_received(self, data: bytes) -> None:
        self.progress = time.monotonic()
        for reply in self._replies.feed(data):
            if reply.kind == ANSWER:
                self._pool.answered(self, reply)
            else:
                self._pool.told(self, orjson.loads(reply.body))
        self._pool.dispatch()

    def connection_lost(self, error: Exception | None) -> None:
        self._pool.lost(self)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def kill(self, why: str) -> None:
        self.why = why
        if self.process is not None:
            self.process.kill()


class Pool:
    """All workers of a server. Used from the event loop alone."""

    def __init__(self, folder: Path, settings: Settings, cores: int, log: Log, metrics: Metrics) -> None:
        self.settings = settings
        self.folder, self._cores, self._log, self._metrics = folder, cores, log, metrics
        self._window = 2 * settings.max_batch  # requests at a worker: those that run and those that run next
        self.links: list[Link] = []
        self._queue: deque[Ask] = deque()
        self._open: dict[int, Ask] = {}  # in the order of their deadlines
        self._number = 0
        self._failures = 0
        self._gone: dict[str, list[int]] = {}  # counts of workers that are no more
        self._tasks: set[asyncio.Task[None]] = set()
        self.been_ready = self.stopping = False
        self.draining = False
        self.response: list[dict[str, Any]] = []
        self.facts: Mapping[str, str] = {}
        self.broken = asyncio.Event()
        self._unproved = os.environ.get("DSPEC_SERVE_UNPROVED") == "1"

    @property
    def ready(self) -> bool:
        return not self.draining and any(link.state == READY for link in self.links)

    def drain(self) -> None:
        """Not ready any more; requests are still answered."""
        self.draining = True
        self._gauges()

    async def start(self) -> None:
        for _ in range(self.settings.workers):
            await self._spawn()
        self._task(self._watch())

    def _task(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _spawn(self) -> None:
        ours, its = socket.socketpair()
        ours.setblocking(False)
        link = Link(self)
        package = __package__ or ""
        root = Path(__file__).resolve().parents[package.count(".") + 1]
        path = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
        settings = json.dumps(dataclasses.asdict(self.settings))
        flags = ["-B"] if sys.dont_write_bytecode else []
        command = [
            sys.executable,
            *flags,
            "-m",
            f"{package}.worker",
            str(its.fileno()),
            str(self.folder),
            str(self._cores),
            settings,
        ]
        with its:
            link.process = subprocess.Popen(
                command, pass_fds=[its.fileno()], stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": path}
            )
        await asyncio.get_running_loop().create_connection(lambda: link, sock=ours)
        self.links.append(link)
        self._log.write("worker_started", pid=link.process.pid)

    def submit(self, kind: int, meta: bytes, body: bytes, deadline: float) -> asyncio.Future[Reply]:
        """The reply to come. Raises Refusal 503 where nothing is ready yet."""
        if not self.been_ready:
            raise Refusal(503, "not_ready", "the model is not ready: see /v2/health/ready and the log")
        self._number += 1
        frame = wire.asked(kind, self._number, deadline, meta, body)
        ask = Ask(self._number, deadline, asyncio.get_running_loop().create_future(), frame)
        self._open[ask.id] = ask
        self._queue.append(ask)
        self.dispatch()
        return ask.future

    def dispatch(self) -> None:
        """Hand what waits to the workers that have the least to do."""
        while self._queue:
            link = self._freest()
            if link is None:
                return
            ask = self._queue.popleft()
            if not ask.future.done():
                link.send(ask)

    def _freest(self) -> Link | None:
        found, least = None, self._window
        for link in self.links:
            if link.state == READY and len(link.asked) < least:
                found, least = link, len(link.asked)
        return found

    def answered(self, link: Link, reply: Reply) -> None:
        ask = link.asked.pop(reply.id, None)
        self._open.pop(reply.id, None)
        if ask is not None and not ask.future.done():
            ask.future.set_result(reply)

    def _close(self, ask: Ask, refusal: Refusal) -> None:
        self._open.pop(ask.id, None)
        if not ask.future.done():
            ask.future.set_exception(refusal)

    def told(self, link: Link, found: Mapping[str, Any]) -> None:
        """What a worker says of itself, or of a request that failed."""
        pid = link.process.pid if link.process else 0
        state = found["state"]
        if state == "error":
            known = {key: value for key, value in found.items() if value and key not in ("state", "request")}
            self._log.write("failed", "error", pid=pid, **known)
            return
        if state == BROKEN:
            link.state = BROKEN
            self._log.write("worker_broken", "error", pid=pid, message=" / ".join(found["failures"]))
            self.broken.set()
            return
        told = {"pid": pid, "facts": found["facts"], "warmed": found["warmed"], "seconds": found["seconds"]}
        if found["failures"]:
            unproved = {"serving": self._unproved, "failures": found["failures"][:20]}
            self._log.write("golden_vectors_failed", "error", **told, **unproved)
        link.state = READY if state == READY or self._unproved else FAILED
        if link.state == READY:
            self._metrics.unproved.set(float(bool(found["failures"])))
            self.response, self.facts = found["response"], found["facts"]
            self.been_ready, self._failures = True, 0
            self._log.write("worker_ready", **told)
        self._gauges()
        self.dispatch()

    def _gauges(self) -> None:
        self._metrics.ready.set(float(self.ready))
        self._metrics.workers.set(sum(link.state == READY for link in self.links))

    def lost(self, link: Link) -> None:
        """A worker has gone: tell those who waited for it, and replace it."""
        if link not in self.links:
            return
        self.links.remove(link)
        for name, counts in link.counts.items():
            kept = self._gone.setdefault(name, [0] * len(counts))
            self._gone[name] = [one + other for one, other in zip(kept, counts, strict=True)]
        for ask in link.asked.values():
            self._close(ask, Refusal(503, "worker_died", f"the worker that had this request {link.why}; ask again"))
        self._gauges()
        if self.stopping:
            return
        self._metrics.restarted(link.why)
        self._task(self._replace(link))

    async def _replace(self, link: Link) -> None:
        assert link.process is not None
        link.process.kill()  # its socket is closed, whatever it still does
        code = await asyncio.get_running_loop().run_in_executor(None, link.process.wait)
        self._failures += link.state != READY
        if self._failures >= TRIES and not self.been_ready:
            self.broken.set()
            return
        pause = BACK_OFF_S[min(self._failures, len(BACK_OFF_S) - 1)]
        self._log.write("worker_gone", "error", pid=link.process.pid, why=link.why, exit=code, replaced_in_s=pause)
        await asyncio.sleep(pause)
        if not self.stopping:
            await self._spawn()

    async def _watch(self) -> None:
        """Deadlines and hanging workers."""
        while True:
            await asyncio.sleep(TICK_S)
            now = time.monotonic()
            for ask in self._late(now):
                self._close(ask, Refusal(504, "deadline", f"no answer within {self.settings.deadline_ms:g} ms"))
            for link in self.links:
                if link.asked and link.state == READY and now - link.progress > self.settings.hang_s:
                    link.progress = now
                    link.kill("hung")

    def _late(self, now: float) -> list[Ask]:
        return list(itertools.takewhile(lambda ask: ask.deadline <= now, self._open.values()))

    async def counts(self) -> dict[str, list[int]]:
        """The values counted by all workers, those that are gone included."""
        asked = []
        for link in self.links:
            if link.state == READY:
                self._number += 1
                future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
                link.send(Ask(self._number, 0.0, future, wire.asked(COUNTS, self._number, 0.0, b"", b"")))
                asked.append((link, future))
        if asked:
            await asyncio.wait([future for _, future in asked], timeout=COUNTS_S)
        for link, future in asked:
            if future.done() and not future.exception():
                link.counts = orjson.loads(future.result().body)
        total = {name: list(counts) for name, counts in self._gone.items()}
        for link in self.links:
            for name, counts in link.counts.items():
                total[name] = [
                    one + other for one, other in zip(total.get(name, [0] * len(counts)), counts, strict=True)
                ]
        return total

    async def stop(self) -> None:
        """End every worker and wait for it."""
        self.stopping = True
        for task in list(self._tasks):
            task.cancel()
        links = list(self.links)
        for link in links:
            link.close()
        loop = asyncio.get_running_loop()
        for link in links:
            if link.process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    await loop.run_in_executor(None, link.process.wait, STOP_S)
                link.process.kill()
                await loop.run_in_executor(None, link.process.wait)
