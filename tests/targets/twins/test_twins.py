"""Every step that may run in the graph has a twin, and the twin gives what the step gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ruamel.yaml import YAML

from dspec.targets import catalogue, twins
from dspec.targets.shipped import steps

Array = np.ndarray[Any, Any]
Drawn = Callable[[str, list[int], int, int], Array]  # conftest.drawn
CASES: dict[str, list[dict[str, Any]]] = YAML(typ="safe").load(Path(__file__).with_name("cases.yaml"))
EACH = [
    pytest.param(name, case, id=f"{name}-{number}")
    for name, cases in CASES.items()
    for number, case in enumerate(cases)
]
PHOTOS = Path(__file__).parents[3] / "examples" / "efficientnet_lite0" / "fixtures"


def test_steps_that_offer_the_graph_are_those_with_a_twin() -> None:
    offering = {name for name, entry in catalogue().steps.items() if "graph" in entry.places}
    assert offering == set(twins.NAMES) == set(CASES)


def _step(name: str, params: dict[str, Any]) -> Any:
    filled = {key: tuple(value) if isinstance(value, list) else value for key, value in params.items()}
    return steps.load(name)(**filled)


def _held_equal(name: str, step: Any, values: list[Array]) -> None:
    run, twin = step.open(), twins.load(name)(step)
    expected = np.stack([run(*(value[item] for value in values)) for item in range(len(values[0]))])
    with torch.no_grad():
        found = twin(*(torch.from_numpy(value) for value in values)).numpy()
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert len(expected) == 1 or expected.std() > 0  # nothing is shown where every number is the same
    if hasattr(twin, "atol"):
        np.testing.assert_allclose(found, expected, rtol=twin.rtol, atol=twin.atol)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize(("name", "case"), EACH)
def test_a_twin_is_its_step(name: str, case: dict[str, Any], count: int, drawn: Drawn) -> None:
    values = [drawn(dtype, shape, count, seed) for seed, (dtype, shape) in enumerate(case["values"])]
    _held_equal(name, _step(name, case["params"]), values)


@pytest.mark.parametrize(("name", "case"), EACH)
def test_the_flow_tells_what_the_twin_gives(name: str, case: dict[str, Any], drawn: Drawn) -> None:
    step = _step(name, case["params"])
    picture = name in ("center_crop", "crop", "resize")
    values = [drawn(dtype, shape, 1, seed) for seed, (dtype, shape) in enumerate(case["values"])]
    told = step.flow(*(
        catalogue().value("image" if picture else "tensor", value.dtype.name, value.shape[1:]) for value in values
    ))  # fmt: skip
    found = twins.load(name)(step)(*map(torch.from_numpy, values))
    assert told[0].dtype == str(found.dtype).removeprefix("torch.")
    assert tuple(told[0].shape) == tuple(found.shape[1:])


@pytest.mark.parametrize("filter", ["nearest", "bilinear", "bicubic", "lanczos"])
def test_resize_on_photographs(filter: str) -> None:
    from PIL import Image

    photos = sorted(path for path in PHOTOS.rglob("*") if path.suffix in (".jpg", ".jpeg", ".png", ".webp"))
    assert photos
    with Image.open(photos[0]) as opened:
        photo = np.array(opened.convert("RGB"))
    _held_equal("resize", _step("resize", {"size": [224, 224], "filter": filter}), [photo[np.newaxis]])


def test_ties_and_constant_rows() -> None:
    scores = np.array([[2, 7, 7, 1], [3, 3, 3, 3], [1, 0, 0, 9]], np.float32)
    _held_equal("argmax", _step("argmax", {}), [scores])
    rows = np.array([[0.1] * 5, [1, 2, 3, 4, 5]], np.float32)
    _held_equal("unit_variance", _step("unit_variance", {}), [rows])


def test_not_finite_values_pass_as_they_do_on_the_host() -> None:
    odd = np.array([[np.nan, -1, np.inf], [1, -np.inf, 2]], np.float32)
    for name, params in (("scale", {"factor": 2.0}), ("clip", {"low": -0.5, "high": 0.5}), ("sigmoid", {})):
        step = _step(name, params)
        found = twins.load(name)(step)(torch.from_numpy(odd)).numpy()
        np.testing.assert_allclose(found, np.stack([step.open()(row) for row in odd]), rtol=1e-6)
