"""Bounds that numbers are judged by: order statistics for percentiles, Student's t for means, Clopper and Pearson's for shares."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist, mean, stdev

CONFIDENCE = 0.95  # one-sided
T_FEW = (6.31375, 2.91999, 2.35336, 2.13185)  # Student's t, 95 %, for 1 to 4 degrees of freedom
BISECTIONS = 50
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

    Student's t quantile: tabled for up to four degrees of freedom, where the Cornish-Fisher expansion (Abramowitz &
    Stegun 26.7.5), used above, is too narrow.
    """
    if len(values) < 2:
        return -math.inf, math.inf
    z, freedom = NormalDist().inv_cdf(CONFIDENCE), len(values) - 1
    expanded = z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    t = T_FEW[freedom - 1] if freedom <= len(T_FEW) else expanded
    half = t * stdev(values) / math.sqrt(len(values))
    return mean(values) - half, mean(values) + half


def share_bounds(hits: int, n: int) -> tuple[float, float]:
    """One-sided 95 % bounds (lower, upper) of a share; (0, 1) for n = 0.

    Exact, after Clopper and Pearson (*Biometrika* 26, 1934): the share under which so many hits, or more, would come about
    in one of twenty cases. Score intervals promise more than they keep near 0 and 1.
    """
    if n == 0:
        return 0.0, 1.0
    lower = _bisected(lambda share: _at_least(n, hits, share)) if hits else 0.0
    upper = 1 - _bisected(lambda share: _at_least(n, n - hits, share)) if hits < n else 1.0
    return lower, upper


def _at_least(n: int, hits: int, share: float) -> float:
    return math.fsum(_binomial(n, k, share) for k in range(hits, n + 1))


def _bisected(rises: Callable[[float], float]) -> float:
    """Where a rising function of a share reaches what confidence leaves."""
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if rises(middle) < 1 - CONFIDENCE else (low, middle)
    return low


def correlation_bounds(r: float, n: int) -> tuple[float, float]:
    """One-sided 95 % bounds (lower, upper) of Pearson's r; (-1, 1) for fewer than four pairs.

    Fisher's transformation: atanh(r) is nearly normal with variance 1 / (n - 3).
    """
    if n < 4:
        return -1.0, 1.0
    half = NormalDist().inv_cdf(CONFIDENCE) / math.sqrt(n - 3)
    middle = math.atanh(max(-1 + 1e-15, min(1 - 1e-15, r)))
    return math.tanh(middle - half), math.tanh(middle + half)
