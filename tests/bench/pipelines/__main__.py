"""What a host pipeline costs beside the same calls written by hand with Pillow, tokenizers, soxr or numpy.

Run by hand: `python tests/bench/pipelines [image text audio tabular] [-n 300] [-s 4]`.

Each family is a module beside this file with `cases()`: (name, through dspec, by hand), two functions without arguments over the
same raw request that give the tensors at the model's door, by name. Both must give equal tensors. They alternate call by call, so
that a busy machine burdens both, after a warm-up. The target is a ratio of medians of at most 1.2 per family, as geometric mean of
its cases. A request of under 0.1 ms shows the 10 to 20 µs that any request pays for its checks: its ratio is printed as the worst.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

FAMILIES = ("image", "text", "audio", "tabular")
LIMIT = 1.2
PACKAGES = ("numpy", "pillow", "tokenizers", "soxr", "soundfile", "scipy")
LEAST = 30  # pairs, however long one takes
Call = Callable[[], Mapping[str, Any]]


def machine() -> str:
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    cpu = names[0].partition(": ")[2] if names else platform.processor()
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    return (
        f"{cpu} · {len(os.sched_getaffinity(0))} cores granted · load {load} · {platform.platform()}\n"
        f"CPython {platform.python_version()} · " + " · ".join(f"{name} {_version(name)}" for name in PACKAGES)
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


def check_equal(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """How equal the tensors are; ValueError where they are not."""
    if set(ours) != set(theirs):
        raise ValueError(f"tensors {sorted(ours)} against {sorted(theirs)}")
    most = 0.0
    for name, array in ours.items():
        other = np.asarray(theirs[name])
        if (array.shape, array.dtype) != (other.shape, other.dtype):
            raise ValueError(f"{name}: {array.dtype} {array.shape} against {other.dtype} {other.shape}")
        if array.dtype.kind != "f" and not np.array_equal(array, other):
            raise ValueError(f"{name}: other numbers")
        np.testing.assert_allclose(array, other, rtol=1e-5, atol=1e-5, err_msg=name)
        most = max(most, float(np.abs(array.astype(np.float64) - other).max(initial=0)))
    return "same bits" if most == 0 else f"within {most:.0e}"


def measure(ours: Call, theirs: Call, pairs: int, seconds: float) -> list[tuple[float, float]]:
    """Seconds of both, pair by pair; which goes first alternates."""
    for _ in range(5):
        ours(), theirs()
    found: list[tuple[float, float]] = []
    end = time.perf_counter() + seconds
    gc.disable()
    try:
        while len(found) < pairs and (len(found) < LEAST or time.perf_counter() < end):
            if len(found) % 2:
                mine = _seconds(ours)
                found.append((mine, _seconds(theirs)))
            else:
                other = _seconds(theirs)
                found.append((_seconds(ours), other))
            if len(found) % 50 == 0:
                gc.collect()
    finally:
        gc.enable()
    return found


def _seconds(call: Call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def report(name: str, found: list[tuple[float, float]], equal: str) -> float:
    """Prints one case; the ratio of its medians."""
    mine, other = (statistics.median(pair[at] for pair in found) * 1000 for at in (0, 1))
    low, _, high = statistics.quantiles([one / two for one, two in found], n=4)
    spread = f"pair by pair {low:.2f} to {high:.2f} (quartiles)"
    print(f"  {name:<42} {mine:9.3f} ms {other:9.3f} ms   {mine / other:5.2f}   {spread}, {len(found)} pairs, {equal}")
    return mine / other


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", default=FAMILIES, help=" ".join(FAMILIES))
    parser.add_argument("-n", type=int, default=300, help="pairs of calls per case")
    parser.add_argument("-s", type=float, default=4.0, help="seconds per case, once there are enough pairs")
    asked = parser.parse_args()
    print(machine())
    ratios: dict[str, list[float]] = {}
    for family in asked.families:
        if find_spec(family) is None:
            print(f"{family}: no module {family}.py yet")
            continue
        print(f"{family}: through dspec, by hand, ratio")
        for name, ours, theirs in importlib.import_module(family).cases():
            equal = check_equal(ours(), theirs())
            ratios.setdefault(family, []).append(report(name, measure(ours, theirs, asked.n, asked.s), equal))
    means = {family: statistics.geometric_mean(found) for family, found in ratios.items()}
    for family, found in ratios.items():
        print(
            f"{family:<8} ratio {means[family]:.2f} (geometric mean of {len(found)}, limit {LIMIT:g}), worst {max(found):.2f}"
        )
    return int(any(mean > LIMIT for mean in means.values()))


if __name__ == "__main__":
    raise SystemExit(main())
