"""Numbers × today's spec × today's date → verdicts. Pure and instant: nothing is run and nothing is cached.

A gate is a function (Question) → GateVerdict; GATES lists them in the order they are shown.
"""

from __future__ import annotations

import datetime

from dspec.compiler.judge import load, parity, start
from dspec.compiler.judge.question import Question
from dspec.compiler.judge.waivers import waive
from dspec.compiler.policy import policies
from dspec.spec.models import Slo, Spec
from dspec.spec.records import GateVerdict, Interface, Measurement

GATES = (
    parity.parity,
    parity.skew,
    load.latency,
    load.throughput,
    start.cold_start,
    start.memory,
    start.smoke,
)


def judge(
    spec: Spec, target: str, interface: Interface, measurement: Measurement, today: datetime.date
) -> tuple[GateVerdict, ...]:
    """One verdict per gate, waivers applied."""
    question = Question(
        spec=spec,
        target=spec.targets[target],
        slo=slo_of(spec, target),
        policies=policies(spec, interface),
        interface=interface,
        measurement=measurement,
    )
    waivers = [waiver for waiver in spec.waivers if waiver.target == target]
    return tuple(waive(gate(question), waivers, today) for gate in GATES)


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
