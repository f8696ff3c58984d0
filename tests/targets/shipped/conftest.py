"""A toy bundle: text → token ids → a small ONNX graph → a label; made anew, from the shipped files alone."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis.configuration import set_hypothesis_home_dir
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from dspec.targets import shipped
from dspec.targets.protocol import Environment
from dspec.targets.shipped.arrays import Array
from dspec.targets.shipped.golden import Golden, write_golden
from dspec.targets.shipped.parts import parts

# Its folder in the checkout would be collected by pytest, with a warning that is an error here.
set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "dspec-hypothesis")

SHIPPED = Path(shipped.__path__[0])
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "red", "green", "blue", "dark", "light"]
TABLE = np.random.default_rng(7).normal(size=(len(WORDS), 4)).astype(np.float32)
TEXTS = ("red green", "blue", "dark blue light red", "")
POST = '''
"""The label of an embedding."""
import math

def label(embedding):
    if not math.isfinite(float(embedding[0])):
        raise ValueError("the embedding is not finite")
    embedding *= 1.0  # in place: must not reach anyone else
    return {"index": int(embedding.argmax()), "best": embedding.max()}
'''
DIMS = {"batch": {"min": 1, "max": 8, "multiple_of": 1}, "seq": {"min": 2, "max": 6, "multiple_of": 1}}
INPUTS = {
    "input_ids": {"dtype": "int64", "shape": ["batch", "seq"], "range": [0, len(WORDS) - 1]},
    "attention_mask": {"dtype": "int64", "shape": ["batch", "seq"], "range": None},
}
OUTPUTS = {
    "embedding": {"dtype": "float32", "shape": ["batch", 4], "range": None},
    "hidden": {"dtype": "float32", "shape": ["batch", "seq", 4], "range": None},
}
TOKENS = {"tokenizer": "assets/tokens/tokenizer.json", "max_length": 6, "padding": "longest"}
PIPELINE = {
    "request": {"text": {"type": "text", "max_bytes": 200, "dtype": None, "shape": None}},
    "before": [
        {"id": "tokens", "use": "tokenize", "params": TOKENS, "in": ["text"], "out": ["input_ids", "attention_mask"]}
    ],
    "inputs": INPUTS,
    "outputs": OUTPUTS,
    "dims": DIMS,
    "batch": "batch",
    "after": [
        {
            "id": "label",
            "use": "python",
            "params": {"file": "code/post.py", "callable": "label"},
            "in": ["embedding"],
            "out": ["top"],
        }
    ],
    "response": {"embedding": "embedding", "top": "top"},
}
MANIFEST = {
    "schema": "dspec/bundle/v1alpha1",
    "name": "toy",
    "version": "1",
    "target": "here",
    "owner": "",
    "hardware": "host",
    "runtime": "onnxruntime",
    "engine": "onnxruntime",
    "variant": "fp32",
    "command": ["python", "-m", "dspec_bundle", "pipe"],
    "cores": 2,
    "interface": {"inputs": INPUTS, "outputs": OUTPUTS, "dims": DIMS, "batch": "batch"},
    "model": {"path": "model/model.onnx", "format": "onnx"},
    "options": {"optimization": "all", "intra_op_threads": 0, "opset": 0},
    "digests": {"artifact": "a" * 64, "bundle": "b" * 64},
}
POLICY = {
    "tolerance": {
        "embedding": {"atol": 1e-5, "rtol": 1e-5, "min_cosine": 0.999999, "min_topk_agreement": {"k": 2, "share": 1.0}},
        "hidden": {"atol": 1e-5, "rtol": 1e-5, "valid": "attention_mask"},
    },
    "max_failing": 0,
    "load": {},
}


def write_tokenizer(path: Path) -> None:
    """A word-level tokenizer.json whose own truncation and padding must not count."""
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=5, pad_id=0, pad_token="[PAD]")
    path.parent.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(path))


def write_model(path: Path) -> None:
    """Hidden = table[input_ids]; embedding = sum of hidden where the mask is 1."""
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["hidden"]),
        helper.make_node("Cast", ["attention_mask"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["floats", "last"], ["column"]),
        helper.make_node("Mul", ["hidden", "column"], ["kept"]),
        helper.make_node("ReduceSum", ["kept", "middle"], ["embedding"], keepdims=0),
    ]
    constants = [("table", TABLE), ("last", np.array([2])), ("middle", np.array([1]))]
    graph = helper.make_graph(
        nodes,
        "toy",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "seq"]) for name in INPUTS],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, p["shape"]) for n, p in OUTPUTS.items()],
        [numpy_helper.from_array(array, name) for name, array in constants],
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 9
    onnx.checker.check_model(model)
    onnx.save(model, str(path))


def by_hand(text: str) -> tuple[dict[str, Array], dict[str, Array]]:
    """(tensors at the door, outputs) of one text, by hand."""
    known = [WORDS.index(word) if word in WORDS else 1 for word in text.split()]
    ids = np.array([[2, *known, 3]], np.int64)
    hidden = TABLE[ids]
    door = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    return door, {"embedding": hidden.sum(axis=1, dtype=np.float64).astype(np.float32), "hidden": hidden}


def golden(text: str, number: int) -> Golden:
    door, outputs = by_hand(text)
    embedding = outputs["embedding"][0]
    return Golden(
        id=f"texts.jsonl:{number}",
        request={"text": text},
        outputs=outputs,
        response={"embedding": embedding, "top": {"index": int(embedding.argmax()), "best": embedding.max()}},
        door=door,
        trace=[("tokens", name, array[0]) for name, array in door.items()],
    )


def write_bundle(folder: Path) -> Path:
    """The toy bundle in `folder`: only files that `parts` names."""
    write_model(folder / "model/model.onnx")
    write_tokenizer(folder / "pipeline/assets/tokens/tokenizer.json")
    (folder / "pipeline/code").mkdir()
    (folder / "pipeline/code/post.py").write_text(POST)
    (folder / "pipeline/pipeline.json").write_text(json.dumps(PIPELINE))
    (folder / "bundle.json").write_text(json.dumps(MANIFEST))
    write_golden(folder / "golden", [golden(text, at) for at, text in enumerate(TEXTS, 1)], POLICY)
    for name in (*parts(("tokenize", "python")), "engine_onnxruntime.py"):
        target = folder / "dspec_bundle" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(SHIPPED / name, target)
    return folder


@pytest.fixture
def expected() -> Callable[[str], tuple[dict[str, Array], dict[str, Array]]]:
    return by_hand


@pytest.fixture
def texts() -> tuple[str, ...]:
    """Those of the golden fixtures."""
    return TEXTS


@pytest.fixture
def tokenizer(tmp_path: Path) -> str:
    """The path of the toy tokenizer: [PAD] [UNK] [CLS] [SEP] red green blue dark light, from 0."""
    path = tmp_path / "tokenizer.json"
    write_tokenizer(path)
    return str(path)


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy bundle, to read."""
    return write_bundle(tmp_path_factory.mktemp("toy"))


@pytest.fixture
def own_toy(toy: Path, tmp_path: Path) -> Path:
    """A copy of the toy bundle, to spoil."""
    return Path(shutil.copytree(toy, tmp_path / "bundle"))


@pytest.fixture
def here() -> Environment:
    return Environment(python=Path(sys.executable), cpus=())


@pytest.fixture
def amend() -> Callable[[Path, Mapping[str, Any]], None]:
    """Change keys of a JSON file."""

    def change(path: Path, changes: Mapping[str, Any]) -> None:
        path.write_text(json.dumps(json.loads(path.read_text()) | dict(changes)))

    return change
