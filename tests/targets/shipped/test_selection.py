"""Indices compared through the values that they select: ties pass, anything else is found."""

from __future__ import annotations

import numpy as np
import pytest

from dspec.targets.shipped.compare import compare, compare_outputs
from dspec.targets.shipped.selftest import differences

SOURCE = np.array([[1, 5, 5, 5, 0]], np.float32)


def indices(*values: int) -> np.ndarray:
    return np.array([values], np.int64)


@pytest.mark.parametrize(
    ("got", "diff"),
    [((2, 1, 3), 0.0), ((1, 2, 3), 0.0), ((1, 2, 0), 4.0), ((-4, -3, -2), 0.0)],
    ids=["ties", "same", "another value", "from the end"],
)
def test_the_values_count_and_not_their_places(got: tuple[int, ...], diff: float) -> None:
    found = compare(indices(1, 2, 3), indices(*got), source=SOURCE)
    assert not found["broken"]
    assert max((point["diff"] for point in found["frontier"]), default=0.0) == diff


@pytest.mark.parametrize(
    ("got", "words"),
    [
        ((1, 2, 5), "index 5 at (0, 2), of 5 places"),
        ((1, 2, -6), "index -6 at (0, 2), of 5 places"),
        ((1, 1, 2), "an index twice in a row where the reference names each once"),
        ((1, -4, 2), "an index twice in a row where the reference names each once"),
    ],
)
def test_what_selects_nothing_or_one_thing_twice(got: tuple[int, ...], words: str) -> None:
    assert compare(indices(1, 2, 3), indices(*got), source=SOURCE)["broken"] == words


def test_one_index_a_row() -> None:
    reference, got = np.array([1]), np.array([3])
    assert compare(reference, got, source=SOURCE)["frontier"] == []
    assert compare(reference, np.array([0]), source=SOURCE)["frontier"][0]["diff"] == 4


def test_indices_that_do_not_fit_their_source() -> None:
    found = compare(np.array([[1], [2]]), np.array([[1], [2]]), source=SOURCE)
    assert found["broken"] == "indices of shape [2, 1] (int64) into [1, 5]"


def test_a_policy_names_an_output_or_an_input() -> None:
    policies = {"order": {"selects": "x"}}
    outputs, _ = compare_outputs({"order": indices(1, 2)}, {"order": indices(3, 1)}, policies, {"x": SOURCE})
    assert outputs["order"]["frontier"] == []
    outputs, _ = compare_outputs({"order": indices(1, 2)}, {"order": indices(3, 1)}, {}, {"x": SOURCE})
    assert outputs["order"]["frontier"]


def test_ids_and_indices_have_no_near_neighbours() -> None:
    assert differences({"token": 128000}, {"token": 128001}) == ["token is 128001, recorded 128000"]
    assert differences({"score": 0.5}, {"score": 0.500001}) == []
    assert differences([1.0], [1]) == []
