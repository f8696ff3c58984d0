"""Bounds that numbers are judged by: order statistics for percentiles, Student's t for means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, mean, stdev

CONFIDENCE = 0.95  # one-sided
MIN_BEYOND = 20  # samples that must lie beyond a percentile before it is believed


def percentile(ordered: Sequence[float], share: float) -> float:
    """The nearest-rank percentile of ascending values: the ⌈share·n⌉-th."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def percentile_bounds(ordered: Sequence[float], share: float) -> tuple[float, float]:
    """One-sided 95 % bounds (lower, upper) of a percentile from ascending samples; infinite where n is too small.

    The count of samples below the true percentile is Binomial(n, share); the k-th order statistic is an upper bound
    when P(count < k) ≥ 0.95 (David & Nagaraja, *Order Statistics*, section 7.1). Samples of one load run are not
    independent, so that the bound is a little tight; the arrivals' fixed seed makes runs comparable.
    """
    n = len(ordered)
    cumulative, lower, upper = 0.0, -math.inf, math.inf
    for k in range(1, n + 1):
        cumulative += _binomial(n, k - 1, share)  # P(count ≤ k − 1)
        if cumulative <= 1 - CONFIDENCE:
            lower = ordered[k - 1]
        if cumulative >= CONFIDENCE:
            upper = ordered[k - 1]
            break
    return lower, upper


def _binomial(n: int, k: int, share: float) -> float:
    log = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(log + k * math.log(share) + (n - k) * math.log1p(-share))


def beyond(n: int, share: float) -> int:
    """How many of n samples lie beyond the percentile."""
    return math.floor(n * (1 - share) + 1e-9)


def mean_bounds(values: Sequence[float]) -> tuple[float, float]:
    """One-sided 95 % bounds (lower, upper) of a mean; infinite for fewer than two values.

    Student's t quantile by the Cornish-Fisher expansion (Abramowitz & Stegun 26.7.5).
    """
    if len(values) < 2:
        return -math.inf, math.inf
    z, freedom = NormalDist().inv_cdf(CONFIDENCE), len(values) - 1
    t = z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    half = t * stdev(values) / math.sqrt(len(values))
    return mean(values) - half, mean(values) + half
