"""Texts whose tokens the caller makes, and values of other kinds that cross to the bundle and back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dspec.compiler.caller import Caller
from dspec.spec.errors import SpecError

Fuse = Callable[[str, str, list[dict[str, Any]]], Any]
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "red", "green", "blue", "dark")
MODEL = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(8, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, input_ids, attention_mask):
        mask = attention_mask.unsqueeze(-1).to(torch.float32)
        return self.head((self.words(input_ids) * mask).sum(1) / mask.sum(1)) * 3


def build():
    torch.manual_seed(0)
    return Net().eval()
"""
DOOR = """model:
  factory: model.py:build
  inputs:
    input_ids: {dtype: int64, shape: [batch, seq], range: [0, 7]}
    attention_mask: {dtype: int64, shape: [batch, seq]}
  outputs: {scores: {dtype: float32, shape: [batch, 3]}}
  dims: {batch: {max: 4}, seq: {min: 2, max: 8}}
request: {text: {type: text}}
"""
STEPS = """preprocess:
  - {use: normalize_text, id: clean, form: nfkc, place: contract}
  - {use: tokenize, id: tokens, tokenizer: tokenizer.json, max_length: 8, place: contract}
postprocess:
  - {use: argmax, id: word, labels: [low, middle, high], place: contract}
"""
WIDE = "\uff42\uff4c\uff55\uff45"  # blue, in letters of full width
TEXTS = ["red green", WIDE, "dark red blue green dark", "mauve"]


def tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    made.save(str(folder / "tokenizer.json"))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    tokenizer(folder)
    head = "apiVersion: dspec/v1alpha1\nname: texts\nfixtures: [{file: fixtures.jsonl}]\n"
    head += "targets: {fleet: {runtime: onnxruntime}}\nload: {rate_rps: 20, duration_s: 1, max_duration_s: 1}\n"
    (folder / "deploy.yaml").write_text(head + DOOR + STEPS)
    (folder / "model.py").write_text("import torch\nfrom torch import nn\n\n\n" + MODEL)
    (folder / "fixtures.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    command = [sys.executable, "-m", "dspec.compiler.cli", "build"]
    done = subprocess.run(command, cwd=folder, env=os.environ, capture_output=True, text=True, check=False)
    assert "PROVED" in done.stdout, done.stdout + done.stderr
    assert "fusing" not in done.stderr  # nothing runs in the graph
    return folder / "bundles" / "texts" / "fleet"


def _json(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.mark.slow
def test_a_bundle_of_tokens_needs_no_tokenizer(bundle: Path) -> None:
    pipeline = _json(bundle / "pipeline" / "pipeline.json")
    assert {name: (field["dtype"], field["shape"]) for name, field in pipeline["request"].items()} == {
        "input_ids": ("int64", ["any0"]),
        "attention_mask": ("int64", ["any0"]),
    }
    assert "tokenizers" not in (bundle / "requirements.txt").read_text()
    assert not list((bundle / "dspec_bundle" / "steps").glob("tokenize*"))
    file = pipeline["contract"]["before"][1]["params"]["tokenizer"]
    assert (bundle / "pipeline" / file).is_file()  # the caller needs it


@pytest.mark.slow
def test_texts_between_the_callers_steps_are_kept(bundle: Path) -> None:
    golden = bundle / "golden" / "0001"
    values = _json(golden / "caller" / "values.json")["values"]
    assert values["00.clean.clean"]["value"] == "blue"
    assert _json(golden / "caller" / "request.json") == {"text": WIDE}
    assert _json(golden / "request.json") == {"input_ids": [2, 6, 3], "attention_mask": [1, 1, 1]}
    scores = _json(golden / "answer.json")["response"]["scores"]
    word = ("low", "middle", "high")[int(np.argmax(scores))]
    assert _json(golden / "caller" / "answer.json") == {"response": {"word": word}}


@pytest.mark.slow
def test_the_callers_side_gives_what_was_recorded(bundle: Path) -> None:
    caller = Caller.of(bundle / "pipeline")
    for number, text in enumerate(TEXTS):
        golden = bundle / "golden" / f"{number:04d}"
        asked = caller.before({"text": text})
        assert {name: ids.tolist() for name, ids in asked.items()} == _json(golden / "request.json")
        response = {"scores": np.array(_json(golden / "answer.json")["response"]["scores"], np.float32)}
        assert caller.after(response) == _json(golden / "caller" / "answer.json")["response"]


def test_a_text_crosses_as_it_is(fuse: Fuse, tmp_path: Path) -> None:
    (tmp_path / "spec").mkdir()
    tokenizer(tmp_path / "spec")
    steps = STEPS.replace("max_length: 8, place: contract", "max_length: 8").partition("postprocess")[0]
    fusion = fuse(MODEL, DOOR + steps, [{"text": text} for text in TEXTS])
    pipeline = _json(fusion.folder / "refer" / "pipeline" / "pipeline.json")
    assert pipeline["request"] == {"clean": {"type": "text", "max_bytes": 40_000_000, "dtype": None, "shape": None}}
    assert [step["id"] for step in pipeline["before"]] == ["tokens"]
    assert [fixture["request"] for fixture in fusion.index["fixtures"]][:2] == [
        {"clean": "red green"},
        {"clean": "blue"},
    ]
    asked = [case.request for case in fusion.cases if case.kind == "fixture"]
    assert asked[1] == {"clean": "blue"}
    for case, before in zip(fusion.cases, fusion.before, strict=True):
        for name, array in before.inputs.items():
            np.testing.assert_array_equal(case.inputs[name], array)


TABLE = """model:
  factory: model.py:build
  inputs: {input: {dtype: float32, shape: [batch, 2]}}
  outputs: {y: {dtype: float32, shape: [batch, 2]}}
  dims: {batch: {max: 4}}
request: {row: {type: json}}
preprocess:
  - {use: columns, id: table, names: [a, b], missing: nan, place: contract}
  - {python: "pre.py:known", id: known}
"""
LINEAR = "def build():\n    torch.manual_seed(0)\n    return nn.Linear(2, 2).eval()\n"
PRE = "import numpy as np\n\n\ndef known(row):\n    return np.nan_to_num(row)\n"


def test_a_fixture_that_cannot_cross_is_told(fuse: Fuse, tmp_path: Path) -> None:
    (tmp_path / "spec").mkdir()
    (tmp_path / "spec" / "pre.py").write_text(PRE)
    with pytest.raises(SpecError) as caught:
        fuse(LINEAR, TABLE, [{"row": {"a": 0.5, "b": 1}}, {"row": {"a": 0.5, "b": None}}])
    (told,) = caught.value.diagnostics
    assert (told.code, told.key) == ("E0354", "preprocess")
    assert (
        "fixture fixtures.jsonl:2: what the caller's steps give can't be a request: table: nan at (1)" in told.message
    )
