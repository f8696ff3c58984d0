"""The soak sees a process that grows, and one that settles: real memory of this process."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from dspec.compiler.measure.cases import Expected
from dspec.compiler.measure.soak import ROUNDS, of_many_sizes, soak
from dspec.targets.protocol import Answer


class Hoarder:
    """A session that keeps `kept` bytes a call."""

    pids = (os.getpid(),)
    together = 1
    facts: Mapping[str, str] = {}

    def __init__(self, kept: int) -> None:
        self.kept = kept
        self.hoard: list[Any] = []

    def run(self, tensors: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.kept:  # pages of its own: an array may come to lie in memory that an earlier test gave back
            pages = mmap.mmap(-1, self.kept)
            pages.write(b"\1" * self.kept)
            self.hoard.append(pages)
        return {}

    def ask(self, request: Mapping[str, Any], *, tensors: bool = False, company: int = 1) -> Answer:
        raise NotImplementedError

    def close(self) -> None: ...


def case(size: int) -> Expected:
    return Expected(id=str(size), kind="shape", request=None, inputs={"x": np.zeros((1, size))}, outputs={})


def test_a_process_that_hoards_grows_in_every_round() -> None:
    found = soak(Hoarder(2**20), [case(size) for size in (2, 3, 4, 5)], print)
    assert len(found) == ROUNDS
    assert found[-1] - found[ROUNDS // 2] > (ROUNDS // 2 - 1) * 3 * 2**20


def test_a_process_that_keeps_nothing_settles() -> None:
    found = soak(Hoarder(0), [case(size) for size in (2, 3, 4, 5)], print)
    assert found[-1] - found[ROUNDS // 2] < 2**21


def test_one_size_needs_no_soak() -> None:
    assert soak(Hoarder(0), of_many_sizes([case(3), case(3)]), print) == ()
