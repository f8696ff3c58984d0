"""Replicas, savings and the break-even load, checked by hand."""

from __future__ import annotations

import math

import pytest

from dspec.compiler.decide.arithmetic import break_even, replicas, saving
from dspec.compiler.decide.thresholds import thresholds
from dspec.spec.decision import Interval, Option
from dspec.spec.models import Fleet

FLEET = Fleet(peak_rps=1000.0, replica_cost_month=100.0)


def _option(id: str, low: float | None, value: float, high: float | None) -> Option:
    return Option(id=id, key=id, native=id == "native", throughput_rps=Interval(low=low, value=value, high=high))


def test_replicas_are_whole_and_planned_below_saturation() -> None:
    found = replicas(1000, Interval(low=90, value=100, high=110), 0.7)
    assert (found.least, found.value, found.most) == (13, 15, 16)
    assert replicas(1000, Interval(low=None, value=100, high=None), 0.7).most is None


def test_what_is_saved_at_the_bounds() -> None:
    found = saving(FLEET, _option("native", 95, 100, 105), _option("second", 190, 200, 210), 1.0)
    assert found
    assert (found.low, found.value, found.high) == (400.0, 500.0, 600.0)
    assert saving(Fleet(peak_rps=1000.0), _option("native", 1, 1, 1), _option("second", 1, 1, 1), 1.0) is None


@pytest.mark.parametrize(("mine", "its", "upkeep"), [(100, 200, 300), (100, 130, 500), (70, 90, 0), (33, 100, 1000)])
def test_from_the_break_even_on_it_always_pays(mine: float, its: float, upkeep: float) -> None:
    found = break_even(FLEET, upkeep, _option("native", mine, mine, mine), _option("second", its, its, its), 1.0)
    assert found
    assert found.high is not None
    assert found.low is not None

    def pays(load: float) -> bool:
        return (math.ceil(load / mine) - math.ceil(load / its)) * 100.0 > upkeep

    loads = [step / 7 for step in range(1, 7 * int(found.high * 3))]
    assert all(pays(load) for load in loads if load > found.high + 1e-6)
    assert not any(pays(load) for load in loads if load <= found.low)
    assert found.low <= found.high


def test_a_second_stack_that_is_no_faster_never_pays() -> None:
    found = break_even(FLEET, 300, _option("native", 90, 100, 110), _option("second", 95, 100, 105), 1.0)
    assert found
    assert found.value is found.high is None


def test_every_threshold_is_explained() -> None:
    found = thresholds()
    for name in found.__slots__:
        assert getattr(found, name).why.endswith("."), name
