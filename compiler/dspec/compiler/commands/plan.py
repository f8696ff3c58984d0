"""`dspec plan`: candidates, places, limits and defaults of a spec, before anything is built."""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from dspec.compiler.console import table
from dspec.compiler.defaults import Default
from dspec.compiler.plan import Plan, Route, StepPlace, plan
from dspec.spec.load import Loaded, load
from dspec.spec.records import GateVerdict
from dspec.spec.render import render
from dspec.targets import catalogue

STEP_HEADINGS = ("step", "use", "runs", "why", "reads", "writes", "gives", "requires")
GATE_HEADINGS = ("gate", "asked", "limit")


def run(options: argparse.Namespace) -> int:
    """0: every target that must be served can be; 2: the spec is wrong, or a runtime refuses what it asks."""
    known = catalogue()
    loaded = load(options.file, known)
    found = plan(loaded, known, datetime.date.today())
    if options.format == "json":
        print(json.dumps(plan_json(found, loaded), indent=1, ensure_ascii=False))
    else:
        print("\n".join(_text(found, loaded)))
    return 2 if found.refused else 0


def plan_json(found: Plan, loaded: Loaded) -> dict[str, Any]:
    """The plan as plain JSON values."""
    return {
        "name": found.name,
        "version": found.version,
        "targets": {route.target: _route_json(route) for route in found.routes},
        "steps": [asdict(step) for step in found.steps],
        "door": found.door.model_dump(mode="json", include={"inputs", "outputs"}),
        "asked": list(found.asked),
        "answered": list(found.answered),
        "tolerance": dict(found.tolerance),
        "defaults": [asdict(one) for one in found.defaults],
        "warnings": [one.to_json() for one in loaded.warnings],
    }


def _route_json(route: Route) -> dict[str, Any]:
    return {
        "runtime": route.runtime,
        "hardware": route.hardware,
        "optional": route.optional,
        "resources": {"cores": route.cores, "memory": route.memory},
        "candidates": [
            {
                "key": candidate.key,
                "reasons": list(candidate.reasons),
                "artifacts": [{"builder": one.builder, "options": dict(one.options)} for one in candidate.artifacts],
            }
            for candidate in route.candidates
        ],
        "refused": [one.to_json() for one in route.refused],
        "slo": route.slo.model_dump(mode="json"),
        "gates": {gate.gate: _gate_json(gate) for gate in route.gates},
    }


def _gate_json(gate: GateVerdict) -> dict[str, Any]:
    return {"asked": _asked(gate), "limit": gate.limit, "waived_by": gate.waived_by}


def _asked(gate: GateVerdict) -> bool:
    return gate.verdict != "not asked"


def _text(found: Plan, loaded: Loaded) -> Iterator[str]:
    if loaded.warnings:
        yield render(loaded.warnings, "text") + "\n"
    yield f"{found.name}, version {found.version}"
    for route in found.routes:
        yield from _route(route, found)
        yield from _steps(found, route, found.routes[0])
    yield "\ndefaults taken"
    yield from (f"  {line}" for line in _defaults(found.defaults))


def _route(route: Route, found: Plan) -> Iterator[str]:
    grants = f"{route.cores} {'core' if route.cores == 1 else 'cores'}"
    grants += f", {route.memory / 2**20:.0f} MiB" if route.memory else ""
    optional = ", optional" if route.optional else ""
    yield f"\ntarget {route.target}: {route.runtime} on {route.hardware}, {grants}{optional}"
    for number, candidate in enumerate(route.candidates):
        yield f"  {'takes' if number == 0 else 'or'} {candidate.key}: {'; '.join(candidate.reasons)}"
        for wanted in candidate.artifacts:
            said = ", ".join(f"{key} {value}" for key, value in wanted.options.items() if value)
            yield f"    builds {wanted.builder}{f' ({said})' if said else ''}"
    if route.refused:
        yield f"  refused by runtime {route.runtime}:"
        yield _indented(render(route.refused, "text"))
    rows = [_gate_row(gate, found) for gate in route.gates]
    yield _indented(table(GATE_HEADINGS, rows))


def _gate_row(gate: GateVerdict, found: Plan) -> tuple[str, str, str]:
    asked = "yes" if _asked(gate) else "no"
    if gate.waived_by:
        asked = f"waived by {gate.waived_by}"
    limit = gate.limit.replace("; ", "\n") or ("" if _asked(gate) else "; ".join(gate.detail))
    if gate.gate == "parity" and not found.tolerance:
        limit = "by dtype, for each output that capture finds"
    return gate.gate.replace("_", " "), asked, limit


def _steps(found: Plan, route: Route, first: Route) -> Iterator[str]:
    """A step runs in the same place for every target: it is told once."""
    if route is not first:
        yield f"  steps as for {first.target}"
        return
    if len(found.steps) == 1:
        yield "  steps: none, a request is the model's own inputs"
        return
    yield "  steps"
    yield _indented(_indented(table(STEP_HEADINGS, [_step_row(step) for step in found.steps])))
    for side, ports in (("enters", found.door.inputs), ("leaves", found.door.outputs)):
        if any(step.place == "graph" and step.section != "model" for step in found.steps):
            words = (f"{name} {port.dtype} [{', '.join(map(str, port.shape))}]" for name, port in ports.items())
            yield f"    {side} the graph: {', '.join(words)}"
    if found.asked:
        yield f"    the caller asks the bundle with: {', '.join(found.asked)}"
        yield f"    and takes from its response: {', '.join(found.answered)}"


def _step_row(step: StepPlace) -> tuple[str, ...]:
    lists = ("\n".join(step.writes), "\n".join(step.gives), ", ".join(step.requires))
    return (step.id, step.use, step.place, step.why, ", ".join(step.reads), *lists)


def _defaults(every: tuple[Default, ...]) -> Iterator[str]:
    """`key = value`, or what the absence of a key means; what is simply not there is not told."""
    for one in every:
        if one.means:
            yield f"{one.key}: {one.means}"
        elif not one.empty:
            yield f"{one.key} = {json.dumps(one.value, ensure_ascii=False)}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" if line else "" for line in text.split("\n"))
