# mypy: disable-error-code="import-not-found"
"""Load over kept-alive connections, in a process of its own: closed loop (a count of callers) or open loop (Poisson arrivals).

    python load.py <<< '{"port": …, "path": …, "body": "<latin-1>", "content_type": …, "header": …, "callers": 32, "rate": 0, "seconds": 8}'

Prints {"rps", "p50_ms", "p99_ms", "errors", "statuses"}; latency of an open loop counts from the scheduled arrival.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter, deque

WARM_S = 1.0


class Caller(asyncio.Protocol):
    """One connection; a request at a time."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.begun = 0.0
        self._held = b""
        self._waits = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.load.idle(self)

    def ask(self, begun: float) -> None:
        self.begun = begun
        self.transport.write(self.load.request)

    def data_received(self, data: bytes) -> None:
        self._held = self._held + data if self._held else data
        if not self._waits:
            end = self._held.find(b"\r\n\r\n")
            if end < 0:
                return
            at = self._held[:end].lower().find(b"content-length:")
            if at < 0:
                self.load.statuses["no length"] += 1
                self.transport.abort()
                return
            self._waits = end + 4 + int(self._held[at + 15 : end].split(b"\r\n", 1)[0])
        if len(self._held) >= self._waits:
            status = self._held[9:12].decode()
            self._held, self._waits = b"", 0
            self.load.answered(self, status)

    def connection_lost(self, error: Exception | None) -> None:
        self.load.lost(self)


class Load:
    def __init__(self, given: dict[str, object]) -> None:
        body = str(given["body"]).encode("latin-1")
        head = f"POST {given['path']} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {given['content_type']}\r\n{given['header']}content-length: {len(body)}\r\n\r\n"
        self.request = head.encode() + body
        self.port, self.seconds = int(str(given["port"])), float(str(given["seconds"]))
        self.rate, self.callers = float(str(given["rate"])), int(str(given["callers"]))
        self.statuses: Counter[str] = Counter()
        self.taken: list[float] = []
        self.free: deque[Caller] = deque()
        self.waiting: deque[float] = deque()
        self.measured_from = self.end = 0.0
        self.stopped = False
        self.errors = 0

    def idle(self, caller: Caller) -> None:
        if self.stopped:
            return
        if not self.rate:
            caller.ask(time.perf_counter())
        elif self.waiting:
            caller.ask(self.waiting.popleft())
        else:
            self.free.append(caller)

    def answered(self, caller: Caller, status: str) -> None:
        now = time.perf_counter()
        if self.measured_from <= caller.begun and now <= self.end:
            self.statuses[status] += 1
            if status == "200":
                self.taken.append(now - caller.begun)
        caller.begun = 0.0
        self.idle(caller)

    def lost(self, caller: Caller) -> None:
        if self.stopped:
            return
        self.errors += caller.begun > 0
        asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        await asyncio.get_running_loop().create_connection(lambda: Caller(self), "127.0.0.1", self.port)

    async def run(self) -> dict[str, object]:
        start = time.perf_counter()
        self.measured_from, self.end = start + WARM_S, start + WARM_S + self.seconds
        for _ in range(self.callers):
            await self._connect()
        draw, at = random.Random(7), start
        while time.perf_counter() < self.end:
            if not self.rate:
                await asyncio.sleep(0.05)
                continue
            at += draw.expovariate(self.rate)
            pause = at - time.perf_counter()
            if pause > 0:
                await asyncio.sleep(pause)
            if self.free:
                self.free.popleft().ask(at)
            else:
                self.waiting.append(at)
        self.stopped = True
        taken = sorted(self.taken) or [0.0]
        return {
            "rps": len(self.taken) / self.seconds,
            "p50_ms": taken[len(taken) // 2] * 1000,
            "p99_ms": taken[int(len(taken) * 0.99)] * 1000,
            "errors": self.errors,
            "statuses": dict(self.statuses),
        }


if __name__ == "__main__":
    try:
        import uvloop

        factory = uvloop.new_event_loop
    except ImportError:
        factory = asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        print(json.dumps(runner.run(Load(json.load(sys.stdin)).run())))
