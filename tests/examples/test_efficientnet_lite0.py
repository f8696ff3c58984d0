"""examples/efficientnet_lite0 without a build: photographs, eager model, shipped steps."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from dspec.targets.shipped.steps.center_crop import CenterCrop
from dspec.targets.shipped.steps.decode import Decode
from dspec.targets.shipped.steps.layout import Layout
from dspec.targets.shipped.steps.normalize import Normalize
from dspec.targets.shipped.steps.resize import Resize

STEPS = (
    Decode(),
    CenterCrop(fraction=0.875, offset="half_up"),
    Resize(size=(224, 224), filter="bicubic"),
    Normalize(mean=127, std=128),
    Layout(to="chw"),
)


Photos = dict[str, tuple[bytes, int | None]]
Logits = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def photos(efficientnet: Any) -> Photos:
    lines = efficientnet.requests("photos.jsonl")
    folder = efficientnet.folder / "fixtures"
    return {line["image"]: ((folder / line["image"]).read_bytes(), line.get("expected")) for line in lines}


@pytest.fixture(scope="module")
def logits(efficientnet: Any, efficientnet_model: Any, photos: Photos) -> Logits:
    import torch

    preprocess = efficientnet.module("training").preprocess
    stack = np.stack([dict(preprocess({"image": data}))["planes"] for data, _ in photos.values()])
    with torch.inference_mode():
        answers = efficientnet_model(torch.from_numpy(stack))["logits"].numpy()
    return dict(zip(photos, answers, strict=True))


def test_photographs_are_many_and_some_have_labels(photos: Photos) -> None:
    assert len(photos) >= 8
    assert sum(expected is not None for _, expected in photos.values()) >= 4


def test_the_model_names_what_is_on_the_photographs(photos: Photos, logits: Logits) -> None:
    wrong = {
        name: (int(logits[name].argmax()), expected)
        for name, (_, expected) in photos.items()
        if expected is not None and logits[name].argmax() != expected
    }
    assert wrong == {}


def test_the_shipped_steps_agree_with_training(efficientnet: Any, photos: Photos) -> None:
    preprocess = efficientnet.module("training").preprocess
    pipeline = [step.open() for step in STEPS]
    for name, (data, _) in photos.items():
        shipped = functools.reduce(lambda value, step: step(value), pipeline, data)
        np.testing.assert_array_equal(shipped, dict(preprocess({"image": data}))["planes"], err_msg=name)


def test_the_step_of_our_own_agrees_with_training(efficientnet: Any, logits: Logits) -> None:
    top5 = efficientnet.module("answer").top5
    postprocess = efficientnet.module("training").postprocess
    for answer in logits.values():
        classes, probabilities = top5(answer)
        trained = postprocess({"logits": answer})
        assert classes.tolist() == trained["classes"]
        np.testing.assert_allclose(probabilities, trained["probabilities"], rtol=1e-5)
