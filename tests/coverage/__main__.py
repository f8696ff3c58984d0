"""`python -m tests.coverage [--only NAME,…] [--runtime NAME,…] [--jobs N]`, from the repository's root.

Exit code 1 where an architecture does not pass, or one that must be refused is not.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import sys
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

from tests.coverage.architectures import ARCHITECTURES, REFUSED
from tests.coverage.prove import Result, prove_alone

RUNTIMES = ("onnxruntime", "executorch")
EVERY = {**ARCHITECTURES, **REFUSED}


def main() -> int:
    options = _options()
    found = _run(options.only, options.runtime, options.jobs)
    print(f"\n| architecture | {' | '.join(options.runtime)} |\n|{'---|' * (len(options.runtime) + 1)}")
    for name in options.only:
        print(f"| {name} | " + " | ".join(_cell(found[name, runtime]) for runtime in options.runtime) + " |")
    for runtime in options.runtime:
        asked = [name for name in options.only if name in ARCHITECTURES]
        passed = sum(found[name, runtime].verdict == "pass" for name in asked)
        seconds = sum(found[name, runtime].seconds for name in asked)
        print(f"{runtime}: {passed} of {len(asked)} pass, {seconds:.0f} s of lowering")
    return 0 if all(_as_owed(result) for result in found.values()) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.coverage", description=__doc__)
    parser.add_argument("--only", type=_names(EVERY), default=list(EVERY), help="architectures, by comma")
    parser.add_argument("--runtime", type=_names(RUNTIMES), default=list(RUNTIMES), help="runtimes, by comma")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    return parser.parse_args()


def _names(known: Collection[str]) -> Callable[[str], list[str]]:
    def read(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",")]
        unknown = [name for name in names if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"no {', '.join(unknown)}; there are {', '.join(known)}")
        return names

    return read


def _run(names: Sequence[str], runtimes: Sequence[str], jobs: int) -> dict[tuple[str, str], Result]:
    """A process that dies takes its pool along: what was not answered is asked again, alone."""
    found: dict[tuple[str, str], Result] = {}
    waiting = list(names)
    while waiting:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(jobs, mp_context=context, max_tasks_per_child=8) as pool:
            futures = {pool.submit(prove_alone, name, EVERY[name], list(runtimes)): name for name in waiting}
            with contextlib.suppress(BrokenProcessPool):
                for future in as_completed(futures):
                    for result in future.result():
                        found[result.name, result.runtime] = result
                        print(f"{result.name} {result.runtime}: {_cell(result)}", file=sys.stderr, flush=True)
        left = [name for name in waiting if (name, runtimes[0]) not in found]
        if len(left) == len(waiting):
            name, left = left[0], left[1:]
            said = "the process died"
            found |= {
                (name, runtime): Result(name=name, runtime=runtime, verdict="crashed", said=said)
                for runtime in runtimes
            }
        waiting, jobs = left, 1
    return found


def _cell(result: Result) -> str:
    took = f", lowered in {result.seconds:.1f} s" if result.seconds else ""
    return f"{result.verdict}: {result.said}{took}"


def _as_owed(result: Result) -> bool:
    return result.verdict == ("refused" if result.name in REFUSED else "pass")


if __name__ == "__main__":
    sys.exit(main())
