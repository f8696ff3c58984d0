# mypy: disable-error-code="import-not-found"
"""A Triton bundle of examples/minilm against a Triton Python model written by hand: same server, session, settings, cores.

    python tests/bench/serving/triton.py BUNDLE [--seconds 8] [--rounds 3]

Both servers stand while either is asked, in turn. Limits: at least 0.9 of the throughput, and a p99 at 70 % of it that is no worse.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent))
from bench import loaded
from servers import HERE, WORDS, Server, interpreter

from dspec.targets.protocol import Environment
from dspec.targets.triton.laid_out import laid_out
from dspec.targets.triton.server import Server as Triton

CALLERS, OPEN_CALLERS, LIMIT = 48, 128, 0.9
TEXT = {"name": "text", "shape": [1, 1], "datatype": "BYTES", "data": [WORDS]}
BODY = json.dumps({"inputs": [TEXT], "outputs": [{"name": "embedding"}]}).encode()


def asked(name: str, model: str, port: int) -> Server:
    return Server(name=name, command=(), port=port, path=f"/v2/models/{model}/infer", body=BODY, ready="", folder=HERE, variables={})  # fmt: skip


def by_hand(bundle: Path, threads: int, folder: Path) -> dict[str, str]:
    """The repository of the hand-written model in `folder`; the variables that it reads."""
    shutil.copytree(HERE / "peers" / "triton_hand", folder / "hand", ignore=shutil.ignore_patterns("__pycache__"))
    (tokenizer,) = (bundle / "pipeline").rglob("tokenizer.json")
    manifest = json.loads((bundle / "bundle.json").read_text())
    model = bundle / manifest["model"]["path"]
    return {"BUNDLE": str(bundle), "MODEL": str(model), "TOKENIZER": str(tokenizer), "THREADS": str(threads)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    bundle = options.bundle.resolve()
    python, cpus = interpreter(bundle), tuple(sorted(os.sched_getaffinity(0)))
    manifest = json.loads((bundle / "bundle.json").read_text())
    environment = Environment(python=python, cpus=cpus)
    with ExitStack() as held:
        repository = held.enter_context(laid_out(bundle))
        folder = Path(held.enter_context(tempfile.TemporaryDirectory())) / "repository"
        variables = by_hand(bundle, manifest["options"]["intra_op_threads"], folder)
        ours = Triton(repository, environment, extra=("--disable-auto-complete-config",))
        held.callback(ours.close, gently=False)
        hand = Triton(folder, environment, environ=variables)
        held.callback(hand.close, gently=False)
        servers = [asked("dspec", manifest["name"], ours.http), asked("by hand", "hand", hand.http)]
        rates, tails = measured(servers, python, options.rounds, options.seconds)
    for server in servers:
        print(f"{server.name:8} {median(rates[server.name]):7.1f} items/s  p99 at 70 % {median(tails[server.name]):7.1f} ms   "
              f"rounds {' '.join(f'{rate:.0f}' for rate in rates[server.name])}")  # fmt: skip
    ratio, tail = (median(values["dspec"]) / median(values["by hand"]) for values in (rates, tails))
    print(f"throughput {ratio:.2f} of the hand-written model's (limit {LIMIT:g}), p99 {tail:.2f} (limit 1)")
    return int(ratio < LIMIT or tail > 1)


def measured(servers: list[Server], python: Path, rounds: int, seconds: float) -> tuple[dict[str, list[float]], ...]:
    """Items per second at saturation, and the p99 in ms with Poisson arrivals at 70 % of each one's own, round by round."""
    rates: dict[str, list[float]] = {server.name: [] for server in servers}
    tails: dict[str, list[float]] = {server.name: [] for server in servers}
    for number in range(rounds):
        for server in servers if number % 2 else servers[::-1]:
            found = loaded(server, python, seconds, callers=CALLERS)
            tail = loaded(server, python, seconds, callers=OPEN_CALLERS, rate=0.7 * found["rps"])
            for one in (found, tail):
                if one["errors"] or set(one["statuses"]) != {"200"}:
                    raise SystemExit(f"{server.name}: {one['errors']} connections lost, statuses {one['statuses']}")
            rates[server.name].append(found["rps"])
            tails[server.name].append(tail["p99_ms"])
    return rates, tails


if __name__ == "__main__":
    raise SystemExit(main())
