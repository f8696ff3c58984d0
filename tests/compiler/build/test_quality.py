"""The quality gate on real builds: PyTorch's answers and the bundle's held against labels, and the golden vectors alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Project = Any  # conftest.Project: importlib mode gives test folders no names
QUALITY = "quality: [{metric: accuracy, of: top, min: 0.8, max_loss: 0}, {metric: top_k, of: scores, k: 2}]"


@pytest.fixture(scope="module")
def published(built: Project, label: Callable[[Path], list[int]], tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project with labels that PyTorch meets and a limit that 16 fixtures can show."""
    folder = tmp_path_factory.mktemp("quality") / "tiny"
    shutil.copytree(built.folder, folder)
    project = type(built)(folder)
    best = label(folder)
    _relabel(folder, lambda number: {"top": best[number], "scores": best[number]})
    project.add(QUALITY)
    done = project.dspec("build")
    assert done.code == 0, done.out + done.err
    assert "fleet: quality pass: top accuracy 1 (PyTorch 1, n 16); scores top_2 1 (PyTorch 1, n 16)" in done.out
    return project


@pytest.fixture
def labelled(published: Project, tmp_path: Path) -> Project:
    shutil.copytree(published.folder, tmp_path / "tiny")
    return type(published)(tmp_path / "tiny")


def _relabel(folder: Path, label: Callable[[int], Any]) -> None:
    rows = [json.loads(line) for line in (folder / "fixtures.jsonl").read_text().splitlines()]
    labelled = [row | {"expected": label(number)} for number, row in enumerate(rows)]
    (folder / "fixtures.jsonl").write_text("".join(json.dumps(row) + "\n" for row in labelled))


def _quality(project: Project, evidence: Path | None = None) -> dict[str, Any]:
    text = (evidence or project.published / "evidence" / "fleet.json").read_text()
    found: dict[str, Any] = next(one for one in json.loads(text)["verdicts"] if one["gate"] == "quality")
    return found


def test_evidence_holds_the_figures_and_the_share_outside_the_model(published: Project) -> None:
    found = json.loads((published.published / "evidence" / "fleet.json").read_text())
    figures = found["measurements"][0]["quality"]
    assert (figures["fixtures"], figures["labelled"]) == (16, 16)
    assert [(one["metric"], one["k"], one["value"], one["reference"]) for one in figures["figures"]] == [
        ("accuracy", None, 1.0, 1.0),
        ("top_k", 2, 1.0, 1.0),
    ]
    latency = next(one for one in found["verdicts"] if one["gate"] == "latency")
    assert "outside the model " in latency["detail"][0]


def test_a_limit_is_judged_anew_and_nothing_is_measured(labelled: Project) -> None:
    labelled.edit("min: 0.8, max_loss: 0", "min: 0.95")
    done = labelled.dspec("build")
    assert done.code == 5, done.out + done.err
    assert "every stage answered from the store" in done.out
    assert "limit ≥ 0.95: inconclusive (the interval straddles the limit: label more fixtures)" in done.out


def test_wrong_answers_fail_and_are_named(labelled: Project) -> None:
    _relabel(labelled.folder, lambda number: {"top": number % 3, "scores": 0})
    done = labelled.dspec("build")
    assert done.code == 1, done.out + done.err
    assert "fleet: quality fail" in done.out
    assert "top accuracy: furthest from the label: fixtures.jsonl:" in done.out


LABELS = [
    (lambda _: 1, "fixtures.jsonl:1: `expected` is one label, and quality looks at scores, top"),
    pytest.param(
        lambda _: {"top": "one", "scores": 1},
        "accuracy of top: fixtures.jsonl:1: the answer is a number (",
        marks=pytest.mark.slow,
    ),
    pytest.param(
        lambda _: {"other": 1},
        "accuracy of top: none of 16 fixtures has a label for it (fixtures.jsonl:1,",
        marks=pytest.mark.slow,
    ),
]


@pytest.mark.parametrize(("label_of", "words"), LABELS)
def test_labels_that_fit_no_answer_are_told_at_the_spec(
    labelled: Project, label_of: Callable[[int], Any], words: str
) -> None:
    _relabel(labelled.folder, label_of)
    done = labelled.dspec("build")
    assert done.code == 2, done.out + done.err
    assert "E0348" in done.err
    assert words in done.err
    assert "quality: [" in done.err  # the line of the spec


def test_a_label_that_is_not_finite_is_told_at_its_line(labelled: Project) -> None:
    _relabel(labelled.folder, lambda number: float("nan") if number == 3 else 0)
    done = labelled.dspec("build")
    assert done.code == 2, done.out + done.err
    assert "fixtures.jsonl:4: `expected` holds NaN or infinity" in done.err


def test_the_golden_vectors_carry_labels(labelled: Project) -> None:
    bundle = "bundles/tiny/fleet"
    assert labelled.dspec("verify", bundle).code == 0
    done = labelled.dspec("measure", bundle, "-o", "here.json")
    assert done.code == 0, done.err
    figures = json.loads((labelled.folder / "here.json").read_text())["quality"]
    assert [(one["n"], one["value"], one["reference"]) for one in figures["figures"]] == [(3, 1.0, 1.0), (3, 1.0, 1.0)]
    joined = labelled.dspec("build", "--evidence", "here.json")
    assert joined.code == 5, joined.out + joined.err  # three fixtures show no 80 %
    assert "3 of 3 fixtures have a label, over the golden vectors alone" in joined.out
