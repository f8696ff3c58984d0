"""Soak: whether the serving process settles, or grows with every round of varying sizes."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from dspec.compiler.measure.cases import Expected
from dspec.compiler.stage import Report
from dspec.targets.protocol import Session

SIZES = 32  # different sizes in a round
ROUNDS = 8
SECONDS = 20.0  # no round starts later: a slow model is soaked less


def of_many_sizes(cases: Iterable[Expected]) -> list[Expected]:
    """The first case of each size, at most SIZES."""
    found: dict[tuple[tuple[int, ...], ...], Expected] = {}
    for case in cases:
        if len(found) == SIZES:
            break
        found.setdefault(tuple(array.shape for array in case.inputs.values()), case)
    return list(found.values())


def soak(session: Session, cases: list[Expected], report: Report) -> tuple[int, ...]:
    """Resident bytes of the serving process after each round over the cases; () where sizes do not vary.

    Row 104 of the faults: an arena that keeps a block per size, or a plan per size, grows without end.
    """
    if len(cases) < 2:
        return ()
    report(f"soak: rounds over {len(cases)} sizes")
    resident: list[int] = []
    end = time.perf_counter() + SECONDS
    while len(resident) < ROUNDS and time.perf_counter() < end:
        for case in cases:
            session.run(case.inputs)
        found = resident_memory(session.pids)
        if found is None:
            return ()
        resident.append(found)
    return tuple(resident)


def resident_memory(pids: Iterable[int], line: str = "VmRSS") -> int | None:
    """Resident bytes of all the processes together; None where the system does not tell. `line`: of /proc/PID/status."""
    total = 0
    for pid in pids:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return None
        found = [text.split()[1] for text in status.splitlines() if text.startswith(f"{line}:")]
        if not found:
            return None
        total += int(found[0]) * 1024
    return total
