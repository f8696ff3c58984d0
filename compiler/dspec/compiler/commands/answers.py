"""`dspec verify BUNDLE --answers FILE`: golden answers and timings made elsewhere, judged here by the bundle's policy."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from dspec.compiler.bundle import check_digests, read_policy
from dspec.compiler.evidence import measurement
from dspec.compiler.fitness import ELSEWHERE
from dspec.compiler.machine import this_machine
from dspec.compiler.statistics import percentile
from dspec.compiler.store import write_whole
from dspec.compiler.verify import check_any, read_answers
from dspec.spec.errors import GateError, MachineError, SpecError
from dspec.spec.records import Case, Manifest, OutputError, Parity


def judge_answers(options: argparse.Namespace) -> int:
    """0 when every golden vector was answered within tolerance; raises GateError E0715 otherwise."""
    manifest = check_digests(options.bundle)
    answers = read_answers(options.answers)
    policy = read_policy(options.bundle)
    cases = _cases(options.bundle, answers, policy["tolerance"])
    check_any(len(cases), options.bundle)
    timings = sorted(float(answer["ms"]) for answer in answers.values() if "ms" in answer)
    if options.output:
        _write(options, manifest, cases)
    outside = [line for case in cases if (line := _outside(case, policy["tolerance"]))]
    if outside:
        raise GateError.of(
            "E0715",
            f"{len(outside)} of {len(cases)} golden vectors are outside tolerance",
            notes=tuple(outside[:10]),
        )
    shown = {f"p{p}": percentile(timings, p / 100) for p in (50, 95, 99)} if timings else {}
    print(
        json.dumps({"ok": True, "vectors": len(cases), "ms": shown})
        if options.format == "json"
        else _words(cases, timings, shown)
    )
    return 0


def _cases(bundle: Path, answers: dict[str, Any], tolerance: dict[str, Any]) -> list[Case]:
    try:
        from dspec.targets.shipped.compare import compare_outputs
        from dspec.targets.shipped.errors import GoldenError
        from dspec.targets.shipped.golden import array_from_json, read_golden
    except ImportError as error:
        raise MachineError.of(
            "E0605", f"comparing answers needs {error.name}", hint="pip install 'dspec[onnxruntime]'"
        ) from error
    cases = []
    try:
        vectors = read_golden(bundle / "golden")
    except GoldenError as error:
        raise SpecError.of("E0717", f"{bundle}: {error}", hint="build the bundle again") from error
    for vector in vectors:
        named = answers.get(vector.id, {"outputs": {}})["outputs"]
        given = {name: array_from_json(packed) for name, packed in named.items()}
        outputs, valid = compare_outputs(vector.outputs, given, tolerance, vector.door)
        cases.append(Case(id=vector.id, kind="fixture", outputs=_errors(outputs), valid=_errors(valid)))
    return cases


def _errors(found: dict[str, Any]) -> dict[str, OutputError]:
    return {name: OutputError.model_validate_json(json.dumps(error)) for name, error in found.items()}


def _outside(case: Case, tolerance: dict[str, Any]) -> str:
    from dspec.targets.shipped.tolerance import broken_by

    reasons = [
        f"{name}: {reason}"
        for name, rule in tolerance.items()
        for reason in broken_by((case.valid if rule.get("valid") else case.outputs)[name].model_dump(mode="json"), rule)
    ]
    return f"{case.id}: {'; '.join(reasons)}" if reasons else ""


def _write(options: argparse.Namespace, manifest: Manifest, cases: list[Case]) -> None:
    name = options.machine or ELSEWHERE
    machine = this_machine(manifest.cores, name).model_copy(
        update={"os": ELSEWHERE, "arch": ELSEWHERE, "cpu": name, "flags": ()}
    )
    parity = Parity(cases=tuple(cases), spread={}, on=name).model_dump(mode="json")
    found = measurement(manifest, machine, {"parity": parity}, {}, golden=True)
    write_whole(options.output, found.model_dump_json(indent=1) + "\n")


def _words(cases: list[Case], timings: list[float], shown: dict[str, float]) -> str:
    times = ", ".join(f"{name} {value:.3g} ms" for name, value in shown.items())
    return f"{len(cases)} golden vectors answered within tolerance" + (
        f"; {times} ({len(timings)} timings)" if times else ""
    )
