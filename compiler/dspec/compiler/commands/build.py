"""`dspec build`: the flow, then a table of what became of every target."""

from __future__ import annotations

import argparse
import json
import signal
import time
from collections.abc import Callable

from dspec.compiler.build import build
from dspec.compiler.console import progress, show_build
from dspec.compiler.evidence import read_measurement
from dspec.compiler.results import BuildResult
from dspec.compiler.store import Store
from dspec.compiler.summary import build_json
from dspec.spec.errors import MachineError
from dspec.spec.load import load
from dspec.targets import catalogue


class _TimeUp(BaseException):
    """Not an Exception: a build that catches the error of one target must not go on with the next."""


def run(options: argparse.Namespace) -> int:
    start = time.perf_counter()
    try:
        result = _within(options.timeout, lambda: _build(options))
    except _TimeUp:
        hint = "the last progress line names the stage that did not end"
        raise MachineError.of("E0607", f"the build took longer than {options.timeout:g} s", hint=hint) from None
    if options.format == "json":
        print(json.dumps(build_json(result), indent=1))
    else:
        show_build(result, time.perf_counter() - start)
    return result.exit_code


def _build(options: argparse.Namespace) -> BuildResult:
    others = [read_measurement(path) for path in options.evidence]
    loaded = load(options.file, catalogue())
    with progress() as report:
        store = Store(root=options.store.resolve())
        return build(loaded, store, options.bundles, report, others=others, remeasure=options.remeasure)


def _within(seconds: float | None, work: Callable[[], BuildResult]) -> BuildResult:
    def give_up(*_: object) -> None:
        raise _TimeUp

    if not seconds:
        return work()
    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return work()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
