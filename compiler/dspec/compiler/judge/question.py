"""What a gate is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dspec.spec.models import Gate, Policy, Slo, Spec, Target
from dspec.spec.records import GateVerdict, Interface, Measurement, Verdict

WORST_FIRST: tuple[Verdict, ...] = ("fail", "inconclusive", "unmeasured", "pass", "not asked")


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """The spec's limits for one target, and what was measured of it."""

    spec: Spec
    target: Target
    slo: Slo
    policies: Mapping[str, Policy]
    interface: Interface
    measurement: Measurement

    def unmeasured(self, gate: Gate, limit: str = "") -> GateVerdict | None:
        """The verdict where no number was taken, else None."""
        reason = self.measurement.missing.get(gate)
        return (reason and GateVerdict(gate=gate, verdict="unmeasured", limit=limit, detail=(reason,))) or None


def worst(verdicts: list[Verdict]) -> Verdict:
    """The verdict of a gate with several parts."""
    return min(verdicts, key=WORST_FIRST.index)
