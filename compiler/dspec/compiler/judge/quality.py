"""The gate over quality: each metric against its limit by its interval, and its loss against PyTorch exactly."""

from __future__ import annotations

from dspec.compiler.judge.question import Question, worst
from dspec.spec.checks_quality import KINDS
from dspec.spec.models import Quality
from dspec.spec.records import GateVerdict, QualityFigure, QualityFound, Verdict

ROUNDING = 1e-9  # of a loss: 0.9 − 0.89 is 0.01 and a little
AGAIN = "the limits may change freely; another metric, field or k is measured with the next build"


def quality(question: Question) -> GateVerdict:
    """Worst of all entries; an entry without a limit is *not asked*, and shown.

    `min` and `max` are about the product, of which the fixtures are a sample: the one-sided 95 % bound must keep them.
    `max_loss` is about this bundle beside PyTorch on the very same fixtures: it is judged as it is, without an interval.
    """
    asked = question.spec.quality
    if not asked:
        return GateVerdict(gate="quality", verdict="not asked", detail=("no `quality` in the spec",))
    limit = "; ".join(f"{_name(entry)} {_limits(entry) or 'no limit'}" for entry in asked)
    found, reason = question.measurement.quality, question.measurement.missing.get("quality", "")
    if found is None or reason:
        limited = any(_limits(entry) for entry in asked)
        verdict: Verdict = "unmeasured" if limited else "not asked"
        return GateVerdict(gate="quality", verdict=verdict, limit=limit, detail=(reason or _unlabelled(question),))
    figures = {(figure.metric, figure.of, figure.k): figure for figure in found.figures}
    pairs = [(entry, figures.get((entry.metric, entry.of, entry.k))) for entry in asked]
    parts = [_judged(entry, figure) for entry, figure in pairs]
    over = "the golden vectors alone" if question.measurement.source == "golden" else "the whole reference"
    return GateVerdict(
        gate="quality",
        verdict=worst([verdict for verdict, _ in parts]),
        measured="; ".join(f"{_name(entry)} {_value(figure)}" for entry, figure in pairs),
        limit=limit,
        detail=(_count(found, over), *(line for _, lines in parts for line in lines)),
    )


def _unlabelled(question: Question) -> str:
    golden = question.measurement.source == "golden"
    return "the golden vectors have no labels" if golden else "no fixture has a label"


def _count(found: QualityFound, over: str) -> str:
    return f"{found.labelled} of {found.fixtures} fixtures have a label, over {over}"


def _name(entry: Quality) -> str:
    return f"{entry.of} {entry.metric.replace('_k', f'_{entry.k}') if entry.k else entry.metric}"


def _limits(entry: Quality) -> str:
    words = [f"≥ {entry.min:g}"] if entry.min is not None else []
    words += [f"≤ {entry.max:g}"] if entry.max is not None else []
    words += [f"loss ≤ {entry.max_loss:g}"] if entry.max_loss is not None else []
    return ", ".join(words)


def _value(figure: QualityFigure | None) -> str:
    if figure is None or figure.value is None:
        return "unmeasured" if figure is None else "broken"
    return f"{figure.value:.4g} (PyTorch {figure.reference:.4g}, n {figure.n})"


def _judged(entry: Quality, figure: QualityFigure | None) -> tuple[Verdict, list[str]]:
    name, limited = _name(entry), bool(_limits(entry))
    if figure is None:
        return "unmeasured" if limited else "not asked", [f"{name}: not measured; {AGAIN}"]
    if figure.value is None:
        return "fail" if limited else "not asked", [f"{name}: {figure.broken}"]
    parts = [_against_limit(entry, figure), _against_reference(entry, figure)]
    asked = [part for part in parts if part]
    lines = [f"{name}: {line}" for _, line in asked]
    lines += [f"{name}: {figure.repeated} more labelled fixtures repeat one that counts"] if figure.repeated else []
    if figure.vacuous:
        asked = [("fail" if verdict == "fail" else "inconclusive", line) for verdict, line in asked]
        lines += [f"{name}: shows nothing: {figure.vacuous}"]
    lines += [f"{name}: worse than with PyTorch: {', '.join(figure.lost)}"] if figure.lost else []
    lines += [f"{name}: furthest from the label: {', '.join(figure.missed)}"] if figure.missed else []
    return (worst([verdict for verdict, _ in asked]) if asked else "not asked"), lines


def _against_limit(entry: Quality, figure: QualityFigure) -> tuple[Verdict, str] | None:
    least = KINDS[entry.metric].bound == "min"
    limit = entry.min if least else entry.max
    if limit is None:
        return None
    lower = -float("inf") if figure.low is None else figure.low
    upper = float("inf") if figure.high is None else figure.high
    verdict: Verdict = "inconclusive"
    if lower >= limit if least else upper <= limit:
        verdict = "pass"
    elif upper < limit if least else lower > limit:
        verdict = "fail"
    interval = f"95 % bounds [{_bound(figure.low)}, {_bound(figure.high)}] over {figure.n} fixtures"
    line = f"{figure.value:.4g}, {interval}, limit {'≥' if least else '≤'} {limit:g}: {verdict}"
    return verdict, line + (
        " (the interval straddles the limit: label more fixtures)" if verdict == "inconclusive" else ""
    )


def _against_reference(entry: Quality, figure: QualityFigure) -> tuple[Verdict, str] | None:
    if entry.max_loss is None:
        return None
    assert figure.value is not None
    assert figure.reference is not None
    sign = 1 if KINDS[entry.metric].bound == "min" else -1
    loss = sign * (figure.reference - figure.value)
    verdict: Verdict = "pass" if loss <= entry.max_loss + ROUNDING * max(1.0, abs(figure.reference)) else "fail"
    same = f"on the same {figure.n} fixtures, {figure.changed} of which count otherwise"
    return (
        verdict,
        f"loss against PyTorch {loss:.4g} {same}, limit ≤ {entry.max_loss:g} (exact, no interval): {verdict}",
    )


def _bound(value: float | None) -> str:
    return "?" if value is None else f"{value:.4g}"
