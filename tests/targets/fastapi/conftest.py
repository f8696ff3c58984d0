"""Two toy bundles, made from the shipped files alone, and the real server over them."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from hypothesis.configuration import set_hypothesis_home_dir
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from dspec.targets import shipped
from dspec.targets.shipped.golden import Golden, write_golden
from dspec.targets.shipped.parts import SERVE, parts

set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "dspec-hypothesis")

SHIPPED = Path(shipped.__path__[0])
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "red", "green", "blue", "dark", "light", "nan"]
TABLE = np.random.default_rng(7).normal(size=(len(WORDS), 4)).astype(np.float32)
TABLE[WORDS.index("nan"), 0] = np.nan
TEXTS = ("red green", "blue", "dark blue light red", "green")
PRE = '''
"""What a step of a user's may do to its worker."""
import os, signal, time

def probe(text):
    first, _, rest = text.partition(" ")
    if first == "sleep":
        time.sleep(float(rest))
    if first == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if first == "fail":
        raise KeyError("/secret/path")
    return text
'''
POST = """
def label(embedding):
    return {"index": int(embedding.argmax()), "best": embedding.max()}
"""
MIX = """
import numpy as np

def mix(image, grid, scale):
    return np.frombuffer(image[:4], np.uint8).astype(np.float32) * np.float32(scale) + grid.sum()

def only(image):
    return np.frombuffer(image[:4], np.uint8).astype(np.float32)
"""
DIMS = {"batch": {"min": 1, "max": 8, "multiple_of": 1}, "seq": {"min": 2, "max": 6, "multiple_of": 1}}
PORTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "texts": (
        {
            name: {"dtype": "int64", "shape": ["batch", "seq"], "range": None}
            for name in ("input_ids", "attention_mask")
        },
        {
            "embedding": {"dtype": "float32", "shape": ["batch", 4], "range": None},
            "hidden": {"dtype": "float32", "shape": ["batch", "seq", 4], "range": None},
        },
    ),
    "mixed": (
        {"x": {"dtype": "float32", "shape": ["batch", 4], "range": None}},
        {"y": {"dtype": "float32", "shape": ["batch", 4], "range": None}},
    ),
}
TOKENS = {"tokenizer": "assets/tokens/tokenizer.json", "max_length": 6, "padding": "longest"}


def _field(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "max_bytes": 200, "dtype": None, "shape": None} | more


def _step(id: str, use: str, params: Mapping[str, Any], takes: list[str], gives: list[str]) -> dict[str, Any]:
    return {"id": id, "use": use, "params": params, "in": takes, "out": gives}


def _python(id: str, name: str, takes: list[str], gives: list[str]) -> dict[str, Any]:
    return _step(id, "python", {"file": "code/steps.py", "callable": name}, takes, gives)


PIPELINES = {
    "texts": {
        "request": {"text": _field("text")},
        "before": [
            _python("probe", "probe", ["text"], ["sound"]),
            _step("tokens", "tokenize", TOKENS, ["sound"], ["input_ids", "attention_mask"]),
        ],
        "after": [_python("label", "label", ["embedding"], ["top"])],
        "response": {"embedding": "embedding", "top": "top"},
    },
    "mixed": {
        "request": {
            "image": _field("image"),
            "grid": _field("tensor", dtype="float32", shape=[2, 2]),
            "scale": _field("number"),
        },
        "before": [_python("mix", "mix", ["image", "grid", "scale"], ["x"])],
        "after": [],
        "response": {"y": "y"},
    },
    "single": {
        "request": {"image": _field("image", max_bytes=1_000_000)},
        "before": [_python("only", "only", ["image"], ["x"])],
        "after": [],
        "response": {"y": "y"},
    },
}


def _tokenizer(path: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(path))


def _graph(kind: str) -> onnx.ModelProto:
    """texts: hidden = table[ids], embedding = sum of it under the mask, and 50 times the padding that no mask hides; mixed: y = 2 x."""
    inputs, outputs = PORTS[kind]
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
        nodes, constants = [helper.make_node("Mul", ["x", "two"], ["y"])], [("two", np.float32(2).reshape(1))]
    numbers = {"int64": TensorProto.INT64, "float32": TensorProto.FLOAT}
    graph = helper.make_graph(
        nodes,
        "toy",
        [helper.make_tensor_value_info(name, numbers[port["dtype"]], port["shape"]) for name, port in inputs.items()],
        [helper.make_tensor_value_info(name, numbers[port["dtype"]], port["shape"]) for name, port in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in constants],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 9
    onnx.checker.check_model(model)
    return model


def by_hand(text: str) -> dict[str, Any]:
    known = [WORDS.index(word) if word in WORDS else 1 for word in text.split()]
    ids = np.array([[2, *known, 3]], np.int64)
    hidden = TABLE[ids]
    embedding = hidden.sum(axis=1, dtype=np.float64).astype(np.float32)
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), "embedding": embedding, "hidden": hidden}


def _golden(text: str, number: int) -> Golden:
    found = by_hand(text)
    embedding = found["embedding"][0]
    return Golden(
        id=f"texts.jsonl:{number}",
        request={"text": text},
        outputs={name: found[name] for name in ("embedding", "hidden")},
        response={"embedding": embedding, "top": {"index": int(embedding.argmax()), "best": embedding.max()}},
        door={name: found[name] for name in ("input_ids", "attention_mask")},
    )


def write_bundle(folder: Path, kind: str, **serve: Any) -> Path:
    """`kind`: texts, mixed or single; `serve`: options of the server."""
    ports = PORTS["texts" if kind == "texts" else "mixed"]
    dims = DIMS if kind == "texts" else {"batch": DIMS["batch"]}
    interface = {"inputs": ports[0], "outputs": ports[1], "dims": dims, "batch": "batch"}
    manifest = {
        "schema": "dspec/bundle/v1alpha1", "name": "toy", "version": "1", "target": "here", "owner": "", "hardware": "host",
        "runtime": "fastapi", "engine": "onnxruntime", "variant": "fp32", "command": ["python", "-m", "dspec_bundle", "serve"],
        "cores": 2, "interface": interface, "model": {"path": "model/model.onnx", "format": "onnx"},
        "options": {"intra_op_threads": 1, "serve": {"max_batch": 8, **serve}},
        "digests": {"artifact": "a" * 64, "bundle": "b" * 64},
    }  # fmt: skip
    (folder / "model").mkdir(parents=True)
    onnx.save(_graph("texts" if kind == "texts" else "mixed"), str(folder / "model/model.onnx"))
    _tokenizer(folder / "pipeline/assets/tokens/tokenizer.json")
    (folder / "pipeline/code").mkdir()
    (folder / "pipeline/code/steps.py").write_text(PRE + POST if kind == "texts" else MIX)
    (folder / "pipeline/pipeline.json").write_text(json.dumps(PIPELINES[kind] | interface))
    (folder / "bundle.json").write_text(json.dumps(manifest))
    tolerance = {name: {"atol": 1e-5, "rtol": 1e-5} for name in ports[1]}
    items = [_golden(text, at) for at, text in enumerate(TEXTS, 1)] if kind == "texts" else []
    write_golden(folder / "golden", items, {"tolerance": tolerance, "max_failing": 0, "load": {}})
    if kind == "texts":
        values = {"output.embedding": {"edges": [-1.0, 0.0, 1.0], "expected": [0.25, 0.25, 0.25, 0.25, 0.0]},
                  "size.seq": {"edges": [3.0, 4.0], "expected": [0.5, 0.25, 0.25, 0.0]}}  # fmt: skip
        (folder / "golden/statistics.json").write_text(json.dumps({"fixtures": 4, "values": values}))
    for name in (*parts(("tokenize", "python")), *SERVE, "engine_onnxruntime.py"):
        target = folder / "dspec_bundle" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(SHIPPED / name, target)
    return folder


class Answer(NamedTuple):
    """`headers` in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Service:
    """A server process, its log as it comes."""

    def __init__(self, bundle: Path, *arguments: str, **environment: str) -> None:
        command = [sys.executable, "-B", "-m", "dspec_bundle", "serve", "--port", "0", "--drain-s", "0", *arguments]
        self.process = subprocess.Popen(
            command,
            cwd=bundle,
            env=os.environ | environment,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        self.lines: list[dict[str, Any]] = []
        self.raw: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.port = 0
        if (found := self.event("listening")) is not None:
            self.port = found["port"]

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.raw.append(line)
            if line.startswith("{"):
                self.lines.append(json.loads(line))

    def events(self, name: str) -> list[dict[str, Any]]:
        return [line for line in list(self.lines) if line["event"] == name]

    def event(self, name: str, count: int = 1, within_s: float = 30.0) -> dict[str, Any] | None:
        """The line of that event, once it was written `count` times; None if the server ends first."""
        end = time.monotonic() + within_s
        while len(found := self.events(name)) < count:
            if self.process.poll() is not None:
                self._reader.join(5)
                found = self.events(name)
                return found[-1] if len(found) >= count else None
            assert time.monotonic() < end, f"no {name} in the log: {self.raw[-5:]}"
            time.sleep(0.01)
        return found[count - 1]

    def ready(self) -> Service:
        assert self.event("worker_ready") is not None, self.raw
        return self

    @property
    def workers(self) -> list[int]:
        gone = {line["pid"] for line in self.events("worker_gone")}
        return [line["pid"] for line in self.events("worker_started") if line["pid"] not in gone]

    def ask(self, method: str, path: str, body: Any = None, within_s: float = 30.0, **headers: str) -> Answer:
        """`body`: bytes, or a value that is sent as JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=within_s)
        try:
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            if body is not None and not isinstance(body, bytes):
                body, given = json.dumps(body).encode(), {"content-type": "application/json"} | given
            connection.request(method, path, body, given)
            found = connection.getresponse()
            return Answer(found.status, {k.lower(): v for k, v in found.getheaders()}, found.read())
        finally:
            connection.close()

    def predict(self, body: Any, **headers: Any) -> Answer:
        return self.ask("POST", "/predict", body, **headers)

    def stop(self, number: int = signal.SIGTERM, within_s: float = 10.0) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(within_s)
        finally:
            self.process.kill()
            self.process.wait()
            self._reader.join(5)
            assert self.process.stderr is not None
            self.process.stderr.close()


@pytest.fixture(scope="session")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A bundle of a kind, with options of the server; made once per kind and options."""
    made: dict[str, Path] = {}

    def make(kind: str, **serve: Any) -> Path:
        key = json.dumps([kind, serve])
        if key not in made:
            made[key] = write_bundle(tmp_path_factory.mktemp("toy") / "bundle", kind, **serve)
        return made[key]

    return make


@pytest.fixture(scope="session")
def service(bundles: Callable[..., Path]) -> Iterator[Service]:
    """The texts bundle, served; no test leaves it other than it was."""
    running = Service(bundles("texts")).ready()
    yield running
    running.stop()


@pytest.fixture
def start() -> Iterator[Callable[..., Service]]:
    """Servers of a test's own."""
    running: list[Service] = []

    def begin(bundle: Path, *arguments: str, **environment: str) -> Service:
        running.append(Service(bundle, *arguments, **environment))
        return running[-1]

    yield begin
    for one in running:
        one.stop()


@pytest.fixture
def hand() -> Callable[[str], dict[str, Any]]:
    """Tensors in and out of one text, by hand."""
    return by_hand
