"""The part of the skew gate that needs no training-time code: a text padded is answered as it is alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dspec.compiler.judge.parity import greatest, named
from dspec.compiler.judge.question import Question
from dspec.compiler.policy import BY_DTYPE
from dspec.spec.models import Policy
from dspec.spec.records import Case, OutputError, Skew
from dspec.targets.shipped.tolerance import broken_by, merge

SHOWN = 3  # of what a verdict names: steps, causes, padded texts
CHANGES = "padding changes the answer"


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One side of the model, or the padding: what was measured, which fixtures fail, and what to say of it."""

    measured: tuple[str, ...] = ()
    failing: frozenset[str] = frozenset()
    lines: tuple[str, ...] = ()


def padding(question: Question, found: Skew) -> Part:
    """A text padded, as in a batch with a longer one, must be answered as it is alone."""
    if not found.padding:
        return Part()
    broken = [
        (case.id, f"{CHANGES}: {name} of {case.id}: {'; '.join(why)}")
        for case in found.padding
        for name, error in case.outputs.items()
        if (why := breaks(error, _of_answers(question, name)))
    ]
    if not broken:
        return Part(lines=(_alike(found.padding, found.mask),))
    lines = (*[line for _, line in broken][:SHOWN], _remedy(found.mask))
    return Part(measured=(CHANGES,), failing=frozenset(case for case, _ in broken), lines=lines)


def _alike(cases: Sequence[Case], mask: str) -> str:
    points = merge(named(case, error) for case in cases for error in case.outputs.values())
    by = f"`{mask}`" if mask else "the model takes no mask"
    return f"padded and alone, {fixtures(len(cases))} are answered alike ({by}): {greatest(points)}"


def _remedy(mask: str) -> str:
    why, remedy = (
        "the model takes no mask, so that it can't tell padding from text",
        "give it one (outputs: [ids, mask])",
    )
    if mask:
        why = f"the model does not keep to `{mask}` (or the padding's side or id is another than in training)"
        remedy = "mask the padded positions"
    return f"{why}: a request is answered otherwise in a batch than alone; {remedy}, or declare padding: none"


def breaks(error: OutputError, policy: Policy) -> list[str]:
    """What of the policy the error breaks, in words."""
    return broken_by(error.model_dump(mode="json"), policy.model_dump(mode="json"))


def fixtures(count: int) -> str:
    """The count in words."""
    return f"{count} fixture{'s' if count != 1 else ''}"


def _of_answers(question: Question, name: str) -> Policy:
    """The parity gate's tolerance, without what would need more than the two answers.

    An output of the model alone, which a step in the graph replaced, has that of floats.
    """
    found = question.policies.get(name) or question.spec.tolerance.default or BY_DTYPE["float32"]
    if found.selects:  # where indices point is held by the output that they select from
        return Policy()
    return Policy(atol=found.atol, rtol=found.rtol, min_cosine=found.min_cosine)
