"""Planted lies: a build is sabotaged, and the gate that must stop it does.

The saboteur is a runtime of its own, outside dspec, found through the entry-point group as any third party's would be: it
lowers like `onnxruntime` and then falsifies the file.
"""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Project = Any  # conftest.Project: importlib mode gives test folders no names

OPTIONS = """
from dataclasses import dataclass, replace
from dspec.targets.onnxruntime.options import ENTRY as HONEST, Options as Honest

@dataclass(frozen=True, kw_only=True)
class Options(Honest):
    lie: str = ""

ENTRY = replace(HONEST, name="liar", options=Options, summary="falsifies what onnxruntime lowers")
"""
RUNTIME = """
from dataclasses import replace
import numpy as np
from liar.options import Options
from dspec.targets.onnxruntime.runtime import OnnxRuntime

class Liar(OnnxRuntime):
    name = "liar"
    options = Options

    def lower(self, job, out):
        lowered = super().lower(replace(job, options=_honest(job.options)), out)
        if job.options.lie:
            path = out / lowered.model["path"]
            _falsify(path, job.options.lie)
        return lowered

def _honest(options):
    from dspec.targets.onnxruntime.options import Options as Honest
    return Honest(**{key: value for key, value in vars(options).items() if key != "lie"})

def _falsify(path, lie):
    import onnx
    from onnx import helper, numpy_helper, TensorProto
    model = onnx.load(str(path))
    graph = model.graph
    def produce(name):
        node = next(n for n in graph.node if name in n.output)
        node.output[list(node.output).index(name)] = "honest_" + name
        for reader in graph.node:
            reader.input[:] = ["honest_" + name if read == name else read for read in reader.input]
        return "honest_" + name
    def constant(name, array):
        graph.initializer.append(numpy_helper.from_array(array, name))
        return name
    if lie == "weight":
        tensor = next(t for t in graph.initializer if len(t.dims) == 2)
        array = numpy_helper.to_array(tensor).copy()
        array[0, 0] += 0.05
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    elif lie == "swap":
        a, b = produce("scores"), produce("doubled")
        graph.node.append(helper.make_node("Identity", [b], ["scores"]))
        graph.node.append(helper.make_node("Identity", [a], ["doubled"]))
    elif lie == "channels":
        for node in graph.node:
            node.input[:] = ["turned" if name == "x" else name for name in node.input]
        order = constant("order", np.array([3, 2, 1, 0], np.int64))
        graph.node.insert(0, helper.make_node("Gather", ["x", order], ["turned"], axis=1))
    elif lie == "constant":
        honest = produce("scores")
        graph.node.append(helper.make_node("Mul", [honest, constant("zero", np.zeros((), np.float32))], ["scores"]))
    elif lie == "nan":
        honest = produce("scores")
        zero = constant("zero", np.zeros((), np.float32))
        graph.node.append(helper.make_node("Sub", [honest, honest], ["nothing"]))
        graph.node.append(helper.make_node("Div", ["nothing", zero], ["scores"]))
    elif lie == "one fixture":
        honest = produce("scores")
        graph.node.append(helper.make_node("ReduceMax", ["x", constant("axis", np.array([1], np.int64))], ["top_x"], keepdims=1))
        graph.node.append(helper.make_node("Greater", ["top_x", constant("rare", np.array(99, np.float32))], ["is_rare"]))
        graph.node.append(helper.make_node("Cast", ["is_rare"], ["shift"], to=TensorProto.FLOAT))
        graph.node.append(helper.make_node("Add", [honest, "shift"], ["scores"]))
    elif lie == "random":
        honest = produce("scores")
        graph.node.append(helper.make_node("RandomNormalLike", [honest], ["noise"], scale=0.01))
        graph.node.append(helper.make_node("Add", [honest, "noise"], ["scores"]))
    else:
        raise ValueError(lie)
    onnx.save(model, str(path))

RUNTIME = Liar()
"""
METADATA = "Metadata-Version: 2.1\nName: liar\nVersion: 0\n"
ENTRY_POINTS = "[dspec.runtimes]\nliar = liar\n"


@pytest.fixture(scope="session")
def liar(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder for PYTHONPATH with the saboteur installed in it."""
    place = tmp_path_factory.mktemp("liar")
    files = {
        "liar/__init__.py": "",
        "liar/options.py": OPTIONS,
        "liar/runtime.py": RUNTIME,
        "liar-0.dist-info/METADATA": METADATA,
        "liar-0.dist-info/entry_points.txt": ENTRY_POINTS,
    }
    for name, text in files.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text)
    return str(place)


@pytest.fixture
def target(new_project: Callable[[Path], Project], liar: str, tmp_path: Path) -> Callable[[str], tuple[Any, Any]]:
    """Builds the project with one lie; gives how it ended and its verdicts."""
    project = new_project(tmp_path / "lies")
    project.edit_file("model.py", '"top": self.layers(x).argmax(-1)', '"doubled": self.layers(x) * 2')
    project.edit("top: {dtype: int64, shape: [batch]}", "doubled: {dtype: float32, shape: [batch, 3]}")
    project.edit("{runtime: onnxruntime, hardware: host}", "{runtime: liar, hardware: host, options: {lie: ''}}")
    shared = tmp_path.parent / "lies-store"  # capture is honest, and the same for every lie

    def build(lie: str) -> tuple[Any, Any]:
        project.edit("{lie: ''}", f"{{lie: '{lie}'}}")
        done = project.dspec("build", "--store", str(shared), "--format", "json", PYTHONPATH=liar)
        result = done.json
        project.edit(f"{{lie: '{lie}'}}", "{lie: ''}")
        return project, result

    return build


LIES = [
    ("weight", "outside"),
    ("swap", "outside"),
    ("channels", "outside"),
    ("constant", "outside"),
    ("nan", "NaN at"),
    ("random", "outside"),
]


def test_the_saboteur_publishes_when_it_is_honest(target: Callable[[str], tuple[Any, Any]]) -> None:
    project, result = target("")
    assert result["published"], result
    assert (project.published / "fleet" / "bundle.json").is_file()


@pytest.mark.parametrize(
    ("lie", "words"), [*LIES[:2], *(pytest.param(*lie, marks=pytest.mark.slow) for lie in LIES[2:])]
)
def test_parity_stops_the_lie(target: Callable[[str], tuple[Any, Any]], lie: str, words: str) -> None:
    project, result = target(lie)
    assert (result["exit_code"], result["published"]) == (1, False), result
    verdicts = {found["gate"]: found for found in result["targets"][0]["verdicts"]}
    assert verdicts["parity"]["verdict"] == "fail"
    assert words in "\n".join(verdicts["parity"]["detail"])
    assert not project.published.exists()


@pytest.mark.slow
def test_one_bad_fixture_among_many(target: Callable[[str], tuple[Any, Any]], tmp_path: Path) -> None:
    count = int(os.environ.get("DSPEC_FIXTURES", "1000"))
    rows = [
        {"x": [n % 7 / 3, n % 11 / 5 - 1, n % 13 / 6 - 1, 100.0 if n == count * 7 // 9 else n % 5 / 2]}
        for n in range(count)
    ]
    (tmp_path / "lies" / "fixtures.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, result = target("one fixture")
    assert result["exit_code"] == 1, result
    parity = result["targets"][0]["verdicts"][0]
    assert parity["verdict"] == "fail"
    assert f"fixtures.jsonl:{count * 7 // 9 + 1}" in "\n".join(parity["detail"])


@pytest.mark.slow
def test_quality_stops_a_lie_that_the_tolerance_lets_pass(
    target: Callable[[str], tuple[Any, Any]], label: Callable[[Path], list[int]], tmp_path: Path
) -> None:
    label(tmp_path / "lies")
    with (tmp_path / "lies" / "deploy.yaml").open("a") as spec:
        spec.write("tolerance: {default: {atol: 100}}\nquality: [{metric: accuracy, of: scores, max_loss: 0.1}]\n")
    _, result = target("channels")
    assert result["exit_code"] == 1, result
    verdicts = {found["gate"]: found for found in result["targets"][0]["verdicts"]}
    assert verdicts["parity"]["verdict"] == "inconclusive"  # what lets everything pass proves nothing
    assert verdicts["quality"]["verdict"] == "fail"
    assert "(PyTorch 1, n 16)" in verdicts["quality"]["measured"]
    assert "worse than with PyTorch: fixtures.jsonl:" in "\n".join(verdicts["quality"]["detail"])


STATEFUL = """
import numpy as np

calls = 0


def drift(x):
    global calls
    calls += 1
    return x + np.float32(0.01) * (calls > 20)
"""


def test_a_later_call_that_differs(project: Project) -> None:
    (project.folder / "drift.py").write_text(STATEFUL)
    project.add("request: {raw: {type: tensor, dtype: float32, shape: [4]}}")
    project.add("preprocess: [{id: drift, python: drift.py:drift, in: raw, out: x}]")
    fixtures = (project.folder / "fixtures.jsonl").read_text().replace('"x"', '"raw"')
    (project.folder / "fixtures.jsonl").write_text(fixtures)
    done = project.dspec("build")
    assert done.code == 1, done.out + done.err
    assert "the bundle's own pipeline feeds the model other tensors than the reference had" in done.out


JUMPING = """
import time, random
_real = time.time
time.time = lambda: _real() + random.Random(time.perf_counter_ns()).uniform(-1e7, 1e7)
"""


def test_a_wall_clock_that_jumps_changes_no_number(project: Project, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(JUMPING)
    project.edit("rate_rps: 100", "rate_rps: 90")
    done = project.dspec("build", "--format", "json", PYTHONPATH=str(tmp_path))
    assert done.code == 0, done.out + done.err
    evidence = json.loads((project.published / "evidence" / "fleet.json").read_text())["measurements"][0]
    assert 0 < evidence["latency"]["sorted_ms"][0] <= evidence["latency"]["sorted_ms"][-1] < 60_000
    assert all(1 < rate < 1e6 for rate in evidence["throughput"]["windows_rps"])
    assert all(0 < seconds < 600 for seconds in evidence["cold_start_s"])


def _built(project: Project, **environment: str) -> tuple[bool, str]:
    """Whether the build ran anything, and the digest of what it published."""
    done = project.dspec("build", **environment)
    assert done.code == 0, done.out + done.err
    digests = json.loads((project.published / "fleet" / "bundle.json").read_text())["digests"]
    return "every stage answered from the store" not in done.out, digests["artifact"]


@pytest.mark.slow
def test_a_source_imported_two_levels_down_is_part_of_the_cache(project: Project) -> None:
    (project.folder / "deep.py").write_text("SCALE = 1.0\n")
    (project.folder / "middle.py").write_text("from deep import SCALE\n")
    project.edit_file("model.py", "from torch import nn", "from torch import nn\nfrom middle import SCALE")
    project.edit_file("model.py", "self.layers(x),", "self.layers(x) * SCALE,")
    project.edit("config: {width: 32}", "config: {width: 32}\n  code: {sources: ['*.py']}")
    _, first = _built(project)
    assert not _built(project)[0]
    (project.folder / "deep.py").write_text("SCALE = 2.0\n")
    ran, second = _built(project)
    assert ran
    assert second != first


@pytest.mark.slow
def test_another_version_of_a_package_is_another_cache_key(project: Project, tmp_path: Path) -> None:
    packages = tmp_path / "packages"

    def install(version: str, scale: str) -> None:
        for old in packages.glob("toydep-*"):
            for file in old.iterdir():
                file.unlink()
            old.rmdir()
        info = packages / f"toydep-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: toydep\nVersion: {version}\n")
        (info / "RECORD").write_text(
            f"toydep.py,,\n{info.name}/METADATA,,\n{info.name}/RECORD,,\n{info.name}/top_level.txt,,\n"
        )
        (info / "top_level.txt").write_text("toydep\n")
        (packages / "toydep.py").write_text(textwrap.dedent(f"SCALE = {scale}\n"))

    install("1.0", "1.0")
    project.edit_file("model.py", "from torch import nn", "from torch import nn\nfrom toydep import SCALE")
    project.edit_file("model.py", "self.layers(x),", "self.layers(x) * SCALE,")
    _, first = _built(project, PYTHONPATH=str(packages))
    assert not _built(project, PYTHONPATH=str(packages))[0]
    install("2.0", "2.0")
    ran, second = _built(project, PYTHONPATH=str(packages))
    assert ran
    assert second != first


def test_fixture_bytes_count_and_not_their_size_or_time(project: Project) -> None:
    file = project.folder / "fixtures.jsonl"
    status, text = file.stat(), file.read_text()
    digit = next(character for character in text if character in "12345")
    file.write_text(text.replace(digit, str(int(digit) + 1), 1))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert file.stat().st_size == status.st_size
    done = project.dspec("build")
    assert done.code == 0, done.out + done.err
    assert "every stage answered from the store" not in done.out


REMEMBERS = """
before = [0.0, 0.0, 0.0]

def smooth(scores):
    global before
    mixed = [(mine + its) / 2 for mine, its in zip(scores.tolist(), before)]
    before = scores.tolist()
    return mixed
"""
DRAWS = """
import random

def smooth(scores):
    return [score + random.random() for score in scores.tolist()]
"""


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (REMEMBERS, "call 2 is answered otherwise"),
        pytest.param(DRAWS, "not what the steps make", marks=pytest.mark.slow),
    ],
)
def test_a_step_after_the_model_that_answers_as_it_likes(project: Project, source: str, words: str) -> None:
    (project.folder / "after.py").write_text(source)
    project.add("postprocess: [{id: smooth, python: after.py:smooth, in: scores, out: smoothed}]")
    project.add("response: {smoothed: {from: smoothed}}")
    done = project.dspec("build")
    assert done.code == 1, done.out + done.err
    assert words in done.out + done.err
    assert "withheld" in done.out
