"""Structured logs: one JSON object per line on stderr, written a few at a time so that no request waits for a line."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from typing import Any

import orjson

EVERY_S = 0.1
MOST = 256  # lines that wait to be written


class Log:
    """Every line carries time, level, event and the bundle's digest. Used from the event loop alone."""

    def __init__(self, bundle: str) -> None:
        self._bundle = bundle
        self._lines: list[bytes] = []
        self._due: asyncio.TimerHandle | None = None

    def write(self, event: str, level: str = "info", **known: Any) -> None:
        line = {"time": round(time.time(), 3), "level": level, "event": event, "bundle": self._bundle, **known}
        self._lines.append(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE, default=str))
        if level != "info" or len(self._lines) >= MOST:
            self.flush()
        elif self._due is None:
            try:
                self._due = asyncio.get_running_loop().call_later(EVERY_S, self.flush)
            except RuntimeError:  # no loop yet, or no longer
                self.flush()

    def flush(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
        lines, self._lines = b"".join(self._lines), []
        with contextlib.suppress(OSError):  # nobody reads: the service goes on
            while lines:
                lines = lines[os.write(2, lines) :]


class Forward(logging.Handler):
    """What libraries log, as lines of ours."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1]:
            text += f" ({type(record.exc_info[1]).__name__}: {record.exc_info[1]})"
        self._log.write("library", record.levelname.lower(), logger=record.name, message=text)
