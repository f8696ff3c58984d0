"""examples/tabular without a build: held-out wines, eager model, the steps of deploy.yaml."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dspec.compiler.pipeline import write_pipeline
from dspec.spec.load import load
from dspec.targets import catalogue
from dspec.targets.shipped.errors import RequestError
from dspec.targets.shipped.pipeline import Pipeline, to_json


@pytest.fixture(scope="module")
def spec(tabular: Any) -> Any:
    return load(tabular.folder / "deploy.yaml", catalogue()).spec


@pytest.fixture(scope="module")
def pipeline(tabular: Any, spec: Any, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    folder = tmp_path_factory.mktemp("pipeline")
    write_pipeline(spec, tabular.folder, folder)
    return Pipeline.load(folder)


@pytest.fixture(scope="module")
def lines(tabular: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tabular.requests("wines.jsonl")
    return found


@pytest.fixture(scope="module")
def model(tabular: Any) -> Any:
    from safetensors.torch import load_file

    found = tabular.module("model").build()
    found.load_state_dict(load_file(tabular.folder / "model.safetensors"))
    return found.eval()


def _logits(model: Any, features: Any) -> Any:
    import torch

    with torch.inference_mode():
        return model(torch.from_numpy(features))["logits"].numpy()


def test_the_steps_agree_with_training(tabular: Any, pipeline: Pipeline, lines: list[dict[str, Any]]) -> None:
    preprocess = tabular.module("training").preprocess
    for line in lines:
        request = {"wine": line["wine"]}
        (shipped,) = pipeline.before(request)["features"]
        np.testing.assert_allclose(shipped, preprocess(request)["features"], rtol=1e-6, err_msg=str(line))


def test_most_wines_are_told_and_answers_agree_with_training(
    tabular: Any, pipeline: Pipeline, model: Any, lines: list[dict[str, Any]]
) -> None:
    postprocess = tabular.module("training").postprocess
    right = 0
    for line in lines:
        logits = _logits(model, pipeline.before({"wine": line["wine"]})["features"])
        answer, trained = to_json(pipeline.after({"logits": logits})), to_json(postprocess({"logits": logits[0]}))
        assert answer["cultivator"] == trained["cultivator"]
        assert [one["label"] for one in answer["ranking"]] == [one["label"] for one in trained["ranking"]]
        scores = [[one["score"] for one in ranking] for ranking in (answer["ranking"], trained["ranking"])]
        np.testing.assert_allclose(scores[0], scores[1], rtol=1e-5)
        right += answer["cultivator"] == line["expected"]
    assert right >= 0.95 * len(lines)


def test_fixtures_hold_every_kind_of_gap(lines: list[dict[str, Any]]) -> None:
    wines = [line["wine"] for line in lines]
    assert len(wines) == 45
    assert {line["expected"] for line in lines} == {"class_0", "class_1", "class_2"}
    assert all(any(wine[name] is None for wine in wines) for name in ("malic_acid", "magnesium", "proline", "colour"))
    assert any(wine["colour"] == "cloudy" for wine in wines)


def test_the_spec_holds_the_numbers_of_training(tabular: Any, spec: Any) -> None:
    training = tabular.module("training")
    columns, scaled, colour = (step.params for step in spec.preprocess[:3])
    assert tuple(columns["names"]) == training.MEASUREMENTS
    assert colour["values"] == {"colour": list(training.COLOURS)}
    assert {
        "median": columns["fill"],
        "mean": list(scaled["mean"]),
        "std": list(scaled["std"]),
    } == training.statistics()


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"alcohol": None}, "wine: nothing in column alcohol; expected a finite number"),
    ({"alcohol": "13.2"}, "wine: a text in column alcohol; expected a finite number"),
    ({"prolin": 700}, "wine: an unknown column prolin; expected the columns alcohol, malic_acid"),
    ({"colour": ["pale"]}, "wine: a list in column colour; expected one of pale, medium, deep"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_odd_rows_are_refused(
    pipeline: Pipeline, lines: list[dict[str, Any]], change: dict[str, Any], message: str
) -> None:
    with pytest.raises(RequestError, match=message):
        pipeline.before({"wine": {**lines[0]["wine"], **change}})


def test_the_script_makes_what_is_committed(tabular: Any, tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    folder = tmp_path / "tabular"
    shutil.copytree(tabular.folder, folder, ignore=shutil.ignore_patterns("fixtures", "*.safetensors", "*.json", "__*"))
    (folder / "fixtures").mkdir()
    done = subprocess.run([sys.executable, "train.py"], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "held out: 0.978 of 45 right" in done.stdout
    for name in ("statistics.json", "fixtures/wines.jsonl"):
        assert (folder / name).read_bytes() == (tabular.folder / name).read_bytes(), name
    made, committed = (load_file(where / "model.safetensors") for where in (folder, tabular.folder))
    assert set(made) == set(committed)
    for name, weights in committed.items():  # another CPU rounds otherwise, 400 times over
        np.testing.assert_allclose(made[name], weights, atol=0.02, err_msg=name)
