"""The gate that holds the shipped pipeline against the training-time code; what padding changes is a part of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from dspec.compiler.judge.padding import SHOWN, Part, breaks, fixtures, padding
from dspec.compiler.judge.parity import FLOATS, describe, greatest, view
from dspec.compiler.judge.question import Question
from dspec.compiler.policy import EXACT
from dspec.spec.models import Policy, StepUse, Training
from dspec.spec.records import Case, Cause, GateVerdict, OutputError, Parting, Skew, SkewCase
from dspec.targets.shipped.tolerance import merge

NOT_ASKED = "no training.preprocess"


def skew(question: Question) -> GateVerdict:
    """Tensors, responses and padded texts; without a training reference *not asked*, unless padding changes answers."""
    training, found = question.spec.training, question.measurement.skew
    asked = bool(training.preprocess or training.postprocess)
    if found is None and not asked:
        return GateVerdict(gate="skew", verdict="not asked", detail=(NOT_ASKED,))
    if found is None:
        reason = question.measurement.missing.get("skew", "the training-time tensors were not taken here")
        return GateVerdict(gate="skew", verdict="unmeasured", detail=(reason,))
    parts = [*_sides(question, found), padding(question, found)]
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
    lines += _apart_all_the_same(training, [case for case in cases if case.id not in failing], steps)
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


def _where(
    training: Training, off: Sequence[SkewCase], steps: Sequence[StepUse], names: Sequence[str]
) -> Iterator[str]:
    """The first step that differs, where steps were yielded; else the first tensor."""
    yielded = {part.step for case in off for part in case.steps}
    if not yielded:
        yield f"the first that differs: `{names[0]}`; a generator that yields (step id, value) would name the step"
        return
    parting = _first_apart(training, off)
    order = [step for step in steps if step.id in parting]
    for step in order[:SHOWN]:
        yield f"the first step that differs: `{step.id}` ({step.python or step.use}): {_far(parting[step.id])}{_unseen(step, steps, yielded)}"
    if not order:
        missing = ", ".join(f"`{step.id}`" for step in steps if step.id not in yielded) or "none"
        yield f"every step that was yielded agrees; those that were not: {missing}"


def _first_apart(training: Training, cases: Sequence[SkewCase]) -> dict[str, list[tuple[str, Parting]]]:
    """Step → the cases in which it is the first yielded one that differs."""
    parting: dict[str, list[tuple[str, Parting]]] = {}
    for case in cases:
        parts = (part for part in case.steps if breaks(part.error, _policy(training, part.value, part.exact)))
        if first := next(parts, None):
            parting.setdefault(first.step, []).append((case.id, first))
    return parting


def _apart_all_the_same(training: Training, agreeing: Sequence[SkewCase], steps: Sequence[StepUse]) -> Iterator[str]:
    """A step that differs where all that comes of it agrees: no failure, and nothing to keep quiet about."""
    parting = _first_apart(training, agreeing)
    for step in [step for step in steps if step.id in parting][:SHOWN]:
        yield (
            f"note: the step `{step.id}` ({step.python or step.use}) differs, and what comes of it agrees: "
            f"{_far(parting[step.id])}"
        )


def _far(parting: Sequence[tuple[str, Parting]]) -> str:
    """How far one step is off: the worst place, or why there is no number; and on how many fixtures."""
    broken = next((f"{part.error.broken} on {case}" for case, part in parting if part.error.broken), "")
    points = merge(
        [point.model_dump(mode="json") | {"case": case} for point in part.error.frontier] for case, part in parting
    )
    return f"{broken or greatest(points)} ({fixtures(len(parting))})"


def _unseen(step: StepUse, steps: Sequence[StepUse], yielded: set[str]) -> str:
    before = [other.id for other in steps[: list(steps).index(step)] if other.id not in yielded]
    return f"; not yielded before it: {', '.join(f'`{name}`' for name in before)}" if before else ""


def _causes(policies: Mapping[str, Policy], off: Sequence[SkewCase], causes: Sequence[Cause]) -> Iterator[str]:
    exact = {name for name, policy in policies.items() if policy == EXACT}
    matching = [cause for cause in causes if not _left(cause, policies)]
    for cause in matching[:SHOWN]:
        would = " would match" if cause.step else ""
        yield f"likely cause: {cause.what}{would} (tested on {fixtures(len(cause.tried))})"
    if not matching and causes:
        best = causes[0]
        whole = {case.id: case.outputs for case in off}
        was = _most((name, error) for case in best.tried for name, error in whole.get(case, {}).items())
        left = _most((name, error) for name, error in best.outputs.items() if name not in exact or error.frontier)
        yield f"likely part of the cause: {best.what}; the error falls from {was} to {left} (tested on {fixtures(len(best.tried))})"


def _left(cause: Cause, policies: Mapping[str, Policy]) -> bool:
    return any(breaks(error, policies.get(name, EXACT)) for name, error in cause.outputs.items())


def _split(question: Question, found: Skew) -> Iterator[str]:
    """Where the error of an answer comes from: before, in and after the model."""
    training, parity = question.spec.training, question.measurement.parity
    words = []
    if training.preprocess:
        answers = _most(_errors(found.answers)) if found.answers or not found.cases else "not computed"
        over = f" on {fixtures(len(found.answers))}" if found.answers else ""
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
