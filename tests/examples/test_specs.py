"""Every example's deploy.yaml is right as it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspec.spec.load import load
from dspec.targets import catalogue

EXAMPLES = Path(__file__).parents[2] / "examples"
SPECS = sorted(EXAMPLES.glob("*/deploy.yaml"))


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.parent.name)
def test_the_spec_checks(path: Path) -> None:
    loaded = load(path, catalogue())
    assert loaded.spec.owner
    assert loaded.spec.model.weights is not None
    assert loaded.spec.training.preprocess


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.parent.name)
def test_the_folder_is_complete(path: Path) -> None:
    names = {found.name for found in path.parent.iterdir()}
    assert {"deploy.yaml", "README.md", "model.py", "training.py", "fixtures"} <= names


def test_fixtures_stay_small() -> None:
    sizes = [path.stat().st_size for path in EXAMPLES.glob("*/fixtures/*")]
    assert sum(sizes) < 3_000_000
