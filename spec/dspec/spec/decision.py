"""`decision.json`: which candidate a deployment commits to, from which facts, and what would reverse it.

facts      what was stated in the spec and what was measured, per candidate
choice     the argument over the facts of one question, and its outcome
condition  a threshold; the decision stands until one trips with its whole interval
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from dspec.spec.models import Fleet, Frozen
from dspec.spec.records import Verdict

DECISION_SCHEMA = "dspec/decision/v1alpha1"
Comparison = Literal["above", "below", "is not", "is"]


class Interval(Frozen):
    """A measured value between its one-sided 95 % bounds; None: unbounded, there were too few samples."""

    low: float | None
    value: float
    high: float | None


class Option(Frozen):
    """One candidate as facts. `id` is its target, or runtime/engine/variant where `runtime: auto` asked for all.

    `native`: PyTorch itself computes, so there is no second numerical stack. `unreachable`, `blocked`: why it can't run on the
    hardware, why it was not built; empty otherwise.
    """

    id: str
    key: str = Field(description="runtime/engine/variant")
    native: bool
    unreachable: str = ""
    blocked: str = ""
    verdicts: dict[str, Verdict] = Field(default_factory=dict, description="gate → verdict")
    waived: tuple[str, ...] = ()
    throughput_rps: Interval | None = None
    latency_ms: dict[str, Interval] = Field(default_factory=dict)
    outside_model: float | None = Field(None, description="share of the serving process's time that is not the model's")
    size_bytes: int | None = None

    @property
    def runtime(self) -> str:
        return self.key.partition("/")[0]

    @property
    def unproved(self) -> tuple[str, ...]:
        """Gates that hold it back, each with its verdict."""
        held = ("fail", "inconclusive", "unmeasured")
        return tuple(
            f"{gate} {found}" for gate, found in self.verdicts.items() if found in held and gate not in self.waived
        )

    @property
    def eligible(self) -> bool:
        return bool(self.verdicts) and not (self.unreachable or self.blocked or self.unproved)


class Facts(Frozen):
    """What one question is decided from. `own_steps`: steps of the user's own that run on the host."""

    question: str = Field(description="the target with `runtime: auto`, or the hardware that explicit targets share")
    hardware: str
    device: bool = False
    accelerator: bool = False
    fleet: Fleet = Field(default_factory=lambda: Fleet())
    steps: int = 0
    own_steps: tuple[str, ...] = ()
    options: tuple[Option, ...]


class Lost(Frozen):
    """Why a candidate was not taken, the deciding reason first."""

    id: str
    reasons: tuple[str, ...]


class Condition(Frozen):
    """`watches`: a key of the spec, or <candidate>.<figure>. It trips when the whole interval of what it watches lies beyond."""

    id: str
    watches: str
    comparison: Comparison
    threshold: float | str
    unit: str = ""
    words: str


class Replaced(Frozen):
    """The decision that stood before, and which of its conditions tripped."""

    chosen: str
    tripped: tuple[str, ...]


class Choice(Frozen):
    """The outcome of one question; `chosen` is empty where no candidate is proved."""

    facts: Facts
    chosen: str
    reasons: tuple[str, ...]
    arithmetic: tuple[str, ...] = ()
    unweighed: tuple[str, ...] = Field((), description="what could not be weighed, and how the answer would turn on it")
    lost: tuple[Lost, ...] = ()
    consequences: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    replaces: Replaced | None = None


class Decision(Frozen):
    """`decision.json`."""

    schema_version: Literal["dspec/decision/v1alpha1"] = Field("dspec/decision/v1alpha1", alias="schema")
    name: str
    version: str
    choices: tuple[Choice, ...]
