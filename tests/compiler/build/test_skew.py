"""The skew gate on real builds: training code that differs in one thing, and the step or the cause that is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Project = Any  # conftest.Project: importlib mode gives test folders no names

PHOTO_MODEL = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 5, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 5))

    def forward(self, pixels):
        return {"logits": self.layers(pixels)}


def build():
    torch.manual_seed(3)
    return Net()
"""
PHOTO_SPEC = """\
apiVersion: dspec/v1alpha1
name: tiny
model:
  factory: model.py:build
  inputs: {pixels: {dtype: float32, shape: [batch, 3, 32, 32]}}
  outputs: {logits: {dtype: float32, shape: [batch, 5]}}
  dims: {batch: {min: 1, max: 4}}
request: {photo: {type: image}}
preprocess:
  - {id: read, use: decode, in: photo, out: raw}
  - {id: small, use: resize, size: [32, 32], filter: bilinear}
  - {id: unit, use: scale, factor: 0.00392156862745098}
  - {id: normal, use: normalize, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}
  - {id: planes, use: layout, to: chw, out: pixels}
postprocess:
  - {id: odds, use: softmax, in: logits, out: odds}
response: {odds: {from: odds}}
training: {preprocess: training.py:encode}
fixtures: [{file: fixtures.jsonl, golden: 1}]
targets:
  fleet: {runtime: onnxruntime, hardware: host}
load: {rate_rps: 20, duration_s: 0.5, max_duration_s: 1}
"""
PHOTO_TRAINING = """
import io
import numpy as np
from PIL import Image

MEAN, STD = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
FILTER = Image.Resampling.BILINEAR
SWAPPED = False
TIMES = 1


def walk(request):
    raw = np.asarray(Image.open(io.BytesIO(request["photo"])).convert("RGB"))
    if SWAPPED:
        raw = raw[..., ::-1]
    yield "read", raw
    small = np.asarray(Image.fromarray(np.ascontiguousarray(raw)).resize((32, 32), FILTER))
    yield "small", small
    unit = small.astype(np.float32) / 255
    yield "unit", unit
    normal = unit
    for _ in range(TIMES):
        normal = (normal - MEAN) / STD
    yield "normal", normal
    return {"pixels": normal.transpose(2, 0, 1)}


def encode(request):
    steps = walk(request)
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return stop.value


def chances(outputs):
    scores = np.exp(outputs["logits"] - outputs["logits"].max())
    yield "odds", scores / scores.sum()


def without_softmax(outputs):
    return {"odds": outputs["logits"]}


def unknown(request):
    yield "smal", 1
"""
CHANGES = {
    "filter": ("FILTER = Image.Resampling.BILINEAR", "FILTER = Image.Resampling.BICUBIC"),
    "swapped": ("SWAPPED = False", "SWAPPED = True"),
    "twice": ("TIMES = 1", "TIMES = 2"),
}

TEXT_MODEL = """
import torch
from torch import nn

MASKED = True


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(64, 16)
        self.top = nn.Linear(16, 4)

    def forward(self, ids, mask):
        counts = mask.unsqueeze(-1).to(torch.float32) if MASKED else torch.ones_like(mask).unsqueeze(-1).to(torch.float32)
        return {"scores": self.top((self.words(ids) * counts).sum(1) / (counts.sum(1) + 0 * mask.sum(1, keepdim=True)))}


def build():
    torch.manual_seed(3)
    return Net()
"""
TEXT_SPEC = """\
apiVersion: dspec/v1alpha1
name: tiny
model:
  factory: model.py:build
  inputs:
    ids: {dtype: int64, shape: [batch, seq], range: [0, 63]}
    mask: {dtype: int64, shape: [batch, seq], range: [0, 1]}
  outputs: {scores: {dtype: float32, shape: [batch, 4]}}
  dims: {batch: {min: 1, max: 4}, seq: {min: 2, max: 32}}
request: {text: {type: text}}
preprocess:
  - {id: tokens, use: tokenize, tokenizer: {path: tokenizer.json}, max_length: 16, in: text, out: [ids, mask]}
training: {preprocess: training.py:encode}
fixtures: [{file: fixtures.jsonl, golden: 1}]
targets:
  fleet: {runtime: onnxruntime, hardware: host}
load: {rate_rps: 20, duration_s: 0.5, max_duration_s: 1}
"""
TEXT_TRAINING = """
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

LENGTH = 16


def encode(request):
    tokenizer = Tokenizer.from_file(str(Path(__file__).parent / "tokenizer.json"))
    tokenizer.enable_truncation(LENGTH)
    found = tokenizer.encode(request["text"])
    return {"ids": np.array(found.ids), "mask": np.array(found.attention_mask)}


def walk(request):
    found = encode(request)
    yield "tokens", (found["ids"], found["mask"])
"""


def write_photos(folder: Path) -> None:
    from PIL import Image

    draw = np.random.default_rng(5)
    names = []
    for number in range(4):
        rough = Image.fromarray(draw.integers(0, 256, (9, 12, 3), np.uint8))
        rough.resize((90, 70)).save(folder / f"{number}.png")
        names.append(f"{number}.png")
    (folder / "fixtures.jsonl").write_text("".join(json.dumps({"photo": name}) + "\n" for name in names))


def write_texts(folder: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = {"[PAD]": 0, "[CLS]": 1, "[SEP]": 2, "[UNK]": 3, **{f"w{n}": n + 4 for n in range(60)}}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    draw = np.random.default_rng(5)
    texts = [" ".join(f"w{n}" for n in draw.integers(0, 60, size)) for size in (3, 8, 30, 25)]
    (folder / "fixtures.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory, new_project: Callable[[Path], Project]) -> Project:
    project = new_project(tmp_path_factory.mktemp("photos") / "tiny")
    (project.folder / "model.py").write_text(PHOTO_MODEL)
    (project.folder / "training.py").write_text(PHOTO_TRAINING)
    write_photos(project.folder)
    project.spec(PHOTO_SPEC)
    done = project.dspec("build")
    assert done.code == 0, done.out + done.err
    return project


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory, new_project: Callable[[Path], Project]) -> Project:
    project = new_project(tmp_path_factory.mktemp("texts") / "tiny")
    (project.folder / "model.py").write_text(TEXT_MODEL)
    (project.folder / "training.py").write_text(TEXT_TRAINING)
    write_texts(project.folder)
    project.spec(TEXT_SPEC)
    done = project.dspec("build")
    assert done.code == 0, done.out + done.err
    return project


@pytest.fixture
def changed(tmp_path: Path) -> Callable[[Project], Project]:
    """A copy of a project with its store."""

    def copied(project: Project) -> Project:
        shutil.copytree(project.folder, tmp_path / "tiny")
        return type(project)(tmp_path / "tiny")

    return copied


def skew_of(project: Project) -> dict[str, Any]:
    """The verdict of the last build, published or withheld."""
    places = (project.folder / ".dspec" / "withheld" / "tiny", project.published)
    place = next(place for place in places if (place / "evidence" / "fleet.json").is_file())
    found = json.loads((place / "evidence" / "fleet.json").read_text())["verdicts"]
    verdict: dict[str, Any] = next(verdict for verdict in found if verdict["gate"] == "skew")
    return verdict


def test_code_that_agrees_passes(photos: Project, texts: Project) -> None:
    assert skew_of(photos)["verdict"] == skew_of(texts)["verdict"] == "pass"
    assert any("the error, split: preprocessing max |Δ|" in line for line in skew_of(photos)["detail"])
    assert any("padded and alone, 2 fixtures are answered alike (`mask`)" in line for line in skew_of(texts)["detail"])


@pytest.mark.parametrize(
    ("name", "step", "cause"),
    [
        ("filter", "the first step that differs: `small` (resize): max |Δ| ",
         "likely cause: step `small` with filter bicubic instead of bilinear would match (tested on 3 fixtures)"),
        pytest.param("swapped", "the first step that differs: `read` (decode): max |Δ| ",
         "likely cause: channels in reverse order (RGB ↔ BGR) after step `read` would match (tested on 3 fixtures)", marks=pytest.mark.slow),
        pytest.param("twice", "the first step that differs: `normal` (normalize): max |Δ| ",
         "likely cause: step `normal` applied twice would match (tested on 3 fixtures)", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_a_photo_prepared_otherwise(
    photos: Project, changed: Callable[..., Project], name: str, step: str, cause: str
) -> None:
    project = changed(photos)
    project.edit_file("training.py", *CHANGES[name])
    done = project.dspec("build")
    assert done.code == 1, done.out + done.err
    assert "fleet: skew fail" in done.out
    assert cause in done.out
    assert "the first that differs: `pixels`" in done.out
    assert "preprocessing max |Δ|" in done.out
    assert ", in the answers max |Δ|" in done.out
    project.edit("training.py:encode", "training.py:walk")
    done = project.dspec("build")
    assert done.code == 1, done.out + done.err
    assert step in done.out
    assert cause in done.out


def test_a_text_cut_elsewhere(texts: Project, changed: Callable[..., Project]) -> None:
    project = changed(texts)
    project.edit_file("training.py", "LENGTH = 16", "LENGTH = 12")
    done = project.dspec("build")
    assert done.code == 1, done.out + done.err
    assert "likely cause: step `tokens` with max_length 12 instead of 16 would match (tested on 2 fixtures)" in done.out
    project.edit("training.py:encode", "training.py:walk")
    done = project.dspec("build")
    assert done.code == 1, done.out + done.err
    assert "the first step that differs: `tokens` (tokenize): shape [16] where the training code gives [12]" in done.out


def test_the_answer_made_otherwise(photos: Project, changed: Callable[..., Project]) -> None:
    project = changed(photos)
    project.edit("preprocess: training.py:encode", "preprocess: training.py:encode, postprocess: training.py:chances")
    done = project.dspec("build")
    assert done.code == 0, done.out + done.err
    assert "exporting with torch.export" not in done.out + done.err
    project.edit("training.py:chances", "training.py:without_softmax")
    done = project.dspec("build")
    assert done.code == 1, done.out + done.err
    assert "the first that differs: `odds`" in done.out
    assert "likely cause: step `odds` left out would match (tested on 3 fixtures)" in done.out


def test_a_tolerance_of_its_own_is_judged_anew_and_nothing_runs_again(
    photos: Project, changed: Callable[..., Project]
) -> None:
    project = changed(photos)
    project.edit_file("training.py", *CHANGES["filter"])
    assert project.dspec("build").code == 1
    project.edit("training: {preprocess: training.py:encode}",
                 "training: {preprocess: training.py:encode, tensors: {pixels: {atol: 9}}}")  # fmt: skip
    done = project.dspec("build")
    assert done.code == 0, done.out + done.err
    assert "every stage answered from the store" in done.out
    assert "skew: " not in done.err


def test_an_unknown_step_is_an_error(photos: Project, changed: Callable[..., Project]) -> None:
    project = changed(photos)
    project.edit("training.py:encode", "training.py:unknown")
    done = project.dspec("build")
    assert done.code == 2, done.out + done.err
    assert "E0459" in done.err
    assert "did you mean small?" in done.err
    assert "one of: read, small, unit, normal, planes" in done.err


def test_padding_that_changes_the_answer_fails_and_names_the_mask(
    texts: Project, changed: Callable[..., Project]
) -> None:
    project = changed(texts)
    project.edit_file("model.py", "MASKED = True", "MASKED = False")
    done = project.dspec("build")
    assert done.code == 1, done.out + done.err
    assert "padding changes the answer: scores of fixtures.jsonl:1 padded from 5 to 13 tokens" in done.out
    assert "the model does not keep to `mask`" in done.out
