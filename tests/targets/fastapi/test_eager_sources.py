"""The engine `eager` over the user's own module: what ships, that it answers as the exported program, and what the plan says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from dspec.compiler import stages
from dspec.compiler.captured import capture_stage
from dspec.compiler.lower import lower_target
from dspec.compiler.pipeline import write_pipeline
from dspec.spec.errors import SpecError
from dspec.spec.load import load
from dspec.spec.models import Code, Fixtures, Model, Resources, Spec, StepUse, Target, Tensor
from dspec.targets import catalogue
from dspec.targets.artifacts.safetensors_write import once, write_safetensors
from dspec.targets.fastapi.requirements import declared
from dspec.targets.fastapi.runtime import RUNTIME

# The factory's file has the name of a module that is loaded already; forward's arguments are not in the spec's order, and
# one is changed in place; the head is tied to the table; the factory leaves a wrapper on and the module in training mode.
FACTORY = """
from torch import nn

from parts.block import Block


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.table = nn.Embedding(11, width)
        self.block = Block(width)
        self.head = nn.Linear(width, 11, bias=False)
        self.head.weight = self.table.weight

    def forward(self, mask, ids):
        mask.add_(1)
        hidden = self.block(self.table(ids)) * (mask - 1).unsqueeze(-1)
        return {"unused": None, "logits": self.head(hidden), "pooled": hidden.sum(1)}


def build(width):
    return nn.DataParallel(Net(width))
"""
BLOCK = """
import torch
from pathlib import Path
from torch import nn

NAMES = (Path(__file__).parent / "names.txt").read_text().split()


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear, self.dropout = nn.Linear(width, width), nn.Dropout(0.5)
        self.register_buffer("scale", torch.linspace(0.5, len(NAMES), width), persistent=False)

    def forward(self, x):
        return torch.tanh(self.dropout(self.linear(x))) * self.scale
"""
SPEC = """\
apiVersion: dspec/v1alpha1
name: tied
model:
  factory: queue.py:build
  config: {width: 8}
  code: {sources: ["*.py", "parts/*.py"]}
  files: [parts/names.txt]
  inputs:
    ids: {dtype: int64, shape: [batch, seq], range: [0, 10]}
    mask: {dtype: float32, shape: [batch, seq], range: [0, 1]}
  outputs:
    pooled: {dtype: float32, shape: [batch, 8]}
    logits: {dtype: float32, shape: [batch, seq, 11]}
  dims: {batch: {min: 1, max: 8}, seq: {min: 2, max: 6}}
request:
  ids: {type: tensor, dtype: int64, shape: [seq]}
  mask: {type: tensor, dtype: float32, shape: [seq]}
fixtures: [{file: rows.jsonl, golden: 2}]
targets:
  sources: {runtime: fastapi, hardware: host, resources: {cores: 1}, options: {engine: eager}}
  program: {runtime: fastapi, hardware: host, resources: {cores: 1}, options: {engine: eager, eager_from: program}}
load: {rate_rps: 20, duration_s: 2}
"""
ROWS = [
    {"ids": [1, 2, 3], "mask": [1, 1, 0.5]},
    {"ids": [4, 5], "mask": [1, 1]},
    {"ids": [9, 8, 7, 6], "mask": [1, 1, 1, 0]},
]
# Asks each bundle in a process that has no dspec; torch is loaded once, for all of them.
ASK = """
import json, os, sys, traceback
sys.modules["dspec"] = None  # no import of it succeeds
from pathlib import Path
import numpy as np, safetensors.torch, torch

def ask(bundle):
    os.chdir(bundle)
    sys.path.insert(0, bundle)
    from dspec_bundle.engine import open_engine
    from dspec_bundle.errors import BundleError
    try:
        engine = open_engine(Path("."), json.loads(Path("bundle.json").read_text()))
    except BundleError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    arrays = dict(np.load("../in.npz"))
    before = {name: array.copy() for name, array in arrays.items()}
    np.savez("../out.npz", **engine.run(arrays))
    assert all((before[name] == arrays[name]).all() for name in arrays)
    fast, dynamo = torch.backends.mha.get_fastpath_enabled(), "torch._dynamo" in sys.modules
    return {"facts": engine.facts, "fast": fast, "dynamo": dynamo}

for bundle in sys.argv[1:]:
    child = os.fork()
    if not child:
        try:
            said = ask(bundle)
        except BaseException:
            said = {"error": traceback.format_exc()}
        Path(bundle, "../said.json").write_text(json.dumps(said))
        os._exit(0)
    os.waitpid(child, 0)
"""
# file, what is in it, what comes instead, what the engine says of it
SPOILED = [
    ("parts/block.py", "self.linear, ", "self.more, self.linear, ", "EngineError: queue.py:build can't build the module: ValueError: not enough values"),
    ("parts/block.py", "nn.Linear(width, width)", "nn.Linear(width, width, bias=False)", "weights.safetensors holds, which the module lacks, block.linear.bias: these sources build another module"),
    ("parts/block.py", "nn.Dropout(0.5)", "nn.PReLU()", "weights.safetensors lacks block.dropout.weight: these sources build another module"),
    ("parts/block.py", "0.5, len(NAMES), width)", "0.5, len(NAMES), width + 1)", "weights.safetensors has in another shape or dtype block.scale"),
    ("queue.py", "from torch import nn\n", "from torch import nn\nimport no_such_library\n", "MissingLibrary: engine eager needs no_such_library"),
    ("queue.py", "nn.DataParallel(Net(width))", "None", "EngineError: queue.py:build returned NoneType, no module"),
]  # fmt: skip
SAME = (
    "parts/names.txt",
    "three",
    "three four",
    "",
)  # a table that another libm computes otherwise: the one proved counts


def write(folder: Path) -> Path:
    (folder / "parts").mkdir(parents=True)
    (folder / "queue.py").write_text(FACTORY)
    (folder / "parts/block.py").write_text(BLOCK)
    (folder / "parts/names.txt").write_text("one two three")
    (folder / "stray.py").write_text("raise SystemExit('declared, and never loaded')\n")
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (folder / "deploy.yaml").write_text(SPEC)
    return folder / "deploy.yaml"


@dataclass(frozen=True)
class Captured:
    """Capture's folders, and lowering from them."""

    spec_file: Path
    pipeline: Path
    out: Path

    def lower(self, target: str, out: Path, **options: Any) -> dict[str, Any]:
        """Lay out `target`, with more options, as the stage does it; gives bundle.json as far as an engine reads it."""
        spec = load(self.spec_file, catalogue()).spec
        asked = spec.targets[target].model_copy(update={"options": spec.targets[target].options | options})
        spec = spec.model_copy(update={"targets": {target: asked}})
        candidate = stages.candidate_of(spec, asked)
        stage = stages.lower_stage(spec, target, candidate, (), (), ())
        inputs = {"program": self.out / "program", "pipeline": self.pipeline}
        inputs |= {"module": self.out / "module"} if candidate.module else {}
        value: dict[str, Any] = lower_target(stage.request, {}, inputs, out, lambda text: None)["value"]
        (out / "bundle.json").write_text(json.dumps({"engine": "eager", "cores": 1, **value}))
        return value


def capture(folder: Path) -> Captured:
    spec_file = write(folder / "spec")
    loaded = load(spec_file, catalogue())
    write_pipeline(loaded.spec, loaded.folder, folder / "pipeline")
    stage = stages.capture_stage(loaded, ())
    capture_stage(stage.request, stage.places, {"pipeline": folder / "pipeline"}, folder / "out", lambda text: None)
    return Captured(spec_file, folder / "pipeline", folder / "out")


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Captured:
    return capture(tmp_path_factory.mktemp("tied"))


@pytest.fixture(scope="module")
def laid(captured: Captured, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a target's bundle, lowered once."""
    made: dict[str, Path] = {}

    def make(target: str) -> Path:
        if target not in made:
            made[target] = tmp_path_factory.mktemp("bundles") / target
            made[target].mkdir()
            captured.lower(target, made[target])
        return made[target]

    return make


def cases(captured: Captured) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Inputs and outputs of every case that capture left."""
    index = json.loads((captured.out / "reference/index.json").read_text())
    for case in index["cases"]:
        with np.load(captured.out / "reference" / case["shard"]) as shard:
            ends = (f"{case['key']}/in/", f"{case['key']}/out/")
            yield tuple(  # type: ignore[misc]
                {name.removeprefix(end): shard[name] for name in shard.files if name.startswith(end)} for end in ends
            )


def test_the_bundle_holds_what_was_loaded_and_each_tensor_once(laid: Callable[[str], Path]) -> None:
    folder = laid("sources") / "model"
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    sources = {"sources/queue.py", "sources/parts/block.py", "sources/parts/names.txt"}
    assert files == {"model.json", "weights.safetensors", "graph.txt", *sources}
    stored = load_file(folder / "weights.safetensors")
    assert set(stored) == {"block.linear.bias", "block.linear.weight", "block.scale", "head.weight"}
    assert json.loads((folder / "model.json").read_text()) == {
        "factory": "queue.py:build",
        "config": {"width": 8},
        "inputs": ["ids", "mask"],
        "outputs": {"names": ["pooled", "logits"], "paths": ["pooled", "logits"], "count": None},
        "copied": [1],
        "tied": {"table.weight": "head.weight"},
    }
    shipped = {path.name for path in (laid("sources") / "dspec_bundle").iterdir()}
    assert {"engine_eager.py", "source_module.py", "forward.py"} <= shipped
    lines = (laid("sources") / "requirements.txt").read_text().split()
    assert {f"safetensors=={version('safetensors')}", f"torch=={version('torch').partition('+')[0]}"} <= set(lines)


@dataclass(frozen=True)
class Asked:
    """What an engine said of itself, or of its bundle, and what it answered."""

    bundle: Path
    said: dict[str, Any]
    found: dict[str, Any]


@pytest.fixture(scope="module")
def asked(
    captured: Captured, laid: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[Any, Asked]:
    """Every bundle, whole and spoiled, asked the last case of the reference."""
    arrays, _ = list(cases(captured))[-1]
    folders = {}
    for name in ("sources", "program", SAME, *SPOILED):
        folders[name] = tmp_path_factory.mktemp("asked") / "bundle"
        shutil.copytree(laid(name if isinstance(name, str) else "sources"), folders[name])
        np.savez(folders[name].with_name("in.npz"), **arrays)
        if not isinstance(name, str):
            path = folders[name] / "model/sources" / name[0]
            assert name[1] in path.read_text()
            path.write_text(path.read_text().replace(name[1], name[2]))
    command = [sys.executable, "-P", "-c", ASK, *map(str, folders.values())]
    subprocess.run(command, check=True, timeout=300)
    return {name: _answer(folder) for name, folder in folders.items()}


def _answer(bundle: Path) -> Asked:
    said = json.loads(bundle.with_name("said.json").read_text())
    return Asked(bundle, said, {} if "error" in said else dict(np.load(bundle.with_name("out.npz"))))


def test_it_answers_as_the_reference_and_as_the_program(captured: Captured, asked: dict[Any, Asked]) -> None:
    _, expected = list(cases(captured))[-1]
    assert list(asked["sources"].found) == ["pooled", "logits"]
    assert asked["sources"].said["facts"]["module"] == "from its sources"
    assert asked["program"].said["facts"]["module"] == "the exported program"
    assert (asked["sources"].said["fast"], asked["sources"].said["dynamo"]) == (False, False)
    for name in ("sources", "program", SAME):
        for output, value in expected.items():
            np.testing.assert_array_equal(asked[name].found[output], value)


def test_nothing_is_written_beside_the_sources(asked: dict[Any, Asked]) -> None:
    assert asked["sources"].found
    assert not list((asked["sources"].bundle / "model").rglob("__pycache__"))


@pytest.mark.parametrize("spoiled", SPOILED)
def test_sources_that_are_not_those_of_the_weights(asked: dict[Any, Asked], spoiled: tuple[str, ...]) -> None:
    assert spoiled[3] in asked[spoiled].said["error"]


def test_equal_bytes_from_another_folder(laid: Callable[[str], Path], tmp_path: Path) -> None:
    again = capture(tmp_path / "elsewhere")
    (tmp_path / "bundle").mkdir()
    again.lower("sources", tmp_path / "bundle")
    here = laid("sources") / "model"
    for path in (path for path in here.rglob("*") if path.is_file()):
        assert path.read_bytes() == (tmp_path / "bundle/model" / path.relative_to(here)).read_bytes(), path
        assert str(tmp_path) not in path.read_bytes().decode("latin-1")


def test_a_module_with_files_outside_ships_as_the_program(captured: Captured, tmp_path: Path) -> None:
    shutil.copytree(captured.out, tmp_path / "out")
    described = json.loads((tmp_path / "out/module/module.json").read_text()) | {"outside": ["editable.py"]}
    (tmp_path / "out/module/module.json").write_text(json.dumps(described))
    changed = Captured(captured.spec_file, captured.pipeline, tmp_path / "out")
    for name in ("auto", "sources"):
        (tmp_path / name).mkdir()
    assert changed.lower("sources", tmp_path / "auto")["model"]["format"] == "pt2"
    with pytest.raises(
        SpecError, match=r"E0522: the module's sources can't ship: editable\.py comes from an editable install"
    ):
        changed.lower("sources", tmp_path / "sources", eager_from="sources")


def spec_of(factory: str = "net.py:build", code: Code | None = None, *, graph: bool = False, **options: Any) -> Any:
    target = Target(runtime="fastapi", resources=Resources(cores=1), options={"engine": "eager", **options})
    inputs = {"x": Tensor(dtype="float32", shape=(2,))}
    model = Model(factory=factory, inputs=inputs, code=code or Code(sources=(), requirements=()))
    step = StepUse(id="scale", use="scale", inputs=("x",), outputs=("x",), place="graph")
    spec = Spec(
        api_version="dspec/v1alpha1", name="net", model=model, fixtures=(Fixtures(file="x.jsonl"),),
        targets={"a": target}, preprocess=(step,) if graph else (),
    )  # fmt: skip
    return spec, target


PINNED = Code(sources=(), requirements=(f"safetensors=={version('safetensors')}",))
CASES = [
    (spec_of(), True, "the module's own sources: net.py:build is in the spec's folder and ships with what it was seen to load"),
    (spec_of(eager_from="sources"), True, "the module's own sources"),
    (spec_of(eager_from="program"), False, "the exported program, not the module's sources, as `eager_from` asks"),
    (spec_of("safetensors.torch:load", PINNED), True, f"is in the pinned safetensors=={version('safetensors')}"),
    (spec_of("nets.one:build", Code(sources=("nets/*.py",), requirements=())), True, "is in the spec's folder"),
    (spec_of("nets.deep.one:build", Code(sources=("**/*.py",), requirements=())), True, "is in the spec's folder"),
    (spec_of("timm.models:build", PINNED), False, "timm is neither among model.code.sources nor in a package that model.code.requirements pins"),
    (spec_of(graph=True), False, "step `scale` runs in the graph, which only the program has"),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "module", "why"), CASES)
def test_the_plan_says_what_was_taken_and_why(asked: Any, module: bool, why: str) -> None:
    (found,) = RUNTIME.candidates(*asked)
    assert found.module is module
    assert any(why in reason for reason in found.reasons), found.reasons
    assert found.artifacts == ()


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (spec_of(engine="onnxruntime", eager_from="program"), "E0521: option eager_from is PyTorch's and the engine is onnxruntime"),
        (spec_of(engine="onnxruntime", eager_from="sources"), "E0521: option eager_from is PyTorch's and the engine is onnxruntime"),
        (spec_of(graph=True, eager_from="sources"), "E0522: the module's sources can't ship: step `scale` runs in the graph"),
        (spec_of("timm.models:build", eager_from="sources"), "E0522: the module's sources can't ship: timm is neither among"),
    ],
)  # fmt: skip
def test_what_is_asked_for_in_vain(asked: Any, says: str) -> None:
    with pytest.raises(SpecError, match=says) as caught:
        RUNTIME.candidates(*asked)
    assert caught.value.diagnostics[0].key == "options.eager_from"


def test_pins_are_those_that_were_proved() -> None:
    here = version("safetensors")
    assert declared([f"safetensors == {here}"]) == {f"safetensors=={here}"}
    with pytest.raises(SpecError, match=rf"E0523: .*safetensors==0\.0\.1, and the module was captured with {here}"):
        declared(["safetensors==0.0.1"])
    with pytest.raises(SpecError, match=r"E0523: .*no-such-thing==1, and it is not installed here"):
        declared(["no-such-thing==1"])


def test_safetensors_are_written_as_the_library_reads_them(tmp_path: Path) -> None:
    base = torch.arange(24.0).view(4, 6)
    given = {
        "strided": base.t(), "scalar": torch.tensor(3), "none": torch.zeros(0, 2), "half": base[1].to(torch.bfloat16),
        "flags": base > 3, "eight": base[0].to(torch.float8_e4m3fn), "more": base, "same": base, "part": base[2:],
        "long": torch.arange(2**21, dtype=torch.int32),
    }  # fmt: skip
    kept, tied = once(given)
    assert tied == {"same": "more"}
    assert write_safetensors(kept, tmp_path / "w.safetensors") == os.path.getsize(tmp_path / "w.safetensors")
    found = load_file(tmp_path / "w.safetensors")
    assert list(kept) == sorted(found)
    for name, value in kept.items():
        assert found[name].dtype == value.dtype
        assert torch.equal(found[name].to(torch.float64), value.to(torch.float64)), name
    with pytest.raises(ValueError, match=r"c is torch\.complex64, torch\.strided, which safetensors lacks"):
        write_safetensors({"c": torch.zeros(2, dtype=torch.complex64)}, tmp_path / "c.safetensors")


@pytest.mark.slow
def test_a_whole_build(tmp_path: Path) -> None:
    spec_file = write(tmp_path / "spec")
    command = [sys.executable, "-m", "dspec.compiler.cli", "build", str(spec_file)]
    done = subprocess.run(command, cwd=tmp_path / "spec", capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    bundles = tmp_path / "spec/bundles/tied"
    formats = {
        t: json.loads((bundles / t / "bundle.json").read_text())["model"]["format"] for t in ("sources", "program")
    }
    assert formats == {"sources": "sources", "program": "pt2"}
