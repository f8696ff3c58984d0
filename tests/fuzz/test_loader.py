"""Any bytes → a spec or diagnostics: never a traceback, never over a second, never over 100 MB."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dspec.spec.errors import Diagnostic, DspecError
from dspec.spec.load import load
from dspec.spec.nodes import plain
from dspec.spec.render import FORMATS, render
from dspec.spec.yamltext import MAX_BYTES, parse
from dspec.targets import catalogue

FUZZ = settings.get_profile("dspec-fuzz")
Spoiler = Callable[..., bytes]
ROOT = Path(__file__).parents[2]
SPECS = {path.parent.name: path for path in sorted(ROOT.glob("examples/*/deploy.yaml"))}
SECONDS = 1.0
BYTES = 100_000_000
CALIBRATION_S = 0.10  # what the loop below takes on an idle core of the machines this was written on

SMALL = """\
apiVersion: dspec/v1alpha1
name: tiny
model:
  factory: model.py:build
  inputs: {x: {dtype: float32, shape: [batch, 8]}}
  outputs: {y: {dtype: float32, shape: [batch, 2]}}
  dims: {batch: {min: 1, max: 8}}
fixtures: [{file: requests.jsonl}]
targets: {local: {runtime: onnxruntime}}
"""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A spec's folder with a few hundred files: whatever hints look through is there."""
    found = tmp_path_factory.mktemp("loader")
    (found / "model.py").write_text("def build(): ...\n")
    (found / "requests.jsonl").write_text('{"x": [0]}\n')
    (found / "deep" / "er").mkdir(parents=True)
    for number in range(300):
        (found / "deep" / f"file{number}.py").write_text("")
    for number in range(12):
        (found / f"again{number}").symlink_to(found)
    load_or_find(found, SMALL.encode())  # whatever is imported or built once is, before time is taken
    return found


def load_or_find(folder: Path, data: bytes) -> tuple[Diagnostic, ...]:
    (folder / "deploy.yaml").write_bytes(data)
    try:
        return load(folder / "deploy.yaml", catalogue()).warnings
    except DspecError as error:
        return error.diagnostics


@pytest.fixture(scope="session")
def slower() -> float:
    return slowness()


def slowness() -> float:
    """How much slower than idle this machine is now: other processes share its cores and its clock.

    What earlier tests left behind is set aside: every collection would walk it, and none of it is the loader's.
    """
    gc.collect()
    gc.freeze()
    start = time.process_time()
    json.loads(json.dumps([{str(number): number} for number in range(60_000)]))
    return max(1.0, (time.process_time() - start) / CALIBRATION_S)


@contextmanager
def quick(slower: float) -> Iterator[None]:
    """CPU time of this process, so that waiting for a core does not count."""
    start = time.process_time()
    yield
    assert time.process_time() - start < SECONDS * slower


def _answered(folder: Path, data: bytes, slower: float) -> None:
    with quick(slower):
        found = load_or_find(folder, data)
        for format in FORMATS:
            render(found, format)
    assert all(one.line for one in found if one.code != "E0102")


@given(data=st.binary(max_size=300))
@FUZZ
def test_any_bytes(folder: Path, slower: float, data: bytes) -> None:
    _answered(folder, data, slower)


TOKENS = ["null", "~", "[]", "{}", "[a, b]", "{a: b}", "-1", "1e400", ".nan", "''", '"', "*a", "&a ", "<<: *a", "${X}", "017",
          "- ", ": ", "\t", "\n", "!!python/object/apply:os.system [x]", "!!binary aGk=", "---\n", "#", "{", "]", ",", "\\", "é",
          "\u2028", "\ufeff", "\x00", "../a", "9" * 400, "9" * 5000, "9" * 400 + "GiB", "a" * 3000, "(" * 300, "**/" * 30, "|\n",
          ">-\n", "? ", "%YAML 1.1\n", "2**3", "\U0001f600", "again0/again1/model.py", "*/*/*/*/*/*/*/*/*/*.pp"]  # fmt: skip


@pytest.mark.parametrize("example", SPECS)
@given(data=st.data())
@FUZZ
def test_an_example_with_pieces_exchanged(folder: Path, slower: float, example: str, data: st.DataObject) -> None:
    text = SPECS[example].read_text("utf-8")
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.sampled_from([0, 0, 1, 2, 5, 20])))
        text = text[:start] + data.draw(st.sampled_from(TOKENS)) + text[end:]
    _answered(folder, text.encode("utf-8", "surrogatepass"), slower)


@pytest.mark.parametrize("example", SPECS)
@given(data=st.data())
@FUZZ
def test_an_example_with_other_values(
    folder: Path, slower: float, spoiler: Spoiler, example: str, data: st.DataObject
) -> None:
    """Keys deleted, doubled, renamed, and values of other types: JSON is YAML."""
    whole = plain(parse(SPECS[example].read_bytes(), "deploy.yaml")[1])
    _answered(folder, spoiler(data, whole), slower)


def _with(old: str, new: str) -> str:
    assert old in SMALL
    return SMALL.replace(old, new)


def _many(entry: str, count: int) -> str:
    """`entry` with its number in place of `#`, as often as `count`."""
    return "".join(entry.replace("#", str(number)) for number in range(count))


def _targets(entry: str, count: int) -> str:
    return _with("{local: {runtime: onnxruntime}}", "{" + _many(f"t#: {{{entry}}}, ", count) + "}")


def _code(entry: str) -> str:
    return _with("model.py:build", f"model.py:build\n  code: {{{entry}}}")


BOMBS: dict[str, str] = {
    "brackets": "[" * MAX_BYTES,
    "flow mappings": "{a: " * (MAX_BYTES // 4),
    "dashes": "- " * (MAX_BYTES // 2),
    "spaces": " " * MAX_BYTES,
    "lines": "\n" * MAX_BYTES,
    "escapes": '"' + "\\u0041" * 43_000 + '"',
    "an unterminated quote": "a: 'x" + "x\n" * 100_000,
    "comments": "# x\n" * 60_000,
    "variables": "[" + "'${A}'," * 9_000 + "]",
    "emoji": "\U0001f600" * (MAX_BYTES // 4),
    "digits": "x: " + "9" * 250_000,
    "a key twice": "a: 1\n" * 40_000,
    "tags": "- !!str a\n" * 20_000,
    "anchors": "&a " * 80_000,
    "laughs": "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9)),
    "merges": "a: &a {x: 1}\nb: {<<: [" + "*a," * 9_000 + "]}\n",
    "folded": "a: >-\n" + "  x\n\n" * 50_000,
    "directives": "%A b\n" * 50_000,
    "aliases": "[" + "*a," * 80_000,
    "unknown keys": SMALL + _many("targts#: 1\n", 1_900),
    "unknown runtimes": _targets("runtime: onxruntime", 900),
    "unknown hardware": _targets("runtime: onnxruntime, hardware: linux-x86_46", 600),
    "unknown keys of targets": _targets("rntime: onnxruntime", 900),
    "unknown options": _targets("runtime: onnxruntime, options: {optimisation: x}", 450),
    "undeclared dims": _with("[batch, 8]", f"[{_many('d#, ', 3_500)}]"),
    "undeclared dims beside many": _with("{batch: {min: 1, max: 8}}", f"{{{_many('d#: {max: 3}, ', 350)}}}").replace(
        "[batch, 8]", f"[{_many('e#, ', 1_950)}]"),
    "missing fixtures": _with("[{file: requests.jsonl}]", f"[{_many('{file: reqests#.jsonl}, ', 1_150)}]"),
    "missing files": _with("model.py:build", f"model.py:build\n  files: [{_many('fle#.py, ', 1_550)}]"),
    "missing sources": _code(f"sources: [{_many(repr('*#.pp') + ', ', 1_950)}]"),
    "a pattern through links": _code("sources: ['*/*/*/*/*/*/*/*/*/*/*/*/*.pp']"),
    "patterns of stars": _code("sources: ['" + "**/*/" * 60 + "*.pp']"),
    "steps": SMALL + f"preprocess: [{_many('{id: s#, use: scal, in: x#, out: x}, ', 350)}]\n",
    "parameters": SMALL + f"preprocess: [{_many('{use: scale, fctor: 3}, ', 750)}]\n",
    "python steps": SMALL + f"preprocess: [{_many('{id: s#, python: model.py:bild, in: x, out: x}, ', 350)}]\n",
    "waivers": SMALL + f"waivers: [{_many('{target: locl, gate: parity, verdict: fail, reason: r, owner: o}, ', 500)}]\n",
    "an expression": _with("[batch, 2]", "[batch, '" + "(" * 900 + "batch" + ")" * 900 + "']"),
    "a power": _with("[batch, 2]", "[batch, '9**9**9**9**9']"),
    "a size": SMALL + "request: {x: {type: tensor, max_bytes: '" + "9" * 400 + "GiB'}}\n",
    "a long name": _with("tiny", "a" * 200_000),
    "a long file": _with("requests.jsonl", "a" * 100_000),
    "a deep file": _with("requests.jsonl", "a/" * 50_000 + "b"),
    "a long key": SMALL + "a" * 200_000 + ": 1\n",
    "a long factory": _with("model.py:build", "a/" * 90_000 + "b.py:build"),
    "a date": SMALL + "waivers: [{target: local, gate: parity, verdict: fail, reason: r, owner: o, expires: '" + "9" * 5_000 + "'}]",
}  # fmt: skip


# Counting memory takes ten times the time, so it is done where the most was found.
HEAVIEST = {"variables", "lines", "emoji", "undeclared dims", "unknown keys", "a key twice"}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_takes_neither_time_nor_memory(folder: Path, bomb: str) -> None:
    data = BOMBS[bomb].encode()[:MAX_BYTES]
    _answered(folder, data, slowness())
    if bomb not in HEAVIEST:
        return
    tracemalloc.start()
    try:
        found = load_or_find(folder, data)
        assert found
        assert tracemalloc.get_traced_memory()[1] < BYTES
    finally:
        tracemalloc.stop()


def test_many_findings_are_counted_and_not_all_told(folder: Path) -> None:
    found = load_or_find(folder, BOMBS["undeclared dims"].encode())
    assert len(found) == 201
    assert found[-1].message == "more than 200 findings: the rest is not shown"
    faults = load_or_find(folder, BOMBS["variables"].encode())
    assert any(one.message == "more than 200 faults: the rest of the file is not read" for one in faults)


SOURCES = {
    "attributes": "a" + ".b" * 100_000,
    "sums": "+".join(["1"] * 100_000),
    "brackets": "(" * 100_000,
    "signs": "x = " + "-" * 100_000 + "1",
    "lambdas": "lambda: " * 50_000 + "1",
    "calls": "f" + "()" * 100_000,
    "blocks": "".join(" " * n + "if 1:\n" for n in range(90)),
    "elifs": "if 1: pass\n" + "elif 1: pass\n" * 30_000,
    "strings": "x = f'" + '{f"' * 200 + "'",
    "decorators": "@a\n" * 100_000 + "def build(): ...\n",
    "digits": "x = " + "9" * 400_000,
    "no text": "\0\ud800",
    "names": "".join(f"a{n} = 1\n" for n in range(30_000)),
}
PARSE = """\
import sys, time
from pathlib import Path
from dspec.spec.pysource import bound_names, forward_parameters
start = time.process_time()
bound_names(Path(sys.argv[1])); forward_parameters(Path(sys.argv[1]))
print(time.process_time() - start)
"""


@pytest.mark.parametrize("kind", SOURCES)
def test_a_hostile_python_source_is_parsed_or_left_alone(tmp_path: Path, slower: float, kind: str) -> None:
    """In a process of its own: what overflows the C stack ends the interpreter without a traceback."""
    source = tmp_path / "model.py"
    source.write_text(SOURCES[kind], "utf-8", errors="surrogatepass")
    done = subprocess.run([sys.executable, "-c", PARSE, str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    assert float(done.stdout) < 4 * SECONDS * slower


def test_a_profile_without_end_is_not_read(folder: Path) -> None:
    (folder / "hardware").mkdir()
    os.mkfifo(folder / "hardware" / "board.yaml")
    try:
        found = load_or_find(folder, _targets("runtime: onnxruntime, hardware: board", 1).encode())
    finally:
        (folder / "hardware" / "board.yaml").unlink()
        (folder / "hardware").rmdir()
    assert [one.message for one in found] == ["can't read the profile: it is no file"]
