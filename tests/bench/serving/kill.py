# mypy: disable-error-code="import-not-found"
"""A worker is killed every 5 s under load: every request gets an answer, 200 or a clean 503."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from bench import loaded
from servers import Running, interpreter, ours

EVERY_S = 5.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--seconds", type=float, default=30)
    options = parser.parse_args()
    bundle = options.bundle.resolve()
    python = interpreter(bundle)
    with Running(ours(bundle, python)) as running:
        over = threading.Event()
        killed: list[int] = []
        threading.Thread(target=_kill, args=(running, over, killed), daemon=True).start()
        found = loaded(running.server, python, options.seconds)
        over.set()
    print(
        f"{len(killed)} workers killed in {options.seconds:g} s: statuses {found['statuses']}, {found['errors']} connections lost"
    )
    return int(found["errors"] > 0 or not set(found["statuses"]) <= {"200", "503"})


def _kill(running: Running, over: threading.Event, killed: list[int]) -> None:
    while not over.wait(EVERY_S):
        for pid in running.workers():
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
        time.sleep(0)


if __name__ == "__main__":
    sys.exit(main())
