"""Load: throughput at saturation, then latency under Poisson arrivals that do not wait for answers."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from threading import Lock
from typing import Any

from dspec.compiler.stage import Report
from dspec.spec.errors import DspecError
from dspec.spec.records import Latency, Throughput
from dspec.targets.protocol import Answer, Session

SEED = 20260101
WARMUP = 20
WINDOWS, WINDOW_S = 5, 1.0
IN_FLIGHT = 4
MODEST_RPS = 100.0  # the rate where the spec states none, unless the bundle saturates at less than twice that
REFUSED = "E0806"  # session.py: the bundle is there and would not answer this request
WAITING = 64  # arrivals that may wait in the client; latency counts from the scheduled time all the same

Request = Mapping[str, Any]


def answered(session: Session, request: Request) -> bool:
    """Whether a request was answered. A refusal counts as no answer; a bundle that is gone raises."""
    try:
        session.ask(request)
    except DspecError as error:
        if error.diagnostics[0].code != REFUSED:
            raise
        return False
    return True


def warm_up(session: Session, requests: Sequence[Request]) -> float:
    """Ask WARMUP times; milliseconds it took."""
    start = time.perf_counter()
    for number in range(WARMUP):
        answered(session, requests[number % len(requests)])
    return (time.perf_counter() - start) * 1000


def throughput(session: Session, requests: Sequence[Request], duration_s: float, report: Report) -> Throughput:
    """Requests per second with IN_FLIGHT callers that ask again as soon as they are answered.

    `duration_s`: seconds of load that were asked for; a short load has shorter windows.
    """
    window_s = min(WINDOW_S, duration_s / WINDOWS)
    report(f"throughput: {WINDOWS} windows of {window_s:g} s")
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        windows = [_window(session, requests, pool, number, window_s) for number in range(WINDOWS)]
    return Throughput(windows_rps=tuple(windows), in_flight=IN_FLIGHT)


def _window(
    session: Session, requests: Sequence[Request], pool: ThreadPoolExecutor, number: int, window_s: float
) -> float:
    start = time.perf_counter()
    end = start + window_s

    def caller(offset: int) -> int:
        done = good = 0
        while time.perf_counter() < end:
            good += answered(session, requests[(number * 101 + offset * 17 + done) % len(requests)])
            done += 1
        return good

    good = sum(pool.map(caller, range(IN_FLIGHT)))
    return good / (time.perf_counter() - start)


def arrivals(rate_rps: float, duration_s: float) -> list[float]:
    """Seconds of a Poisson process, the same for the same rate and duration."""
    draw, times, now = random.Random(SEED), [], 0.0
    while (now := now + draw.expovariate(rate_rps)) < duration_s:
        times.append(now)
    return times


def latency(
    session: Session,
    requests: Sequence[Request],
    rate_rps: float,
    duration_s: float,
    warmup_ms: float,
    report: Report,
) -> Latency:
    """Milliseconds from each scheduled arrival to its answer."""
    report(f"latency: {rate_rps:.3g} requests/s for {duration_s:.0f} s")
    order = random.Random(SEED)
    schedule = [(at, requests[order.randrange(len(requests))]) for at in arrivals(rate_rps, duration_s)]
    samples = _Samples()
    waiting = []
    start = time.perf_counter() + 0.05
    with ThreadPoolExecutor(WAITING) as pool:
        for at, request in schedule:
            time.sleep(max(0.0, start + at - time.perf_counter()))
            waiting.append(pool.submit(samples.take, session, request, start + at))
    for future in waiting:
        future.result()  # what a caller did not expect is an error here, never a sample less
    return Latency(
        rate_rps=rate_rps,
        duration_s=duration_s,
        warmup=WARMUP,
        warmup_ms=round(warmup_ms, 3),
        sorted_ms=tuple(sorted(round(value, 4) for value in samples.milliseconds)),
        stages_ms=samples.stages(),
        in_process_ms=round(median(samples.in_process), 4) if samples.in_process else 0.0,
        errors=samples.errors,
    )


class _Samples:
    """What the callers saw; filled from several threads."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.milliseconds: list[float] = []
        self.in_process: list[float] = []
        self.per_stage: dict[str, list[float]] = {}
        self.errors = 0

    def take(self, session: Session, request: Request, scheduled: float) -> None:
        try:
            answer = session.ask(request)
        except DspecError as error:
            if error.diagnostics[0].code != REFUSED:
                raise
            with self.lock:
                self.errors += 1
            return
        self._add((time.perf_counter() - scheduled) * 1000, answer)

    def _add(self, milliseconds: float, answer: Answer) -> None:
        with self.lock:
            self.milliseconds.append(milliseconds)
            self.in_process.append(sum(answer.seconds.values()) * 1000)
            for stage, seconds in answer.seconds.items():
                self.per_stage.setdefault(stage, []).append(seconds * 1000)

    def stages(self) -> dict[str, float]:
        return {stage: round(median(values), 4) for stage, values in self.per_stage.items()}
