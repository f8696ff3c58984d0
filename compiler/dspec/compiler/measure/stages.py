"""The measuring stages, as the compiler runs them in a child: `proof` (parity, smoke, cold start) and `load`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from dspec.compiler.measure import load as loads
from dspec.compiler.measure.cases import Expected, golden_cases, reference_cases
from dspec.compiler.measure.heard import Heard, Overheard, quality_found
from dspec.compiler.measure.parity import Responses, Wanted, parity_cases
from dspec.compiler.measure.smoke import smoke
from dspec.compiler.measure.soak import of_many_sizes, resident_memory, soak
from dspec.compiler.quality.labelled import Asked
from dspec.compiler.stage import Report
from dspec.spec.records import Parity
from dspec.targets import runtime
from dspec.targets.protocol import Environment, Session
from dspec.targets.shipped.pipeline import Pipeline

STARTS = 3
REQUESTS = 256  # fixtures the load draws from, held in memory


def prove(request: Any, places: Any, inputs: Mapping[str, Path], out: Path, report: Report) -> dict[str, Any]:
    """Stage `proof`. Value: the parts of a Measurement that need no load."""
    bundle = Path(places["bundle"])
    manifest = json.loads((bundle / "bundle.json").read_text())
    environment = environment_of(places)
    first = next(cases_of(bundle, inputs))
    starts = [_cold_start(manifest, bundle, environment, first) for _ in range(STARTS)]
    heard = Heard.of_bundle(bundle, asked := Asked.read(request["quality"]))
    held = Responses(Pipeline.load(bundle / "pipeline"))
    with open_session(manifest, bundle, environment) as session:
        overheard = Overheard(session=session, heard=heard)
        asked_of = heard.cases(cases_of(bundle, inputs))
        cases = tuple(parity_cases(overheard, asked_of, Wanted.read(request), report, session, responses=held))
        resident = soak(session, of_many_sizes(cases_of(bundle, inputs)), report)
        facts, peak = dict(session.facts), peak_memory(session.pids)
    report("smoke test in the clean environment")
    quality = quality_found(heard, asked, inputs)
    parity = Parity(
        cases=cases,
        spread=_index(inputs).get("spread", {}),
        on=facts.get("provider", manifest["engine"]),
    )
    return {
        "value": {
            "parity": parity.model_dump(mode="json"),
            "quality": quality.model_dump(mode="json") if quality else None,
            "cold_start_s": starts,
            "peak_memory_bytes": peak,
            "soak_bytes": list(resident),
            "smoke": smoke(bundle, _smoke_request(bundle, inputs), environment),
            "facts": facts,
        }
    }


def load(request: Any, places: Any, inputs: Mapping[str, Path], out: Path, report: Report) -> dict[str, Any]:
    """Stage `load`. Value: throughput, latency and peak memory under that load."""
    bundle = Path(places["bundle"])
    manifest = json.loads((bundle / "bundle.json").read_text())
    cases = (case.request for case in cases_of(bundle, inputs) if case.request is not None)
    requests = list(islice(cases, REQUESTS))
    with open_session(manifest, bundle, environment_of(places)) as session:
        warmup_ms = loads.warm_up(session, requests)
        throughput = loads.throughput(session, requests, request["duration_s"], report)
        rate = request["rate_rps"] or min(loads.MODEST_RPS, median(throughput.windows_rps) / 2)
        latency = loads.latency(session, requests, rate, request["duration_s"], warmup_ms, report)
        peak = peak_memory(session.pids)
    return {
        "value": {
            "throughput": throughput.model_dump(mode="json"),
            "latency": latency.model_dump(mode="json"),
            "peak_memory_bytes": peak,
        }
    }


def cases_of(bundle: Path, inputs: Mapping[str, Path]) -> Iterator[Expected]:
    fields = json.loads((bundle / "pipeline" / "pipeline.json").read_text())["request"]
    return reference_cases(inputs["reference"], fields) if "reference" in inputs else golden_cases(bundle, fields)


def _index(inputs: Mapping[str, Path]) -> dict[str, Any]:
    if "reference" not in inputs:
        return {}
    found: dict[str, Any] = json.loads((inputs["reference"] / "index.json").read_text())
    return found


def _smoke_request(bundle: Path, inputs: Mapping[str, Path]) -> Path:
    """A file with one raw request in JSON form."""
    if "reference" not in inputs:
        golden = bundle / "golden"
        first: str = json.loads((golden / "index.json").read_text())["fixtures"][0]["folder"]
        return golden / first / "request.json"
    file = inputs["reference"] / "smoke-request.json"
    file.write_text(json.dumps(_index(inputs)["fixtures"][0]["request"]))
    return file


def environment_of(places: Any) -> Environment:
    return Environment(python=Path(places["python"]), cpus=tuple(places["cpus"]))


@contextmanager
def open_session(manifest: Mapping[str, Any], bundle: Path, environment: Environment) -> Iterator[Session]:
    session = runtime(manifest["runtime"]).open(bundle, environment)
    try:
        yield session
    finally:
        session.close()


def _cold_start(manifest: Mapping[str, Any], bundle: Path, environment: Environment, first: Expected) -> float:
    start = time.perf_counter()
    with open_session(manifest, bundle, environment) as session:
        if first.request is not None:
            loads.answered(session, first.request)
        return round(time.perf_counter() - start, 4)


def peak_memory(pids: Iterable[int]) -> int | None:
    """Peak resident bytes so far: each process's own peak, added up; None where the system does not tell."""
    return resident_memory(pids, "VmHWM")
