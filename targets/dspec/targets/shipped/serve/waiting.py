"""Items that wait for the model, and which of them run together."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable

from .batch import WASTE
from .intake import Item

COMPANY_S = 0.2


class Waiting:
    """Filled by the thread that prepares, emptied by the one that runs the model.

    `backlog` counts requests that have arrived and are not prepared yet: only for those does a batch wait.
    """

    def __init__(self, most: int, delay_s: float) -> None:
        self._most, self._delay_s = most, delay_s
        self._items: deque[Item] = deque()
        self._changed = threading.Condition()
        self._backlog = 0

    def arrived(self, count: int) -> None:
        with self._changed:
            self._backlog += count

    def prepared(self, items: Iterable[Item]) -> None:
        """One request less to prepare, its items more to run."""
        with self._changed:
            self._backlog -= 1
            self._items.extend(items)
            self._changed.notify()

    def take(self) -> list[Item]:
        """The oldest item and others that may run with it; waits while there is none."""
        with self._changed:
            while not self._items:
                self._changed.wait()
            last = time.monotonic() + self._delay_s
            while self._backlog and len(self._items) < self._most and (left := last - time.monotonic()) > 0:
                self._changed.wait(left)
            self._gather()
            return self._chosen()

    def _gather(self) -> None:
        """For the company that a traced request is measured in."""
        pending = self._items[0].pending
        last = pending.ready + COMPANY_S
        while len(self._items) < min(pending.company, self._most) and (left := last - time.monotonic()) > 0:
            self._changed.wait(left)

    def _chosen(self) -> list[Item]:
        oldest = self._items[0]
        fitting = [item for item in self._items if item.key == oldest.key]
        if oldest.length:
            fitting.sort(key=lambda item: abs(item.length - oldest.length))  # stable, and the oldest differs by 0
        chosen, rows, longest, total = [oldest], oldest.rows, oldest.length, oldest.rows * oldest.length
        for item in fitting:
            if item is oldest:
                continue
            if rows + item.rows > self._most:
                break
            longer, more = max(longest, item.length), total + item.rows * item.length
            if longer * (rows + item.rows) > WASTE * more:
                continue
            chosen.append(item)
            rows, longest, total = rows + item.rows, longer, more
        if len(chosen) == len(self._items):
            self._items.clear()
        else:
            gone = set(map(id, chosen))
            self._items = deque(item for item in self._items if id(item) not in gone)
        return chosen
