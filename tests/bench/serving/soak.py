# mypy: disable-error-code="import-not-found"
"""Hours at 70 % load, in minutes: no error, and resident memory that stays where warm-up left it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from bench import loaded
from servers import Running, interpreter, ours, resident

GROWTH = 0.02


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--minutes", type=float, default=30)
    options = parser.parse_args()
    bundle = options.bundle.resolve()
    python = interpreter(bundle)
    with Running(ours(bundle, python)) as running:
        rate = 0.7 * loaded(running.server, python, 5)["rps"]
        loaded(running.server, python, 20, callers=128, rate=rate)  # settles
        sizes, bad = [resident([running.process.pid, *running.workers()])], 0
        for _ in range(max(2, int(options.minutes * 2))):
            found = loaded(running.server, python, 29, callers=128, rate=rate)
            bad += found["errors"] + sum(count for status, count in found["statuses"].items() if status != "200")
            sizes.append(resident([running.process.pid, *running.workers()]))
            print(
                f"{len(sizes) / 2:.1f} min: {found['rps']:.0f} items/s, p99 {found['p99_ms']:.1f} ms, {sizes[-1] / 2**20:.1f} MiB, {bad} bad",
                flush=True,
            )
    grown = sizes[-1] / sizes[0] - 1
    print(
        f"resident memory {sizes[0] / 2**20:.1f} → {sizes[-1] / 2**20:.1f} MiB ({grown:+.2%}), {bad} bad answers at {rate:.0f} items/s"
    )
    return int(bad > 0 or grown > GROWTH)


if __name__ == "__main__":
    sys.exit(main())
