"""The gates over load: latency percentiles and throughput, judged by their intervals."""

from __future__ import annotations

import math

from dspec.compiler.judge.question import Question, worst
from dspec.compiler.statistics import (
    MIN_BEYOND,
    beyond,
    mean_bounds,
    percentile,
    percentile_bounds,
)
from dspec.spec.records import GateVerdict, Latency, Verdict


def latency(question: Question) -> GateVerdict:
    """Each percentile: pass when its one-sided 95 % bound lies under the limit, fail when wholly above."""
    limits = question.slo.latency_ms
    words = ", ".join(f"{name} ≤ {limit:g} ms" for name, limit in limits.items())
    found = question.measurement.latency
    if not limits:
        shown = _shown(found, ("p50", "p95", "p99")) if found else ""
        return GateVerdict(
            gate="latency", verdict="not asked", measured=shown, detail=(_conditions(found),) if found else ()
        )
    if absent := question.unmeasured("latency", words):
        return absent
    if found is None:
        return GateVerdict(gate="latency", verdict="unmeasured", limit=words, detail=("no load was run",))
    parts = [_percentile(found, name, limit) for name, limit in limits.items()]
    return GateVerdict(
        gate="latency",
        verdict=worst([verdict for verdict, _ in parts]),
        measured=_shown(found, tuple(limits)),
        limit=words,
        detail=(*(line for _, line in parts), _conditions(found)),
    )


def _percentile(found: Latency, name: str, limit: float) -> tuple[Verdict, str]:
    share, samples = float(name[1:]) / 100, found.sorted_ms
    lower, upper = percentile_bounds(samples, share)
    enough = beyond(len(samples), share) >= MIN_BEYOND
    verdict: Verdict = "inconclusive"
    if found.errors or lower > limit:
        verdict = "fail"
    elif upper <= limit and enough:
        verdict = "pass"
    value = f"{percentile(samples, share):.3g}" if samples else "none"
    interval = f"[{_ms(lower)}, {_ms(upper)}]"
    return (
        verdict,
        f"{name} {value} ms, 95 % bounds {interval} ms, limit {limit:g} ms, {len(samples)} samples: {verdict}"
        + (
            ""
            if enough
            else f" (fewer than {MIN_BEYOND} samples beyond {name}: raise load.rate_rps or load.max_duration_s)"
        )
        + (f" ({found.errors} requests got no answer)" if found.errors else ""),
    )


def _ms(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "?"


def _shown(found: Latency, names: tuple[str, ...]) -> str:
    if not found.sorted_ms:
        return "no answers"
    return ", ".join(f"{name} {percentile(found.sorted_ms, float(name[1:]) / 100):.3g} ms" for name in names)


def _conditions(found: Latency) -> str:
    total = sum(found.stages_ms.values()) or 1.0
    shares = ", ".join(f"{stage} {value / total:.0%}" for stage, value in found.stages_ms.items())
    outside = found.outside_model
    shares += "" if outside is None else f"; outside the model {outside:.0%}"
    return (
        f"open loop, {found.rate_rps:.3g} requests/s for {found.duration_s:g} s, {found.warmup} warm-up requests left out "
        f"({found.warmup_ms:.0f} ms); in the serving process {found.in_process_ms:.3g} ms at the median ({shares})"
    )


def throughput(question: Question) -> GateVerdict:
    """The mean over windows of saturation: pass when its lower 95 % bound reaches the limit."""
    limit, found = question.slo.min_throughput_rps, question.measurement.throughput
    if limit is None:
        shown = f"{_mean(found.windows_rps):.4g} requests/s" if found else ""
        return GateVerdict(gate="throughput", verdict="not asked", measured=shown)
    words = f"≥ {limit:g} requests/s"
    if absent := question.unmeasured("throughput", words):
        return absent
    if found is None:
        return GateVerdict(gate="throughput", verdict="unmeasured", limit=words, detail=("no load was run",))
    lower, upper = mean_bounds(found.windows_rps)
    verdict: Verdict = "pass" if lower >= limit else "fail" if upper < limit else "inconclusive"
    return GateVerdict(
        gate="throughput",
        verdict=verdict,
        measured=f"{_mean(found.windows_rps):.4g} requests/s [{lower:.4g}, {upper:.4g}]",
        limit=words,
        detail=(f"closed loop, {found.in_flight} in flight, {len(found.windows_rps)} windows",),
    )


def _mean(values: tuple[float, ...]) -> float:
    return sum(values) / len(values)
