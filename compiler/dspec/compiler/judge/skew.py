"""The gate that holds the shipped pipeline against the training-time code, and texts padded against texts alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dspec.compiler.judge.parity import FLOATS, describe, greatest, named, view
from dspec.compiler.judge.question import Question
from dspec.compiler.policy import BY_DTYPE, EXACT
from dspec.spec.models import Policy, StepUse, Training
from dspec.spec.records import Case, Cause, GateVerdict, OutputError, Parting, Skew, SkewCase
from dspec.targets.shipped.tolerance import broken_by, merge

NOT_ASKED = "no training.preprocess"
SHOWN = 3  # steps, causes and padded texts that a verdict names


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One side of the model, or the padding: what was measured, which fixtures fail, and what to say of it."""

    measured: tuple[str, ...] = ()
    failing: frozenset[str] = frozenset()
    lines: tuple[str, ...] = ()


def skew(question: Question) -> GateVerdict:
    """Tensors, responses and padded texts; without a training reference *not asked*, unless padding changes answers."""
    training, found = question.spec.training, question.measurement.skew
    asked = bool(training.preprocess or training.postprocess)
    if found is None and not asked:
        return GateVerdict(gate="skew", verdict="not asked", detail=(NOT_ASKED,))
    if found is None:
        reason = question.measurement.missing.get("skew", "the training-time tensors were not taken here")
        return GateVerdict(gate="skew", verdict="unmeasured", detail=(reason,))
    parts = [*_sides(question, found), _padding(question, found)]
    failed = any(part.failing for part in parts)
    lines = tuple(line for part in parts for line in part.lines)
    return GateVerdict(
        gate="skew",
        verdict="fail" if failed else "pass" if asked else "not asked",
        measured="; ".join(words for part in parts for words in part.measured),
        limit=limit(training) if asked else "",
        detail=(*lines, *_split(question, found)) if asked else (NOT_ASKED, *lines),
    )


def limit(training: Training) -> str:
    """The tolerances in words."""
    own = [f"{name} {describe(Policy(**close.model_dump()))}" for name, close in training.tensors.items()]
    return "; ".join((describe(Policy(atol=training.atol, rtol=training.rtol)), *own))


def _sides(question: Question, found: Skew) -> Iterator[Part]:
    spec = question.spec
    if spec.training.preprocess:
        causes = [cause for cause in found.causes if cause.side == "preprocess"]
        yield _side(question, "preprocess", found.cases, causes, spec.preprocess)
    if spec.training.postprocess:
        causes = [cause for cause in found.causes if cause.side == "postprocess"]
        yield _side(question, "postprocess", found.responses, causes, spec.postprocess)


def _side(
    question: Question, side: str, cases: Sequence[SkewCase], causes: Sequence[Cause], steps: Sequence[StepUse]
) -> Part:
    training = question.spec.training
    names = list(dict.fromkeys(name for case in cases for name in case.outputs))
    policies = {name: _policy(training, name, _is_exact(question, cases, name)) for name in names}
    views = [view([case for case in cases if name in case.outputs], name, policies[name]) for name in names]
    failing = frozenset(case for one in views for case in one.failing)
    off = [case for case in cases if case.id in failing]
    lines = [f"{side}: {len(failing)} of {len(cases)} fixtures differ"]
    if off:
        lines += _where(training, off, steps, [one.name for one in views if one.failing])
        lines += _causes(policies, off, causes)
        lines += [line for one in views for line in one.lines]
    return Part(measured=tuple(f"{one.name} {one.summary}" for one in views), failing=failing, lines=tuple(lines))


def _is_exact(question: Question, cases: Sequence[SkewCase], name: str) -> bool:
    declared = question.spec.model.inputs  # the model's own, whatever is fused with it
    if name in declared and declared[name].dtype in FLOATS:
        return False
    return all(name in case.exact for case in cases if name in case.outputs)


def _policy(training: Training, name: str, exact: bool) -> Policy:
    """Its own tolerance, or the one for floats; whole numbers and texts have no near neighbours."""
    own = training.tensors.get(name) or training.tensors.get(re.split(r"[.\[]", name)[0])
    if own:
        return Policy(atol=own.atol, rtol=own.rtol)
    return EXACT if exact else Policy(atol=training.atol, rtol=training.rtol)


def _breaks(error: OutputError, policy: Policy) -> list[str]:
    return broken_by(error.model_dump(mode="json"), policy.model_dump(mode="json"))


def _where(
    training: Training, off: Sequence[SkewCase], steps: Sequence[StepUse], names: Sequence[str]
) -> Iterator[str]:
    """The first step that differs, where steps were yielded; else the first tensor."""
    yielded = {part.step for case in off for part in case.steps}
    if not yielded:
        yield f"the first that differs: `{names[0]}`; a generator that yields (step id, value) would name the step"
        return
    parting: dict[str, list[tuple[str, Parting]]] = {}
    for case in off:
        first = next(
            (part for part in case.steps if _breaks(part.error, _policy(training, part.value, part.exact))), None
        )
        if first:
            parting.setdefault(first.step, []).append((case.id, first))
    order = [step for step in steps if step.id in parting]
    for step in order[:SHOWN]:
        yield f"the first step that differs: `{step.id}` ({step.python or step.use}): {_far(parting[step.id])}{_unseen(step, steps, yielded)}"
    if not order:
        missing = ", ".join(f"`{step.id}`" for step in steps if step.id not in yielded) or "none"
        yield f"every step that was yielded agrees; those that were not: {missing}"


def _far(parting: Sequence[tuple[str, Parting]]) -> str:
    """How far one step is off: the worst place, or why there is no number; and on how many fixtures."""
    broken = next((f"{part.error.broken} on {case}" for case, part in parting if part.error.broken), "")
    points = merge(
        [point.model_dump(mode="json") | {"case": case} for point in part.error.frontier] for case, part in parting
    )
    return f"{broken or greatest(points)} ({_count(len(parting))})"


def _unseen(step: StepUse, steps: Sequence[StepUse], yielded: set[str]) -> str:
    before = [other.id for other in steps[: list(steps).index(step)] if other.id not in yielded]
    return f"; not yielded before it: {', '.join(f'`{name}`' for name in before)}" if before else ""


def _causes(policies: Mapping[str, Policy], off: Sequence[SkewCase], causes: Sequence[Cause]) -> Iterator[str]:
    exact = {name for name, policy in policies.items() if policy == EXACT}
    matching = [cause for cause in causes if not _left(cause, policies)]
    for cause in matching[:SHOWN]:
        would = " would match" if cause.step else ""
        yield f"likely cause: {cause.what}{would} (tested on {_count(len(cause.tried))})"
    if not matching and causes:
        best = causes[0]
        whole = {case.id: case.outputs for case in off}
        was = _most((name, error) for case in best.tried for name, error in whole.get(case, {}).items())
        left = _most((name, error) for name, error in best.outputs.items() if name not in exact or error.frontier)
        yield f"likely part of the cause: {best.what}; the error falls from {was} to {left} (tested on {_count(len(best.tried))})"


def _left(cause: Cause, policies: Mapping[str, Policy]) -> bool:
    return any(_breaks(error, policies.get(name, EXACT)) for name, error in cause.outputs.items())


def _count(fixtures: int) -> str:
    return f"{fixtures} fixture{'s' if fixtures != 1 else ''}"


def _split(question: Question, found: Skew) -> Iterator[str]:
    """Where the error of an answer comes from: before, in and after the model."""
    training, parity = question.spec.training, question.measurement.parity
    words = []
    if training.preprocess:
        answers = _most(_errors(found.answers)) if found.answers or not found.cases else "not computed"
        over = f" on {_count(len(found.answers))}" if found.answers else ""
        words.append(f"preprocessing {_most(_errors(found.cases))}, in the answers {answers}{over}")
    if parity:
        words.append(f"model {_most(_errors(parity.cases))}")
    words.append(f"postprocessing {_most(_errors(found.responses)) if training.postprocess else 'not asked'}")
    yield f"the error, split: {'; '.join(words)}"


def _errors(cases: Iterable[SkewCase | Case]) -> Iterator[tuple[str, OutputError]]:
    return (pair for case in cases for pair in case.outputs.items())


def _most(errors: Iterable[tuple[str, OutputError]]) -> str:
    found = [(name, error) for name, error in errors]
    points = [(point.diff, name) for name, error in found for point in error.frontier]
    diff, name = max(points, default=(0.0, ""))
    broken = next((f"{name}: {error.broken}" for name, error in found if error.broken), "")
    return broken or (f"max |Δ| {diff:.3g} ({name})" if name else "max |Δ| 0")


def _padding(question: Question, found: Skew) -> Part:
    """A text padded, as in a batch with a longer one, must be answered as it is alone."""
    if not found.padding:
        return Part()
    lines: list[str] = []
    failing = set()
    for case in found.padding:
        for name, error in case.outputs.items():
            if why := _breaks(error, _of_answers(question, name)):
                failing.add(case.id)
                lines.append(f"padding changes the answer: {name} of {case.id}: {'; '.join(why)}")
    if failing:
        remedy = (
            f"the model does not keep to `{found.mask}` (or the padding's side or id is another than in training): a request "
            "is answered otherwise in a batch than alone; mask the padded positions, or declare padding: none"
        )
        lines = [*lines[:SHOWN], remedy]
        return Part(measured=("padding changes the answer",), failing=frozenset(failing), lines=tuple(lines))
    points = merge(named(case, error) for case in found.padding for error in case.outputs.values())
    line = f"padded and alone, {_count(len(found.padding))} are answered alike (`{found.mask}`): {greatest(points)}"
    return Part(lines=(line,))


def _of_answers(question: Question, name: str) -> Policy:
    """The parity gate's tolerance, without what would need more than the two answers.

    An output of the model alone, which a step in the graph replaced, has that of floats.
    """
    found = question.policies.get(name) or question.spec.tolerance.default or BY_DTYPE["float32"]
    if found.selects:  # where indices point is held by the output that they select from
        return Policy()
    return Policy(atol=found.atol, rtol=found.rtol, min_cosine=found.min_cosine)
