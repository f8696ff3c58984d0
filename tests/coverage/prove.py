"""One architecture through dspec's own stages: capture once, then lower and hold against PyTorch for each runtime."""

from __future__ import annotations

import datetime
import json
import os
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.coverage.architectures import Architecture
from tests.coverage.project import TARGET, write

TODAY = datetime.date(2026, 11, 30)


@dataclass(frozen=True, kw_only=True)
class Result:
    """`verdict`: pass, fail, inconclusive, or refused. `seconds`: of lowering."""

    name: str
    runtime: str
    verdict: str
    said: str
    seconds: float = 0.0


def prove_alone(name: str, architecture: Architecture, runtimes: Sequence[str]) -> list[Result]:
    """`prove` in a folder and a process of its own, whose output is nobody's."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    with tempfile.TemporaryDirectory(prefix="dspec-coverage-") as folder:
        return prove(name, architecture, runtimes, Path(folder))


def prove(name: str, architecture: Architecture, runtimes: Sequence[str], folder: Path) -> list[Result]:
    """Whatever goes wrong is a result."""
    from dspec.spec.errors import DspecError

    def stopped(runtime: str, error: Exception) -> Result:
        first = error.diagnostics[0] if isinstance(error, DspecError) else None
        place = f"{Path(first.file).name}:{first.line} " if first and first.file else ""
        said = f"{place}{first.code} {first.message}" if first else f"{type(error).__name__}: {error}"
        verdict = "refused" if first else "crashed"
        return Result(name=name, runtime=runtime, verdict=verdict, said=" ".join(said.split())[:300])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            captured = _capture(architecture, runtimes[0], folder)
        except Exception as error:
            return [stopped(runtime, error) for runtime in runtimes]
        found = []
        for runtime in runtimes:
            try:
                found.append(_proved(name, architecture, runtime, folder, captured))
            except Exception as error:
                found.append(stopped(runtime, error))
        return found


def _capture(architecture: Architecture, runtime: str, folder: Path) -> dict[str, Any]:
    from dspec.compiler import stages
    from dspec.compiler.captured import capture_stage
    from dspec.compiler.pipeline import write_pipeline
    from dspec.spec.load import load
    from dspec.targets import catalogue

    loaded = load(write(architecture, runtime, folder / "project"), catalogue(), today=TODAY)
    write_pipeline(loaded.spec, loaded.folder, folder / "pipeline")
    asking = stages.capture_stage(loaded, ())
    (folder / "captured").mkdir()
    request = json.loads(json.dumps(asking.request))
    return capture_stage(request, asking.places, {"pipeline": folder / "pipeline"}, folder / "captured", _silent)


def _silent(text: str) -> None: ...


def _proved(name: str, architecture: Architecture, runtime: str, folder: Path, captured: Mapping[str, Any]) -> Result:
    from dspec.compiler import stages
    from dspec.compiler.golden import write_golden_vectors
    from dspec.compiler.lower import build_artifact, lower_target
    from dspec.compiler.seal import seal
    from dspec.compiler.stage import Outcome
    from dspec.compiler.store import describe
    from dspec.spec.load import load
    from dspec.spec.records import Reference
    from dspec.targets import catalogue

    loaded = load(write(architecture, runtime, folder / "project"), catalogue(), today=TODAY)
    candidate = stages.candidate_of(loaded.spec, loaded.spec.targets[TARGET])
    (wanted,) = candidate.artifacts
    program = {"program": folder / "captured" / "program"}
    start = time.perf_counter()
    made = build_artifact(
        stages.artifact_stage(wanted, ()).request, {}, program, folder / f"artifact-{runtime}", _silent
    )
    outcome = Outcome(tree=(), value=made["value"], warnings=(), hit=False)
    bundle = folder / f"bundle-{runtime}"
    bundle.mkdir()
    given = {**program, "pipeline": folder / "pipeline", "artifact0": folder / f"artifact-{runtime}"}
    request = stages.lower_stage(loaded.spec, TARGET, candidate, (), (), (outcome,)).request
    lowered = lower_target(json.loads(json.dumps(request)), {}, given, bundle, _silent)
    seconds = time.perf_counter() - start
    reference = folder / "captured" / "reference"
    golden = {
        "reference": reference,
        "unfused": reference,
        "pipeline": bundle / "pipeline",
        "whole": bundle / "pipeline",
    }
    write_golden_vectors(
        stages.golden_stage(loaded.spec, (), (), unfused=(), whole=()).request, {}, golden, bundle, _silent
    )
    origin = Reference.model_validate_json(json.dumps(captured["value"]["reference"]))
    manifest = seal(bundle, describe(bundle), loaded.spec, TARGET, candidate, lowered["value"], origin)
    verdict = _judged(loaded, manifest, bundle, reference)
    extra = ""
    if runtime == "executorch":
        facts = made["value"]["facts"]
        left = ", ".join(sorted({one["operator"] for one in facts["refused"]}))
        extra = f"; {facts['delegated_flops']:.0%} delegated" + (f" without {left}" if left else "")
    said = verdict.measured if verdict.verdict == "pass" else " ".join((verdict.measured, *verdict.detail[:3]))
    return Result(name=name, runtime=runtime, verdict=verdict.verdict, said=(said + extra)[:300], seconds=seconds)


def _judged(loaded: Any, manifest: Any, folder: Path, reference: Path) -> Any:
    """The verdict of the parity gate, over fixtures and shape points, each asked twice."""
    from dspec.compiler import stages
    from dspec.compiler.evidence import measurement
    from dspec.compiler.judge import judge
    from dspec.compiler.machine import this_machine
    from dspec.compiler.measure.cases import reference_cases
    from dspec.compiler.measure.parity import Responses, Wanted, parity_cases
    from dspec.compiler.policy import policies
    from dspec.targets.shipped.runner import Bundle

    bundle = Bundle(folder)
    wanted = Wanted.read(stages.figures(policies(loaded.spec, manifest.interface)))
    cases = reference_cases(reference, bundle.pipeline.fields)
    compared = parity_cases(_InProcess(bundle), cases, wanted, _silent, responses=Responses(bundle.pipeline))
    parity = {
        "cases": [case.model_dump(mode="json") for case in compared],
        "spread": json.loads((reference / "index.json").read_text())["spread"],
        "on": bundle.facts["provider"],
    }
    found = measurement(manifest, this_machine(manifest.cores), {"parity": parity}, {}, golden=False)
    return judge(loaded.spec, TARGET, manifest.interface, (found,), TODAY)[0]


class _InProcess:
    """A `Session` over a bundle of this process."""

    pids: tuple[int, ...] = ()
    together = 1

    def __init__(self, bundle: Any) -> None:
        self.bundle, self.facts = bundle, bundle.facts

    def ask(self, request: Mapping[str, Any], *, tensors: bool = False, company: int = 1) -> Any:
        from dspec.targets.protocol import Answer

        found = self._answered(lambda: self.bundle.ask(request))
        return Answer(response=found.response, inputs=found.door, outputs=found.outputs, seconds=found.seconds)

    def run(self, tensors: Mapping[str, Any]) -> Any:
        return self._answered(lambda: self.bundle.run(tensors))

    def _answered(self, call: Any) -> Any:
        from dspec.spec.errors import GateError
        from dspec.targets.shipped.errors import BundleError, RequestError

        try:
            return call()
        except (RequestError, BundleError) as error:
            raise GateError.of("E0806", str(error)) from error

    def close(self) -> None: ...
