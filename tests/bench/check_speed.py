"""How long `dspec check` of the examples takes beside a bare import of what it stands on.

Run by hand: `make bench`.

Both commands alternate in one run, so that a busy machine burdens both. The target is a ratio of
medians of at most 3.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMIT = 3.0
PACKAGES = ("dspec", "pydantic", "ruamel.yaml", "rich")


def seconds(command: list[str]) -> float:
    """Wall-clock seconds of one run, which must succeed."""
    start = time.perf_counter()
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def describe(name: str, taken: list[float]) -> str:
    quarter = statistics.quantiles(taken, n=4)
    low, middle, high = (1000 * value for value in quarter)
    spread = f"quartiles {low:.1f} to {high:.1f}, least {1000 * min(taken):.1f}"
    return f"{name:<6} median {middle:6.1f} ms   {spread}"


def machine() -> str:
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    packages = " · ".join(f"{name} {version(name)}" for name in PACKAGES)
    system = f"{platform.platform()} · {os.cpu_count()} cores · load {load}"
    return f"{system}\nCPython {platform.python_version()} · {packages}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=25, help="repetitions of each command")
    repetitions: int = parser.parse_args().n
    examples = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("examples/*/deploy.yaml"))
    check = [str(Path(sys.executable).with_name("dspec")), "check", *examples]
    bare = [sys.executable, "-c", "import pydantic, ruamel.yaml"]
    print(machine())
    print(f"check: dspec check {' '.join(examples)}")
    print("bare:  python -c 'import pydantic, ruamel.yaml'")
    for command in (check, bare):  # bytecode and the file cache
        seconds(command)
    pairs = [(seconds(check), seconds(bare)) for _ in range(repetitions)]
    checks, bares = ([pair[i] for pair in pairs] for i in (0, 1))
    print(describe("check", checks), describe("bare", bares), sep="\n")
    ratio = statistics.median(checks) / statistics.median(bares)
    each = sorted(one / other for one, other in pairs)
    pairwise = f"pair by pair {each[0]:.2f} to {each[-1]:.2f}, {repetitions} pairs"
    print(f"ratio of medians {ratio:.2f} (limit {LIMIT:g}); {pairwise}")
    return int(ratio > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
