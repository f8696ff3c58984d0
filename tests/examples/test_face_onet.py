"""examples/face_onet without a build: the labelled windows, the eager model, the shipped steps against training."""

from __future__ import annotations

import base64
import functools
import importlib.util
from importlib.metadata import distribution
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from dspec.spec.load import load
from dspec.targets import catalogue
from dspec.targets.shipped.steps.decode import Decode
from dspec.targets.shipped.steps.layout import Layout
from dspec.targets.shipped.steps.normalize import Normalize
from dspec.targets.shipped.steps.resize import Resize
from dspec.targets.shipped.steps.softmax import Softmax

FOLDER = Path(__file__).parents[2] / "examples" / "face_onet"
STEPS = (
    Decode(),
    Resize(size=(48, 48), filter="bilinear"),
    Normalize(mean=127.5, std=128),
    Layout(to="chw"),
)

Windows = list[tuple[bytes, dict[str, Any]]]
Outputs = dict[str, np.ndarray]


def _module(stem: str) -> ModuleType:
    found = importlib.util.spec_from_file_location(f"example_face_onet_{stem}", FOLDER / f"{stem}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def windows() -> Windows:
    import json

    lines = (FOLDER / "fixtures" / "windows.jsonl").read_text("utf-8").splitlines()
    requests = [json.loads(line) for line in lines]
    return [(base64.b64decode(found["image"]["base64"]), found["expected"]) for found in requests]


@pytest.fixture(scope="module")
def outputs(windows: Windows) -> Outputs:
    import torch

    model = _module("model").build()
    path = str(distribution("facenet-pytorch").locate_file("facenet_pytorch/data/onet.pt"))
    model.load_state_dict(torch.load(path, weights_only=True))
    preprocess = _module("training").preprocess
    stack = np.stack([preprocess({"image": data})["pixels"] for data, _ in windows])
    with torch.inference_mode():
        answers = model(torch.from_numpy(stack))
    return {name: value.numpy() for name, value in answers.items()}


def test_the_windows_are_balanced_and_each_has_both_labels(windows: Windows) -> None:
    labels = [expected["label"] for _, expected in windows]
    assert labels.count("face") == labels.count("background") == 100
    assert labels[:32].count("face") == 16  # what travels holds both
    assert all(expected["probability"] == (expected["label"] == "face") for _, expected in windows)
    assert len({data for data, _ in windows}) == 200


def test_the_windows_are_those_that_scikit_image_ships(windows: Windows) -> None:
    shipped = np.load(str(distribution("scikit-image").locate_file("skimage/data/lfw_subset.npy")))
    for number, (data, _) in enumerate(windows):
        source = shipped[number // 2 + 100 * (number % 2)]
        pixels = Decode().open()(data)
        np.testing.assert_array_equal(pixels[..., 0], np.rint(source * 255))


def test_the_model_tells_faces_from_backgrounds(windows: Windows, outputs: Outputs) -> None:
    decide, softmax = _module("answer").decide, Softmax().open()
    wrong = [
        number
        for number, (_, expected) in enumerate(windows, start=1)
        if decide(softmax(outputs["logits"][number - 1]))[0] != expected["label"]
    ]
    limit = load(FOLDER / "deploy.yaml", catalogue()).spec.quality[0]
    assert limit.min is not None
    assert len(wrong) <= 200 * (1 - limit.min)
    assert wrong == []


def test_the_boxes_of_faces_are_small_corrections(outputs: Outputs) -> None:
    assert outputs["box"].shape == (200, 4)
    assert outputs["points"].shape == (200, 10)
    faces = outputs["points"][::2]
    left_eye, right_eye, mouth = faces[:, 0], faces[:, 1], faces[:, 8]
    assert (left_eye < right_eye).all()  # a wrong order of the axes would mix them
    assert (faces[:, 5] < mouth).mean() > 0.95  # eyes above mouth


def test_the_shipped_steps_agree_with_training(windows: Windows) -> None:
    preprocess = _module("training").preprocess
    pipeline: list[Any] = [step.open() for step in STEPS]
    for data, _ in windows:
        shipped: Any = functools.reduce(lambda value, step: step(value), pipeline, data)
        np.testing.assert_allclose(shipped, preprocess({"image": data})["pixels"], atol=1e-6)


def test_the_rule_agrees_with_training(outputs: Outputs) -> None:
    decide, softmax, postprocess = _module("answer").decide, Softmax().open(), _module("training").postprocess
    for logits, box in zip(outputs["logits"], outputs["box"], strict=True):
        label, probability = decide(softmax(logits))
        trained = postprocess({"logits": logits, "box": box})
        assert label == trained["label"]
        assert probability == pytest.approx(trained["probability"], abs=1e-6)
