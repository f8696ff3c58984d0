"""Toy bundles, laid out by the runtime's own code, and real servers over them."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from dspec.spec.catalogue import Value as KnownValue
from dspec.spec.errors import MachineError
from dspec.spec.models import RequestField
from dspec.spec.records import Interface
from dspec.targets import shipped
from dspec.targets.protocol import Environment
from dspec.targets.shipped.golden import Golden, write_golden
from dspec.targets.shipped.parts import parts
from dspec.targets.shipped.step import Value
from dspec.targets.triton.install import install
from dspec.targets.triton.models import Served, most
from dspec.targets.triton.options import Options
from dspec.targets.triton.repository import copies, lay_repository, model_folder
from dspec.targets.triton.runtime import COMMAND, OF_SERVE, OF_TRITON
from dspec.targets.triton.session import TritonSession

SHIPPED = Path(shipped.__path__[0])
HERE = Environment(python=Path(sys.executable), cpus=())
STAMP = "b" * 12
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "red", "green", "blue", "dark", "light"]
TABLE = np.random.default_rng(7).normal(size=(len(WORDS), 4)).astype(np.float32)
TEXTS = ("red green", "blue", "dark blue light red", "green")
STEPS = """
import os, signal, time
import numpy as np

def probe(text):
    first, _, rest = text.partition(" ")
    if first == "sleep":
        time.sleep(float(rest))
    if first == "fail":
        raise KeyError("/secret/path")
    return text

def label(embedding):
    return {"index": int(embedding.argmax()), "name": "größte"}

def mix(image, grid, scale, more):
    return np.frombuffer(image, np.uint8).astype(np.float32) * np.float32(scale) + grid.sum() + more["plus"]

def pair(grid):
    return np.float32(grid)
"""
BATCH = {"min": 1, "max": 8, "multiple_of": 1}


def _port(dtype: str, *shape: int | str) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "range": None}


def _field(type: str, **more: Any) -> dict[str, Any]:
    return {"type": type, "max_bytes": 200, "dtype": None, "shape": None} | more


def _step(id: str, name: str, takes: list[str], gives: list[str]) -> dict[str, Any]:
    return {"id": id, "use": "python", "params": {"file": "code/steps.py", "callable": name}, "in": takes, "out": gives}


TOKENS = {
    "id": "tokens", "use": "tokenize", "in": ["sound"], "out": ["input_ids", "attention_mask"],
    "params": {"tokenizer": "assets/tokens/tokenizer.json", "max_length": 6, "padding": "longest"},
}  # fmt: skip
# kind → pipeline.json with the interface in it
PIPELINES: dict[str, dict[str, Any]] = {
    "texts": {
        "request": {"text": _field("text")},
        "before": [_step("probe", "probe", ["text"], ["sound"]), TOKENS],
        "inputs": {name: _port("int64", "batch", "seq") for name in ("input_ids", "attention_mask")},
        "outputs": {"embedding": _port("float32", "batch", 4), "hidden": _port("float32", "batch", "seq", 4)},
        "dims": {"batch": BATCH, "seq": {"min": 2, "max": 6, "multiple_of": 1}},
        "batch": "batch",
        "after": [_step("label", "label", ["embedding"], ["top"])],
        "response": {"embedding": "embedding", "top": "top", "hidden": "hidden"},
    },
    "mixed": {
        "request": {
            "image": _field("image"), "grid": _field("tensor", dtype="float32", shape=[2, 2]), "scale": _field("number"),
            "more": _field("json"),
        },
        "before": [_step("mix", "mix", ["image", "grid", "scale", "more"], ["x"])],
        "inputs": {"x": _port("float32", "batch", "n")},
        "outputs": {"y": _port("float32", "batch", "n"), "total": _port("float32", "batch"), "odd": _port("bool", "batch", "n")},
        "dims": {"batch": BATCH, "n": {"min": 1, "max": 50, "multiple_of": 1}},
        "batch": "batch",
        "after": [],
        "response": {"y": "y", "total": "total", "odd": "odd"},
    },
    "single": {
        "request": {"grid": _field("tensor", dtype="float32", shape=[2, 3])},
        "before": [_step("pair", "pair", ["grid"], ["x"])],
        "inputs": {"x": _port("float32", 2, 3)},
        "outputs": {"y": _port("float32", 2, 3), "total": _port("float32", 2), "odd": _port("bool", 2, 3)},
        "dims": {},
        "batch": None,
        "after": [],
        "response": {"y": "y", "total": "total", "odd": "odd"},
    },
}  # fmt: skip
KNOWN: dict[str, dict[str, KnownValue | None]] = {
    "texts": {
        "embedding": Value("tensor", "float32", (4,)), "top": None, "hidden": Value("tensor", "float32", ("seq", 4)),
    },
    "mixed": {
        "y": Value("tensor", "float32", ("n",)), "total": Value("tensor", "float32", ()), "odd": Value("tensor", "bool", ("n",)),
    },
    "single": {
        "y": Value("tensor", "float32", (2, 3)), "total": Value("tensor", "float32", (2,)), "odd": Value("tensor", "bool", (2, 3)),
    },
}  # fmt: skip
NUMBERS = {"int64": TensorProto.INT64, "float32": TensorProto.FLOAT, "bool": TensorProto.BOOL}


def interface_of(kind: str) -> dict[str, Any]:
    return {key: PIPELINES[kind][key] for key in ("inputs", "outputs", "dims", "batch")}


def served_of(kind: str, cores: int = 2, **options: Any) -> Served:
    fields = {
        name: RequestField.model_validate_json(json.dumps(field)) for name, field in PIPELINES[kind]["request"].items()
    }
    return Served(
        name="toy",
        version="3",
        interface=Interface.model_validate_json(json.dumps(interface_of(kind))),
        fields=fields,
        answers=KNOWN[kind],
        options=Options(**options),
        cores=cores,
    )


def _graph(kind: str) -> onnx.ModelProto:
    """texts: hidden = table[ids], embedding = its sum under the mask; else: y = 2 x, total = its sum, odd = y > 3."""
    found = PIPELINES[kind]
    if kind == "texts":
        nodes = [
            helper.make_node("Gather", ["table", "input_ids"], ["hidden"]),
            helper.make_node("Cast", ["attention_mask"], ["floats"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["floats", "last"], ["column"]),
            helper.make_node("Mul", ["hidden", "column"], ["kept"]),
            helper.make_node("ReduceSum", ["kept", "middle"], ["embedding"], keepdims=0),
        ]
        constants = [("table", TABLE), ("last", np.array([2])), ("middle", np.array([1]))]
    else:
        nodes = [
            helper.make_node("Mul", ["x", "two"], ["y"]),
            helper.make_node("ReduceSum", ["y", "last"], ["total"], keepdims=0),
            helper.make_node("Greater", ["y", "three"], ["odd"]),
        ]
        constants = [("two", np.float32(2).reshape(1)), ("last", np.array([-1])), ("three", np.float32(3).reshape(1))]
    sides = [
        [
            helper.make_tensor_value_info(name, NUMBERS[port["dtype"]], port["shape"])
            for name, port in found[side].items()
        ]
        for side in ("inputs", "outputs")
    ]
    graph = helper.make_graph(nodes, "toy", *sides, [numpy_helper.from_array(array, name) for name, array in constants])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 9
    onnx.checker.check_model(model)
    return model


def _tokenizer(path: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(path))


def by_hand(text: str) -> dict[str, Any]:
    ids = np.array([[2, *(WORDS.index(word) if word in WORDS else 1 for word in text.split()), 3]], np.int64)
    hidden = TABLE[ids]
    embedding = hidden.sum(axis=1, dtype=np.float64).astype(np.float32)
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), "embedding": embedding, "hidden": hidden}


def _golden(text: str, number: int) -> Golden:
    found = by_hand(text)
    top = {"index": int(found["embedding"][0].argmax()), "name": "größte"}
    return Golden(
        id=f"texts.jsonl:{number}",
        request={"text": text},
        outputs={name: found[name] for name in ("embedding", "hidden")},
        response={"embedding": found["embedding"][0], "top": top, "hidden": found["hidden"][0]},
        door={name: found[name] for name in ("input_ids", "attention_mask")},
    )


def write_bundle(folder: Path, kind: str, **options: Any) -> Path:
    """`kind`: texts, mixed, or single, whose model takes one item without an axis that counts them."""
    served = served_of(kind, **options)
    (folder / "model").mkdir(parents=True)
    onnx.save(_graph(kind), str(folder / "model/model.onnx"))
    _tokenizer(folder / "pipeline/assets/tokens/tokenizer.json")
    (folder / "pipeline/code").mkdir()
    (folder / "pipeline/code/steps.py").write_text(STEPS)
    (folder / "pipeline/pipeline.json").write_text(json.dumps(PIPELINES[kind]))
    items = [_golden(text, at) for at, text in enumerate(TEXTS, 1)] if kind == "texts" else []
    tolerance = {name: {"atol": 1e-5, "rtol": 1e-5} for name in PIPELINES[kind]["outputs"]}
    write_golden(folder / "golden", items, {"tolerance": tolerance, "max_failing": 0, "load": {}})
    names = [f"serve/{name}.py" for name in OF_SERVE] + [f"triton/{name}.py" for name in OF_TRITON]
    for name in (*parts(("tokenize", "python")), *names, "engine_onnxruntime.py"):
        (folder / "dspec_bundle" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(SHIPPED / name, folder / "dspec_bundle" / name)
    engine: dict[str, Any] = {
        "engine": "onnxruntime", "model": {"path": "model.onnx"}, "options": {"intra_op_threads": 1}, "cores": 2,
        "interface": interface_of(kind),
    }  # fmt: skip
    found = lay_repository(served, engine, folder / "model", folder)
    for source, target in copies(found):
        shutil.copytree(folder / source, folder / target)
    for path in (folder / "model_repository").glob("*/config.pbtxt"):
        path.write_text(path.read_text().replace("0" * 12, STAMP))
    serve = {"shape": "python", "pipeline": served.options.pipeline, "at_once": most(served.interface, served.options)}
    manifest = {
        "schema": "dspec/bundle/v1alpha1", "name": "toy", "version": "3", "target": "here", "owner": "", "hardware": "host",
        "runtime": "triton", "engine": "onnxruntime", "variant": "fp32", "command": list(COMMAND), "cores": 2,
        "interface": interface_of(kind), "model": {"path": f"{model_folder(served)}/model.onnx", "format": "onnx"},
        "options": {"intra_op_threads": 1, "serve": serve}, "digests": {"artifact": "a" * 64, "bundle": "b" * 64},
    }  # fmt: skip
    (folder / "bundle.json").write_text(json.dumps(manifest))
    return folder


@pytest.fixture(scope="session")
def server() -> None:
    """The server itself, fetched as users fetch it."""
    try:
        install(lambda _: None)
    except MachineError as error:
        pytest.skip(f"no Triton server can be had here: {error}")


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A bundle of a kind, with options of the runtime; made once per kind and options."""
    made: dict[str, Path] = {}

    def make(kind: str, **options: Any) -> Path:
        key = json.dumps([kind, options])
        if key not in made:
            made[key] = write_bundle(tmp_path_factory.mktemp("toy") / "bundle", kind, **options)
        return made[key]

    return make


@pytest.fixture(scope="session")
def texts(server: None, bundle: Callable[..., Path]) -> Iterator[TritonSession]:
    """The bundle of texts, served; no test leaves it other than it was."""
    with TritonSession(bundle("texts"), HERE) as session:
        yield session


@pytest.fixture(scope="session")
def mixed(server: None, bundle: Callable[..., Path]) -> Iterator[TritonSession]:
    """A picture's bytes, a tensor, a number and JSON, through an ensemble; as `texts`."""
    with TritonSession(bundle("mixed", pipeline="ensemble"), HERE) as session:
        yield session


@pytest.fixture
def start(server: None) -> Iterator[Callable[[Path], TritonSession]]:
    """Servers of a test's own."""
    running: list[TritonSession] = []

    def begin(folder: Path, **limits: float) -> TritonSession:
        running.append(TritonSession(folder, HERE, **limits))
        return running[-1]

    yield begin
    for one in running:
        one.close()


@pytest.fixture
def hand() -> Callable[[str], Mapping[str, Any]]:
    """Tensors in and out of one text, by hand."""
    return by_hand


@pytest.fixture
def toy() -> Callable[..., Served]:
    """What a repository of a kind is made from."""
    return served_of
