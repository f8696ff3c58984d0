from __future__ import annotations

import math
import random

import pytest
from scipy import stats

from dspec.compiler.statistics import (
    beyond,
    correlation_bounds,
    mean_bounds,
    percentile,
    percentile_bounds,
    share_bounds,
)


def test_percentile_is_the_nearest_rank() -> None:
    values = [float(n) for n in range(1, 101)]
    assert [percentile(values, share) for share in (0.01, 0.5, 0.95, 0.999)] == [1, 50, 95, 100]


def test_bounds_are_the_textbook_order_statistics() -> None:
    # n = 59 is the least sample whose maximum bounds p95 from above with 95 % confidence (0.95^59 < 0.05).
    assert percentile_bounds([float(n) for n in range(59)], 0.95)[1] == 58
    assert percentile_bounds([float(n) for n in range(58)], 0.95)[1] == math.inf


@pytest.mark.parametrize("share", [0.5, 0.9, 0.95])
def test_bounds_cover_the_true_percentile_as_often_as_they_claim(share: float) -> None:
    draw = random.Random(7)
    runs = [percentile_bounds(sorted(draw.random() for _ in range(300)), share) for _ in range(400)]
    assert sum(upper >= share for _, upper in runs) / len(runs) > 0.93
    assert sum(lower <= share for lower, _ in runs) / len(runs) > 0.93
    assert all(lower <= upper for lower, upper in runs)


def test_no_samples_bound_nothing() -> None:
    assert percentile_bounds([], 0.95) == (-math.inf, math.inf)


def test_beyond_counts_samples_past_the_percentile() -> None:
    assert [beyond(400, 0.95), beyond(399, 0.95), beyond(2000, 0.99)] == [20, 19, 20]


def test_mean_bounds_match_students_t() -> None:
    lower, upper = mean_bounds([10.0, 12.0, 11.0, 13.0, 9.0])
    # mean 11, s = 1.5811, t(0.95, 4) = 2.1318 → ± 1.5074
    assert (lower, upper) == pytest.approx((9.4926, 12.5074), abs=0.02)
    assert mean_bounds([1.0]) == (-math.inf, math.inf)


def test_share_bounds_are_clopper_and_pearsons() -> None:
    assert share_bounds(0, 0) == (0.0, 1.0)
    assert share_bounds(1, 3) == pytest.approx(tuple(stats.binomtest(1, 3).proportion_ci(0.9)))
    assert share_bounds(0, 5) == pytest.approx(tuple(stats.binomtest(0, 5).proportion_ci(0.9)))
    assert share_bounds(200, 200) == pytest.approx(tuple(stats.binomtest(200, 200).proportion_ci(0.9)))


def test_correlation_bounds_need_four_pairs_and_hold_at_the_ends() -> None:
    assert correlation_bounds(0.9, 3) == (-1.0, 1.0)
    low, high = correlation_bounds(1.0, 4)
    assert 0.99 < low <= high <= 1.0
