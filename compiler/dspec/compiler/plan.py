"""`dspec plan`: what a build would do, before it does anything. Reads the spec alone; nothing of the user's runs."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dspec.compiler.defaults import Default, defaults
from dspec.compiler.judge import judge, slo_of
from dspec.compiler.judge.parity import describe
from dspec.compiler.judge.skew import limit as skew_limit
from dspec.compiler.lower import imported_by
from dspec.compiler.offered import offered
from dspec.compiler.owed import in_words
from dspec.compiler.policy import policies
from dspec.spec import flows
from dspec.spec.boundary import boundary, owing
from dspec.spec.catalogue import Catalogue, Value
from dspec.spec.doors import doors
from dspec.spec.errors import Diagnostic, DspecError
from dspec.spec.fit import describe as kind_of
from dspec.spec.load import Loaded
from dspec.spec.models import GATES, Slo, Spec, StepUse
from dspec.spec.pysource import parsed
from dspec.spec.records import GateVerdict, Interface, Machine, Measurement
from dspec.targets import catalogue as known_catalogue
from dspec.targets.protocol import Candidate

Section = Literal["preprocess", "model", "postprocess"]
NOT_YET = "0" * 64  # the digest of what no build has made


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """One target: the candidates in the order its runtime prefers them, or why there is none; and its limits.

    `gates` are verdicts before anything was measured: `unmeasured` is asked of the build, with its limit; `not asked` is not.
    """

    target: str
    runtime: str
    hardware: str
    optional: bool
    cores: int
    memory: int | None
    candidates: tuple[Candidate, ...]
    refused: tuple[Diagnostic, ...]
    slo: Slo
    gates: tuple[GateVerdict, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class StepPlace:
    """Where one step runs and why, what it reads and writes, and the distributions it needs there.

    `gives` holds, for each value written, kind, dtype, shape of one item and range, as far as the spec tells. The model
    stands among the steps, in a section of its own.
    """

    section: Section
    id: str
    use: str
    place: str
    why: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    gives: tuple[str, ...]
    requires: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """`door`: what enters and leaves the graph; `tolerance`: what leaves it → its policy in words; empty until capture finds it.

    `asked`, `answered`: what crosses from the caller to the bundle and back, in words, where the caller does some steps.
    """

    name: str
    version: str
    routes: tuple[Route, ...]
    steps: tuple[StepPlace, ...]
    door: Interface
    tolerance: Mapping[str, str]
    defaults: tuple[Default, ...]
    asked: tuple[str, ...] = ()
    answered: tuple[str, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether a target can't be served as the spec asks."""
        return any(route.refused for route in self.routes)


def plan(loaded: Loaded, catalogue: Catalogue, today: datetime.date) -> Plan:
    """The plan of a valid spec; a target's refusals stand at its route, at lines of the spec. Waivers count by `today`."""
    spec = loaded.spec
    door = doors(spec, catalogue).interface(spec)
    found = policies(spec, door)
    return Plan(
        name=spec.name,
        version=spec.version,
        routes=tuple(_route(loaded, target_id, today) for target_id in spec.targets),
        steps=tuple(_steps(loaded, catalogue)),
        door=door,
        tolerance={output: describe(policy) for output, policy in found.items()},
        defaults=defaults(loaded),
        **_crossing(spec, catalogue),
    )


def _crossing(spec: Spec, catalogue: Catalogue) -> dict[str, tuple[str, ...]]:
    if not owing(spec):
        return {}
    found = boundary(spec, catalogue)
    fields = {name: field.model_dump() for name, field in found.request.items()}
    return {
        "asked": tuple(f"{name} {in_words(field)}" for name, field in fields.items()),
        "answered": tuple(found.response),
    }


def _route(loaded: Loaded, target_id: str, today: datetime.date) -> Route:
    spec = loaded.spec
    target = spec.targets[target_id]
    candidates, refused = _candidates(loaded, target_id)
    return Route(
        target=target_id,
        runtime=target.runtime,
        hardware=target.hardware,
        optional=target.optional,
        cores=target.resources.cores,
        memory=target.resources.memory,
        candidates=candidates,
        refused=refused,
        slo=slo_of(spec, target_id),
        gates=_gates(spec, target_id, today),
    )


def _candidates(loaded: Loaded, target_id: str) -> tuple[tuple[Candidate, ...], tuple[Diagnostic, ...]]:
    try:
        return offered(loaded, target_id), ()
    except DspecError as error:
        return (), error.diagnostics


def _gates(spec: Spec, target_id: str, today: datetime.date) -> tuple[GateVerdict, ...]:
    interface = doors(spec, known_catalogue()).interface(spec)
    found = policies(spec, interface)
    limits = {
        "parity": "; ".join(f"{output} {describe(policy)}" for output, policy in found.items()),
        "skew": skew_limit(spec.training),
    }
    gates = judge(spec, target_id, interface, (_nothing(target_id),), today)
    return tuple(
        gate.model_copy(update={"limit": limits[gate.gate]})
        if gate.gate in limits and gate.verdict != "not asked"
        else gate
        for gate in gates
    )


def _nothing(target_id: str) -> Measurement:
    """The measurement of a machine that measured nothing: judging it tells what each gate asks."""
    return Measurement(
        artifact=NOT_YET,
        reference=NOT_YET,
        target=target_id,
        candidate="",
        machine=Machine(os="", arch="", cpu="", flags=(), cores=1),
        versions={},
        source="reference",
        missing=dict.fromkeys(GATES, "measured by `dspec build`"),
    )


def _steps(loaded: Loaded, catalogue: Catalogue) -> Iterator[StepPlace]:
    spec = loaded.spec
    before, after = flows.before(spec, catalogue), flows.after(spec, catalogue)
    yield from _section(loaded, catalogue, "preprocess", spec.preprocess, before)
    yield StepPlace(
        section="model",
        id="(the model)",
        use=spec.model.factory,
        place="graph",
        why="",
        reads=tuple(spec.model.inputs),
        writes=tuple(spec.model.outputs),
        gives=tuple(_kind(after[name], tensor.range) for name, tensor in spec.model.outputs.items()),
        requires=(),
    )
    yield from _section(loaded, catalogue, "postprocess", spec.postprocess, after)


def _section(
    loaded: Loaded, catalogue: Catalogue, section: Section, steps: tuple[StepUse, ...], values: Mapping[str, Value]
) -> Iterator[StepPlace]:
    for number, step in enumerate(steps):
        declared = loaded.sources.node((section, number, "place")) is not None
        yield StepPlace(
            section=section,
            id=step.id,
            use=step.python or step.use,
            place=step.place,
            why="declared" if declared else "default",
            reads=step.inputs,
            writes=step.outputs,
            gives=tuple(_kind(values[name], values[name].range) for name in step.outputs),
            requires=_requires(step, catalogue, loaded.folder) if step.place == "host" else (),
        )


def _kind(value: Value, bounds: tuple[float, float] | None) -> str:
    return kind_of(value) + (f" from {bounds[0]:g} to {bounds[1]:g}" if bounds else "")


def _requires(step: StepUse, catalogue: Catalogue, folder: Path) -> tuple[str, ...]:
    names = set(catalogue.steps[step.use].requires)
    if step.python:
        file = folder / step.python.partition(":")[0]
        names |= imported_by(file) if parsed(file) else set()
    return tuple(sorted(names))
