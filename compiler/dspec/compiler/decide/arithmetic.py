"""Replicas, their price, and the load from which a second numerical stack pays for itself. A reader can check it by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dspec.spec.decision import Interval, Option
from dspec.spec.models import Fleet

MANY = 200_000  # steps of the staircase that are looked at one by one; beyond, the slope decides


@dataclass(frozen=True, kw_only=True, slots=True)
class Count:
    """Whole replicas: of the measured throughput, and at its bounds. `most` is None where nothing bounds it."""

    least: int
    value: int
    most: int | None


def replicas(peak_rps: float, throughput: Interval, utilisation: float) -> Count:
    """ceil(peak / (throughput × utilisation)), at the value and at both bounds."""

    def needed(rps: float) -> int:
        return math.ceil(peak_rps / (rps * utilisation))

    most = needed(throughput.low) if throughput.low else None
    least = needed(throughput.high) if throughput.high is not None else 1
    return Count(least=least, value=needed(throughput.value), most=most)


@dataclass(frozen=True, kw_only=True, slots=True)
class Saving:
    """What a second stack saves a month at peak, in the fleet's currency; `low` and `high` at the bounds, None: unbounded."""

    low: float | None
    value: float
    high: float | None
    native: Count
    second: Count


def saving(fleet: Fleet, native: Option, second: Option, utilisation: float) -> Saving | None:
    """(replicas of PyTorch − replicas of the second stack) × price; None where the spec or the measurements lack an input."""
    if (
        fleet.peak_rps is None
        or fleet.replica_cost_month is None
        or not (native.throughput_rps and second.throughput_rps)
    ):
        return None
    price = fleet.replica_cost_month
    mine = replicas(fleet.peak_rps, native.throughput_rps, utilisation)
    its = replicas(fleet.peak_rps, second.throughput_rps, utilisation)
    return Saving(
        low=None if its.most is None else (mine.least - its.most) * price,
        value=(mine.value - its.value) * price,
        high=None if mine.most is None else (mine.most - its.least) * price,
        native=mine,
        second=its,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class BreakEven:
    """Loads in requests per second, at either bound of what was measured; None: at no load.

    Below `low` the second stack does not pay, above `high` it does.
    """

    low: float | None
    value: float | None
    high: float | None


def break_even(fleet: Fleet, upkeep: float, native: Option, second: Option, utilisation: float) -> BreakEven | None:
    """None where an input is missing."""
    one, other, price = native.throughput_rps, second.throughput_rps, fleet.replica_cost_month
    if one is None or other is None or not price:
        return None
    worth = upkeep / price  # replicas that must be saved

    def at(mine: float | None, its: float | None, last: bool) -> float | None:
        return None if mine is None or its is None else _crossing(mine * utilisation, its * utilisation, worth, last)

    return BreakEven(
        low=at(one.low, other.high, False),
        value=at(one.value, other.value, True),
        high=at(one.high, other.low, True),
    )


def _crossing(mine: float, its: float, worth: float, last: bool) -> float | None:
    """The load from which more than `worth` whole replicas are saved: for good (`last`), or for the first time.

    Whole replicas are saved in a staircase: it goes up past each multiple of `mine` and down past each of `its`. From
    (worth + 1) / (1/mine − 1/its) on it stays above.
    """
    if its <= mine or mine <= 0:
        return None
    end = (worth + 1) / (1 / mine - 1 / its)
    if end / mine + end / its > MANY:
        return worth / (1 / mine - 1 / its)
    steps = sorted({0.0, *_multiples(mine, end), *_multiples(its, end)})
    pays = [_above(step, mine) - _above(step, its) > worth for step in steps]
    if not last:
        return next((step for step, found in zip(steps, pays, strict=True) if found), end)
    failing = [number for number, found in enumerate(pays) if not found]
    return steps[failing[-1] + 1] if failing and failing[-1] + 1 < len(steps) else end


def _multiples(unit: float, end: float) -> list[float]:
    return [number * unit for number in range(1, math.floor(end / unit) + 1)]


def _above(load: float, unit: float) -> int:
    """Replicas for just more than `load`."""
    return math.floor(load / unit * (1 + 1e-12)) + 1
