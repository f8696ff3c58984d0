"""The skew stage over captured models: what it takes from training-time code, what it refuses, and the causes it finds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dspec.compiler.skew import causes
from dspec.compiler.skew.closeness import parted
from dspec.compiler.skew.relations import relations
from dspec.compiler.skew.stage import skew_stage
from dspec.spec.errors import SpecError
from dspec.spec.models import Spec
from dspec.spec.records import Skew

pytestmark = pytest.mark.filterwarnings("ignore")  # what torch remarks while it saves and loads a program

SOURCE = """
import torch
from torch import nn

class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x):
        return self.layer(x)

def build():
    torch.manual_seed(1)
    return M()
"""
MODEL = {
    "inputs": {"x": {"dtype": "float32", "shape": ["batch", 6]}},
    "outputs": {"y": {"dtype": "float32", "shape": ["batch", 3]}},
    "dims": {"batch": {"min": 1, "max": 4}},
}
BEFORE = [
    {"id": "unit", "use": "scale", "params": {"factor": 0.5}, "in": ["raw"], "out": ["unit"]},
    {"id": "normal", "use": "normalize", "params": {"mean": 1.0, "std": 2.0}, "in": ["unit"], "out": ["x"]},
]
AFTER = [{"id": "odds", "use": "softmax", "in": ["y"], "out": ["odds"]}]
TRAINING = """
import numpy as np

def same(request):
    return {"x": (request["raw"] * 0.5 - 1) / 2}

def walk(request):
    unit = request["raw"] * 0.5
    yield "unit", unit
    unit -= 1
    yield "normal", unit / 2

def later(request):
    yield "unit", request["raw"] * 0.5
    return {"x": request["raw"]}

def off(request):
    yield "unit", request["raw"] * 0.25
    return {"x": (request["raw"] * 0.25 - 1) / 2}

def large(request):
    return {"x": (request["raw"] * 0.5 - 1) / 2 * 255}

def unscaled(request):
    return {"x": (request["raw"] - 1) / 2}

def otherwise(request):
    return {"x": (request["raw"] - 1) * (0.5 - 1) / 2}

def longer(request):
    return {"x": np.zeros(7)}

def in_place(request):
    request["raw"] *= 0.5
    request["raw"] -= 1
    return {"x": request["raw"] / 2}

def torch_says(request):
    import torch
    return {"x": ((torch.from_numpy(request["raw"]) * 0.5 - 1) / 2)[None]}

def broken(request):
    return request["text"]

def odd(request):
    return {"tokens": 1}

def nothing(request):
    return None

def empty(request):
    if False:
        yield "unit", 1

def misspelt(request):
    yield "units", 1

def twice(request):
    yield "unit", 1
    yield "unit", 1

def bare(request):
    yield request["raw"]

def odds(outputs):
    scores = np.exp(outputs["y"])
    return {"odds": scores / scores.sum()}

def raw_odds(outputs):
    return {"odds": outputs["y"]}

def walk_odds(outputs):
    yield "odds", outputs["y"]

def undivided(request):
    return {"x": request["raw"] * 0.5 - 1}

def uncentred(request):
    return {"x": request["raw"] * 0.5 / 2}
"""


@dataclass(frozen=True)
class Looked:
    skew: Skew
    read: set[str]

    def greatest(self) -> float:
        return max(
            (point.diff for case in self.skew.cases for error in case.outputs.values() for point in error.frontier),
            default=0,
        )


@pytest.fixture
def held(run: Any, tmp_path: Path) -> Callable[..., Looked]:
    """The skew stage over four rows, with these functions of TRAINING."""

    def call(before: str | None = None, after: str | None = None) -> Looked:
        folder = tmp_path / "spec"
        if not folder.exists():
            folder.mkdir()
            (folder / "training.py").write_text(TRAINING)
            draw = np.random.default_rng(3)
            lines = [{"raw": row.tolist()} for row in draw.normal(size=(4, 6)).round(2) * 9]
            run(
                SOURCE, MODEL, lines=lines, request={"raw": {"type": "tensor", "dtype": "float32", "shape": [6]}},
                preprocess=BEFORE, postprocess=AFTER, response={"odds": {"from": "odds"}},
            )  # fmt: skip
        spec = json.loads((folder / "spec.json").read_text())
        spec["training"] = {
            "preprocess": before and f"training.py:{before}",
            "postprocess": after and f"training.py:{after}",
        }
        Spec.model_validate_json(json.dumps(spec))
        inputs = {name: tmp_path / "out" / name for name in ("program", "reference", "pipeline")}
        found = skew_stage({"spec": spec}, {"folder": str(folder), "spec_file": "deploy.yaml"}, inputs, tmp_path, print)
        skew = Skew.model_validate_json(json.dumps(found["value"]))
        return Looked(skew, {path.name for path in found["read"]})

    return call


def test_code_that_agrees(held: Callable[..., Looked]) -> None:
    for name in ("same", "walk", "in_place", "torch_says"):
        found = held(name)
        assert [case.id for case in found.skew.cases] == [f"rows.jsonl:{n}" for n in (1, 2, 3, 4)]
        assert found.greatest() < 1e-6, name
        assert not found.skew.causes
        assert found.read == {"training.py"}


def test_a_generator_may_yield_some_steps_and_return_the_rest(held: Callable[..., Looked]) -> None:
    case = held("later").skew.cases[0]
    assert [part.step for part in case.steps] == ["unit"]
    assert not case.steps[0].error.frontier
    assert case.outputs["x"].frontier


def test_steps_in_pipeline_order_and_what_it_does_to_the_answers(held: Callable[..., Looked]) -> None:
    found = held("off").skew
    assert [len(case.steps) for case in found.cases] == [1, 1, 1, 1]
    assert [case.id for case in found.answers] == ["rows.jsonl:1", "rows.jsonl:2", "rows.jsonl:3"]
    assert max(point.diff for point in found.answers[0].outputs["y"].frontier) > 0.1


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("large", "`x` is 255 × ours"),
        ("unscaled", "step `unit` left out"),
        ("otherwise", "`x` is -1 × ours − 0.25"),
    ],
)
def test_causes_without_yields(held: Callable[..., Looked], name: str, what: str) -> None:
    best = held(name).skew.causes[0]
    assert best.what == what
    assert len(best.tried) == 3
    assert max((point.diff for point in best.outputs["x"].frontier), default=0) < 1e-4


def test_a_shape_that_does_not_fit_is_told(held: Callable[..., Looked]) -> None:
    assert "the training code gives axis 1 of the tensor is 7" in held("longer").skew.cases[0].outputs["x"].broken


def test_the_answer(held: Callable[..., Looked]) -> None:
    found = held(None, "odds").skew
    assert not found.cases
    assert not found.causes
    assert max((point.diff for case in found.responses for point in case.outputs["odds"].frontier), default=0) < 1e-6
    found = held(None, "walk_odds").skew
    assert found.causes[0].what == "step `odds` left out"
    assert found.causes[0].side == "postprocess"
    assert found.responses[0].steps[0].step == "odds"
    assert held(None, "raw_odds").skew.causes[0].what == "step `odds` left out"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("broken", "training.py:43: error E0454: training.py:broken on rows.jsonl:1: KeyError: 'text'"),
        ("odd", "returned tokens, which is no model input"),
        ("nothing", "returned nothing\n  expected: a dict with the model inputs x, arrays of one item"),
        ("empty", "it yields nothing and returns nothing"),
        ("misspelt", "it yields the step 'units', which is no step of preprocess\n  expected: one of: unit, normal"),
        ("twice", "it yields the step 'unit' twice"),
        ("bare", "it yields ndarray, not a step id and a value"),
        ("absent", "training.py:absent: absent isn't there"),
    ],
)
def test_code_that_can_not_be_held(held: Callable[..., Looked], name: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        held(name)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("theirs", "ours", "words"),
    [
        ("hello", "hallo", "'hallo' where the training code gives 'hello'"),
        ([1, 2], [1, 2, 3], "shape [3] where the training code gives [2]"),
        (["a"], ["a", "b"], "2 items where the training code gives 1"),
        ({"a": 1}, {"b": 1}, "only the training code gives this key"),
        ([{"label": "cat"}], [{"label": "dog"}], "item 0: 'dog' where the training code gives 'cat'"),
        (None, 1.5, "1.5 where the training code gives None"),
        (True, "yes", "'yes' where the training code gives True"),
    ],
)
def test_values_of_any_kind(theirs: Any, ours: Any, words: str) -> None:
    assert words in [part.error.broken for part in parted(theirs, ours, "field").values()]


def test_nested_numbers_have_places() -> None:
    theirs = [{"box": [0.0, 1.0], "label": "a"}, {"box": [2.0, 3.0], "label": "b"}]
    ours = [{"box": [0.0, 1.0], "label": "a"}, {"box": [2.0, 3.5], "label": "b"}]
    found = parted(theirs, ours, "boxes")
    assert set(found) == {"boxes[].box", "boxes[].label"}
    assert [(point.index, point.diff) for point in found["boxes[].box"].error.frontier] == [((1, 1), 0.5)]
    assert found["boxes[].label"].exact
    assert not found["boxes[].box"].exact


RAMP = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
RELATIONS = [
    (RAMP[..., ::-1], RAMP, "ours with the channels in reverse order (RGB ↔ BGR)"),
    (RAMP * 255, RAMP, "255 × ours"),
    (RAMP / 255, RAMP, "1/255 × ours"),
    (RAMP / 127.5 - 1, RAMP, "1/127.5 × ours − 1"),
    (
        RAMP * np.array([1, 2, 3], np.float32),
        RAMP,
        "ours scaled per channel (1·x + 0, 2·x + 0, 3·x + 0): another mean and std",
    ),
    (RAMP.transpose(2, 0, 1), RAMP, "ours with its axes in the order [2, 0, 1] (another layout)"),
    (np.arange(5), np.arange(9), "the first 5 of ours: cut at another length"),
    (np.arange(4, 9), np.arange(9), "the last 5 of ours: cut at another length, from the other end"),
    (np.array([5, 6, 0, 0]), np.array([5, 6]), "ours padded on the right with 0 to 4"),
    (np.array([1, 1, 5, 6]), np.array([5, 6]), "ours padded on the left with 1 to 4"),
]


@pytest.mark.parametrize(("theirs", "ours", "what"), RELATIONS, ids=[what for _, _, what in RELATIONS])
def test_relations_between_tensors(theirs: Any, ours: Any, what: str) -> None:
    fitting = [
        found.what
        for found in relations(theirs, ours)
        if (made := found.make(ours)).shape == theirs.shape and np.allclose(made, theirs, rtol=1e-5, atol=1e-5)
    ]
    assert what in fitting


def test_causes_are_sought_by_a_count_of_tries(held: Callable[..., Looked], monkeypatch: pytest.MonkeyPatch) -> None:
    """Evidence is the same on a busy machine: no clock says when the search ends."""
    said = {}
    for tries in (0, 1, 300):
        monkeypatch.setattr(causes, "TRIES", tries)
        said[tries] = [cause.what for cause in held("unscaled").skew.causes]
    assert said[0] == said[1] == []
    assert said[300][0] == "step `unit` left out"


def test_a_parameter_never_applied_is_a_likely_cause(held: Callable[..., Looked]) -> None:
    found = held("undivided").skew.causes
    assert found[0].what == "step `normal` with std 1 instead of 2"
    assert held("uncentred").skew.causes[0].what == "step `normal` with mean 0 instead of 1"
