"""The processes that a server started, so that none of them outlives it. Linux."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

GONE_S = 3.0  # a stub whose server ended ends by itself within this, or is ended


def descendants(pid: int) -> tuple[int, ...]:
    """The processes below `pid`, itself left out."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        with contextlib.suppress(OSError, ValueError):  # it ended meanwhile
            for folder in Path(f"/proc/{waiting.pop()}/task").iterdir():
                children = [int(child) for child in (folder / "children").read_text().split()]
                found += children
                waiting += children
    return tuple(sorted(set(found)))


def started(pid: int) -> str:
    """When the process began, as the kernel counts; a number used again began at another time. Empty: it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    return "" if fields[0] in ("Z", "X") else fields[19]


def end_all(known: dict[int, str], within_s: float = GONE_S) -> None:
    """Wait for these processes (number → when they began) to end; end those that do not."""
    end = time.monotonic() + within_s
    left = dict(known)
    while left and time.monotonic() < end:
        left = {pid: began for pid, began in left.items() if started(pid) == began}
        if left:
            time.sleep(0.02)
    for pid, began in left.items():
        if started(pid) == began:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
