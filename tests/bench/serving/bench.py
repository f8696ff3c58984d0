# mypy: disable-error-code="import-not-found"
"""Throughput at saturation, and latency at 70 % of it and at one rate for all, ours and the peers', interleaved; the in-process limit."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from servers import WORDS, Running, Server, interpreter, ours, ours_binary, ours_by_workers, peers, subject

CALLERS, THREADS = 48, 2
LIMIT = """
import json, sys, time
import numpy as np, onnxruntime as ort
options = ort.SessionOptions()
options.intra_op_num_threads, options.inter_op_num_threads = {threads}, 1
options.add_session_config_entry("session.intra_op.allow_spinning", "0")
session = ort.InferenceSession({model!r}, options, providers=["CPUExecutionProvider"])
ids = np.zeros((1, 0), np.int64)
if {kind!r} == "text":
    from tokenizers import Tokenizer
    found = Tokenizer.from_file({tokenizer!r}); found.no_padding(); found.no_truncation()
    ids = np.array([found.encode({text!r}).ids] * {rows}, np.int64)
    feed = dict(input_ids=ids, attention_mask=np.ones_like(ids))
else:
    feed = dict((one.name, np.zeros(({rows}, *one.shape[1:]), np.float32)) for one in session.get_inputs())
one = dict((name, array[:1]) for name, array in feed.items())
def rate(given, rows, seconds):
    for _ in range(5): session.run(None, given)
    start, done = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        session.run(None, given); done += rows
    return done / (time.perf_counter() - start)
print(json.dumps(dict(items=rate(feed, {rows}, {seconds}), one_ms=1000 / rate(one, 1, {seconds}), ids=ids[0].tolist())))
"""


def loaded(server: Server, python: Path, seconds: float, callers: int = CALLERS, rate: float = 0.0) -> dict[str, Any]:
    given = {"port": server.port, "path": server.path, "body": server.body.decode("latin-1"), "content_type": server.content_type,
             "header": server.header, "callers": callers, "rate": rate, "seconds": seconds}  # fmt: skip
    done = subprocess.run(
        [python, Path(__file__).with_name("load.py")],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def limit(bundle: Path, python: Path, seconds: float) -> dict[str, Any]:
    tokenizers, asked = sorted((bundle / "pipeline").rglob("tokenizer.json")), subject(bundle)
    text = LIMIT.format(
        threads=THREADS,
        model=str(bundle / "model/model.onnx"),
        tokenizer=str(tokenizers[0]) if tokenizers else "",
        kind=asked.kind,
        rows=asked.rows,
        text=WORDS,
        seconds=seconds / 2,
    )
    found: dict[str, Any] = json.loads(
        subprocess.run([python, "-c", text], capture_output=True, text=True, check=True).stdout
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only-ours", action="store_true")
    options = parser.parse_args()
    bundle = options.bundle.resolve()
    python = interpreter(bundle)
    first = limit(bundle, python, options.seconds)
    service = ours(bundle, python)
    variants = [service, ours_by_workers(service, THREADS)]
    if first["ids"]:
        variants.append(ours_binary(service, first["ids"]))
    servers = [*variants, *([] if options.only_ours else peers(bundle, THREADS))]
    limits, rps, tails, alike, single = [first], _lists(servers), _lists(servers), _lists(servers), _lists(servers)
    for _ in range(options.rounds):  # interleaved: the machine's moods fall on all alike
        for server in servers:
            with Running(server):
                found = loaded(server, python, options.seconds)
                rps[server.name].append(found["rps"])
                _complain(server, found)
                single[server.name].append(loaded(server, python, options.seconds / 2, callers=1)["p50_ms"])
                time.sleep(0.5)
                tail = loaded(server, python, options.seconds, callers=128, rate=0.7 * found["rps"])
                tails[server.name].append(tail["p99_ms"])
                _complain(server, tail)
        limits.append(limit(bundle, python, options.seconds))
    rate = 0.7 * max(median(rps[server.name]) for server in servers if server not in variants or options.only_ours)
    for _ in range(options.rounds):
        for server in servers:
            with Running(server):
                loaded(server, python, options.seconds / 2)
                time.sleep(0.5)
                tail = loaded(server, python, options.seconds, callers=128, rate=rate)
                alike[server.name].append(tail["p99_ms"])
                _complain(server, tail)
    most, bare = median(one["items"] for one in limits), median(one["one_ms"] for one in limits)
    print(
        f"in-process limit: {most:.0f} items/s at batch {subject(bundle).rows}; one bare call: {bare:.2f} ms; {THREADS} threads, {CALLERS} callers, {options.rounds} rounds"
    )
    print("p99 at 70 %: of each server's own throughput; then of the best peer's, the same for all")
    print(
        f"{'server':24} {'items/s':>8} {'of limit':>9} {'one, p50 ms':>12} {'over bare':>10} {'p99 at 70 %, ms':>16} {f'at {rate:.0f}/s':>10}"
    )
    for server in servers:
        name, items, one = server.name, median(rps[server.name]), median(single[server.name])
        print(
            f"{name:24} {items:8.0f} {items / most:9.2f} {one:12.2f} {one - bare:10.2f} {median(tails[name]):16.1f} {median(alike[name]):10.1f}"
        )


def _lists(servers: list[Server]) -> dict[str, list[float]]:
    return {server.name: [] for server in servers}


def _complain(server: Server, found: dict[str, Any]) -> None:
    if found["errors"] or set(found["statuses"]) != {"200"}:
        print(f"{server.name}: {found['errors']} connections lost, statuses {found['statuses']}", file=sys.stderr)


if __name__ == "__main__":
    main()
