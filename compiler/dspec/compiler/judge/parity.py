"""The gate that compares numbers with PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dspec.compiler.judge.question import Question
from dspec.compiler.policy import EXACT
from dspec.spec.models import Policy
from dspec.spec.records import Case, GateVerdict, OutputError, SkewCase, Spread, Verdict
from dspec.targets.shipped.tolerance import broken_by, least_scale, merge, worst

VACUOUS_BELOW = 10  # the reference must vary by this many times what the tolerance lets pass
DOOR = Policy(atol=1e-5, rtol=1e-5)  # the same code prepared both; a library's rounding may differ by a last bit
FLOATS = ("float16", "bfloat16", "float32", "float64")  # everything else is exact: an id has no near neighbours


def parity(question: Question) -> GateVerdict:
    """Every output of every case against its policy; the reference must vary for that to mean anything."""
    if absent := question.unmeasured("parity"):
        return absent
    found = question.measurement.parity
    if found is None:
        return GateVerdict(gate="parity", verdict="unmeasured", detail=("no comparison was made",))
    views = [view(found.cases, name, policy) for name, policy in question.policies.items()]
    spoken = [case for case in found.cases if case.response]
    off = _off_at_door(question, found.cases) | {case.id for case in spoken}
    failing = {case for view in views for case in view.failing} | off
    hard = failing - _spareable(found.cases) | off
    allowed = question.spec.tolerance.max_failing_fixtures
    measured = "; ".join(f"{view.name} {view.summary}" for view in views)
    limit = "; ".join(f"{name} {describe(policy)}" for name, policy in question.policies.items())
    noise = [_noise(name, found.spread.get(name)) for name in question.policies]
    detail = (
        [line for view in views for line in view.lines]
        + _response_lines(spoken)
        + _door_lines(off - {case.id for case in spoken})
        + [line for line in noise if line]
    )
    over = "the golden vectors alone" if question.measurement.source == "golden" else "the whole reference"
    count = (
        f"{len(found.cases)} comparisons over {over} on {found.on}, {len(failing)} cases outside (allowed {allowed})"
    )
    if hard or len(failing) > allowed:
        detail += _varied(question)
        return GateVerdict(gate="parity", verdict="fail", measured=measured, limit=limit, detail=(count, *detail))
    vacuous = [line for name, policy in question.policies.items() if (line := _vacuous(name, policy, found.spread))]
    verdict: Verdict = "inconclusive" if vacuous or not found.cases else "pass"
    return GateVerdict(
        gate="parity",
        verdict=verdict,
        measured=measured,
        limit=limit,
        detail=(count, *vacuous, *detail),
    )


def failing(question: Question) -> frozenset[str]:
    """The cases whose outputs leave their policies, by id."""
    found = question.measurement.parity
    views = [view(found.cases, name, policy) for name, policy in question.policies.items()] if found else []
    return frozenset(case for view in views for case in view.failing)


def _varied(question: Question) -> list[str]:
    """What other options of the same bundle make of some of the failing cases."""
    lines = []
    for words, cases in question.measurement.variations.items():
        off = {case for name, policy in question.policies.items() for case in view(cases, name, policy).failing}
        tried = len({case.id for case in cases})
        lines.append(f"{words}: {len(off)} of {tried} of the failing cases fail")
    return lines


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    name: str
    summary: str
    failing: frozenset[str]
    lines: tuple[str, ...]


def view(cases: Sequence[Case | SkewCase], name: str, policy: Policy) -> View:
    """One output (or input) over every case, held to its policy."""
    pairs = [(case, _error_of(case, name, policy)) for case in cases]
    rules = policy.model_dump(mode="json")
    reasons = {case.id: why for case, error in pairs if (why := broken_by(error.model_dump(mode="json"), rules))}
    frontier = merge([named(case, error) for case, error in pairs])
    lines = [f"{name}: {case}: {'; '.join(why)}" for case, why in list(reasons.items())[:3]]
    if reasons and policy.atol is not None and frontier:
        lines.append(_least(name, policy, frontier))
    if policy.valid:
        everywhere = merge([named(case, error) for case in cases if (error := case.outputs.get(name))])
        lines.append(f"{name}: all positions, the padded ones too: {greatest(everywhere)}")
    return View(
        name=name,
        summary=_summary(policy, frontier, pairs),
        failing=frozenset(reasons),
        lines=tuple(lines),
    )


def _error_of(case: Case | SkewCase, name: str, policy: Policy) -> OutputError:
    part = case.valid if policy.valid and isinstance(case, Case) else case.outputs
    return part.get(name) or OutputError(broken="no comparison was made for this output")


def named(case: Case | SkewCase, error: OutputError) -> list[dict[str, Any]]:
    """The points of an error's frontier, with the case that they are of."""
    return [point.model_dump(mode="json") | {"case": case.id} for point in error.frontier]


def _summary(
    policy: Policy, frontier: list[dict[str, Any]], pairs: Sequence[tuple[Case | SkewCase, OutputError]]
) -> str:
    words = []
    if any(not error.broken for _, error in pairs):
        words.append(greatest(frontier))
    cosines = [error.cosine for _, error in pairs if error.cosine is not None]
    if policy.min_cosine is not None and cosines:
        words.append(f"min cosine {min(cosines):.7f}")
    if policy.min_topk_agreement:
        shares = [error.topk.get(str(policy.min_topk_agreement.k)) for _, error in pairs]
        known = [share for share in shares if share is not None]
        words += [f"min top-{policy.min_topk_agreement.k} agreement {min(known):.3f}"] if known else []
    return ", ".join(words) or "nothing comparable"


def greatest(frontier: list[dict[str, Any]]) -> str:
    """The greatest |difference| and its place, in words."""
    top = max(frontier, key=lambda point: float(point["diff"]), default=None)
    return f"max |Δ| {top['diff']:.3g} at {_place(top)}" if top else "max |Δ| 0"


def _place(point: Mapping[str, Any]) -> str:
    return f"{list(point['index'])} of {point['case']}"


def _least(name: str, policy: Policy, frontier: list[dict[str, Any]]) -> str:
    atol, rtol = policy.atol or 0.0, policy.rtol or 0.0
    share, point = worst(frontier, atol, rtol)
    if point is None:
        return f"{name}: no element differs"
    least = least_scale(frontier, atol, rtol)
    beside = "no rtol would do (a reference of 0 differs)" if math.isinf(least.rtol) else f"rtol {_raised(least.rtol)}"
    return (
        f"{name}: worst element {_place(point)} is {share:.3g} times what is allowed; the least tolerance that would have "
        f"passed: atol {_raised(least.atol)} at rtol {rtol:g}, or {beside} at atol {atol:g}"
    )


def _raised(value: float) -> str:
    """Three significant digits, rounded up: written into the spec, they pass."""
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(value))
    return f"{math.ceil(value * 10**digits * (1 - 1e-12)) / 10**digits:.3g}"


def _noise(name: str, spread: Spread | None) -> str:
    if spread is None:
        return ""
    if spread.noise is None:
        return f"{name}: noise floor of the reference unknown ({spread.noise_reason})"
    return f"{name}: noise floor of the reference itself (float32 against float64): {spread.noise:.3g}"


def _vacuous(name: str, policy: Policy, spreads: dict[str, Spread]) -> str:
    spread = spreads.get(name)
    if spread is None:
        return ""
    if policy.min_cosine is not None and spread.cosine is not None and spread.cosine >= policy.min_cosine:
        return f"{name}: vacuous: two different fixtures already have cosine {spread.cosine:.7f} in PyTorch"
    allowed = (policy.atol or 0.0) + (policy.rtol or 0.0) * spread.magnitude
    if spread.span > VACUOUS_BELOW * allowed and spread.span > 0:
        return ""
    return (
        f"{name}: vacuous: PyTorch's answers vary by only {spread.span:.3g} over the fixtures, and the tolerance lets "
        f"{allowed:.3g} pass; give fixtures (at least two) whose answers differ, or tighten the tolerance"
    )


def _spareable(cases: Sequence[Case]) -> set[str]:
    """Fixtures whose answers are merely too far off: no NaN, nothing missing, not a declared size that fails."""
    return {case.id for case in cases if case.kind == "fixture"} - {
        case.id for case in cases if any(error.broken for error in case.outputs.values())
    }


def _off_at_door(question: Question, cases: Sequence[Case]) -> set[str]:
    rules = {name: _exact_or(DOOR, question, name).model_dump(mode="json") for name in question.interface.inputs}
    return {
        case.id
        for case in cases
        for name, error in case.door.items()
        if broken_by(error.model_dump(mode="json"), rules[name])
    }


def _response_lines(cases: Sequence[Case]) -> list[str]:
    """What is said of responses that the bundle's steps do not account for."""
    return [f"response of {case.id}, call {case.call}: {words}" for case in cases[:3] for words in case.response[:2]]


def _exact_or(policy: Policy, question: Question, name: str) -> Policy:
    return policy if question.interface.inputs[name].dtype in FLOATS else EXACT


def _door_lines(off: set[str]) -> list[str]:
    words = "the bundle's own pipeline feeds the model other tensors than the reference had"
    return [f"{words}: {', '.join(sorted(off)[:3])}"] if off else []


def describe(policy: Policy) -> str:
    """A policy in words: `atol 0.0001, rtol 0.001`."""
    words = [f"{key} {value:g}" for key in ("atol", "rtol") if (value := getattr(policy, key)) is not None]
    words += [] if policy.min_cosine is None else [f"cosine ≥ {policy.min_cosine:g}"]
    if policy.min_topk_agreement:
        words.append(f"top-{policy.min_topk_agreement.k} agreement ≥ {policy.min_topk_agreement.share:g}")
    words += [f"in the values selected from {policy.selects}"] if policy.selects else []
    words += [f"where {policy.valid} is not 0"] if policy.valid else []
    return ", ".join(words)
