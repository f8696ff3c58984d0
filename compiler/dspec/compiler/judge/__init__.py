"""Numbers × today's spec × today's date → verdicts. Pure and instant: nothing is run and nothing is cached.

A gate is a function (Question) → GateVerdict; GATES lists them in the order they are shown.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from dspec.compiler.judge import load, parity, quality, skew, start
from dspec.compiler.judge.question import WORST_FIRST, Question
from dspec.compiler.judge.waivers import waive
from dspec.compiler.policy import policies
from dspec.spec.models import Slo, Spec
from dspec.spec.records import GateVerdict, Interface, Measurement

GATES = (
    parity.parity,
    skew.skew,
    quality.quality,
    load.latency,
    load.throughput,
    start.cold_start,
    start.memory,
    start.smoke,
)


def judge(
    spec: Spec, target: str, interface: Interface, measurements: Sequence[Measurement], today: datetime.date
) -> tuple[GateVerdict, ...]:
    """One verdict per gate, waivers applied.

    Where several machines measured a gate, the worst verdict counts: a pass here does not outweigh a failure there.
    """
    waivers = [waiver for waiver in spec.waivers if waiver.target == target]
    rounds = [_verdicts(spec, target, interface, found) for found in measurements]
    return tuple(waive(_joined(found), waivers, today) for found in zip(*rounds, strict=True))


def unlike_pytorch(spec: Spec, target: str, interface: Interface, measurement: Measurement) -> frozenset[str]:
    """The cases of the parity gate whose outputs leave their policies, by id."""
    return parity.failing(_question(spec, target, interface, measurement))


def _verdicts(spec: Spec, target: str, interface: Interface, measurement: Measurement) -> tuple[GateVerdict, ...]:
    question = _question(spec, target, interface, measurement)
    return tuple(gate(question) for gate in GATES)


def _question(spec: Spec, target: str, interface: Interface, measurement: Measurement) -> Question:
    return Question(
        spec=spec,
        target=spec.targets[target],
        slo=slo_of(spec, target),
        policies=policies(spec, interface),
        interface=interface,
        measurement=measurement,
    )


def _joined(found: Sequence[GateVerdict]) -> GateVerdict:
    measured = [verdict for verdict in found if verdict.verdict != "unmeasured"]
    return min(measured or found, key=lambda verdict: WORST_FIRST.index(verdict.verdict))


def slo_of(spec: Spec, target: str) -> Slo:
    """The spec's SLO with the target's own keys over it."""
    own = spec.targets[target].slo
    return Slo(
        latency_ms=spec.slo.latency_ms | own.latency_ms,
        min_throughput_rps=own.min_throughput_rps or spec.slo.min_throughput_rps,
        cold_start_s=own.cold_start_s or spec.slo.cold_start_s,
    )


def publishable(verdicts: tuple[GateVerdict, ...]) -> bool:
    """Only *pass*, *not asked* and a waiver in force publish."""
    return all(found.verdict in ("pass", "not asked") or found.waived_by for found in verdicts)
