"""Known traps as data: `cases/*.yaml` hold a model, what differs in its spec, and what dspec owes; this is the one reader.

Keys of a case
    rows      rows of faults.yaml that it stands for; none: another trap of the same kind
    model     model.py below the usual imports; `build()` is added where it defines none. `files`: other files by name
    inputs    name → `float32[batch, 4]`, with ` 0..9` behind it where the spec declares a range; `outputs` likewise
    dims      name → `1..8`, `2..`, `4..32 step 2`
    spec      merged over the spec; `add`, `change`: text to append and to replace in it (for what YAML itself is owed)
    seeds     hash seeds under which the stage runner, in different folders and zones, gets the same digests; `cwd`: where it runs
    fixtures  requests; absent: three random ones. `prepare`: Python that writes further files into `folder`; `after`:
              Python that looks at them at the end; `limit`: bytes from which weights lie beside the ONNX file
    owed      one of
      refused  exit, code, says (in the message, what was expected, the hint, the notes), `at`: part of the line it is
               placed at, `in`: the file
      built    the whole way to a session that agrees with PyTorch over every fixture and shape point; `verdict` (pass),
               `detail`, `warns` (each warning, exactly), `ports`, `answers`, `refuses`, `facts`, `operators`, `then`
               (Python that asserts more about `made`)
      checked  what `dspec check` says: exit, and the findings as [code, at, says], or their `codes` alone; `within_s`
      steps    what preprocessing steps do by themselves, without a model: a list of runs, each
        chain    the steps as in a spec, without wiring: [{use: decode, alpha: white}, …]; the first takes `given`, each next what
                 the one before gave. Asset parameters name a file that `files` or `prepare` wrote
        given    Python for the value, a tuple for several. It sees np, io, json, folder, Image (Pillow), Sound, encoded(picture,
                 format, **options) and what the case's `setup` defines
        types    Python for the `Value` of what is given, a list for several; it sees Value and the kinds (TEXT, IMAGE, …).
                 With it, what the chain gives must hold to the types that the steps' `flow` promises: kind, dtype, shape, range
        one of   `gives` (nested lists, to 1e-6; one per value in a list where there are several), `refuses` (words of the
                 RequestError), `misfits` (words of the ValueError of `flow`, for `types`; nothing runs)
        also     `shape`, `dtype`, `then` (Python that asserts about `found`), `within_s`
    gap       what is owed and not given yet: the case is expected to fail, and says so when it no longer does
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from ruamel.yaml import YAML

from dspec.compiler import cli
from dspec.spec.errors import Diagnostic, DspecError
from dspec.targets.artifacts import onnx_write
from dspec.targets.shipped import step as kinds
from dspec.targets.shipped import steps
from dspec.targets.shipped.errors import RequestError
from dspec.targets.shipped.pipeline import open_step
from dspec.targets.shipped.request import read_request

HERE = Path(__file__).parent
CASES = sorted((HERE / "cases").glob("*.yaml"))
HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n"
BUILD = "\n\ndef build(**config):\n    torch.manual_seed(11)\n    return Model(**config)\n"
_PORT = re.compile(r"^(\w+) ?\[(.*?)\](?: (\S+)\.\.(\S+))?$")
_DIM = re.compile(r"^(\d+)\.\.(\d*)(?: step (\d+))?$")
Case = dict[str, Any]

# What torch, numpy and the user's own code remark while they run is not the product's.
pytestmark = pytest.mark.filterwarnings("ignore")


def _read(path: Path) -> Any:
    return YAML(typ="safe", pure=True).load(path.read_text("utf-8"))


def _parameters() -> list[Any]:
    marks = {
        path: [pytest.mark.xfail(reason=case["gap"], strict=True)] for path in CASES if "gap" in (case := _read(path))
    }
    return [pytest.param(path, id=path.stem, marks=marks.get(path, [])) for path in CASES]


@pytest.mark.parametrize("path", _parameters())
def test_case(
    path: Path, tmp_path: Path, stages_of: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = _read(path)
    folder = tmp_path / "project"
    _write(case, folder)
    monkeypatch.chdir(case.get("cwd", tmp_path))
    if "limit" in case:
        monkeypatch.setattr(onnx_write, "SINGLE_FILE_LIMIT", case["limit"])
    ((kind, owed),) = case["owed"].items()
    owed = owed or {}
    if kind == "checked":
        _checked(owed, folder, capsys)
    elif kind == "steps":
        _steps(case, owed, folder)
    elif kind == "refused":
        with pytest.raises(DspecError) as caught:
            stages_of(folder / "deploy.yaml", tmp_path)
        _refused(owed, caught.value, folder)
    else:
        assert kind == "built"
        made = stages_of(folder / "deploy.yaml", tmp_path)
        _built(owed, made, tmp_path)
        runs = [_elsewhere(folder, tmp_path / str(seed), seed) for seed in case.get("seeds", [])]
        digests = {run.communicate()[0].splitlines()[-1] for run in runs}
        assert len(digests) == bool(runs), digests
    exec(case.get("after", ""), {"folder": folder})


def test_every_row_has_a_case_or_a_reason() -> None:
    listed = {row for rows in _read(HERE / "rows.yaml").values() for row in rows}
    here = {row for path in CASES for row in _read(path)["rows"]}
    elsewhere = set(_read(HERE / "not_here.yaml"))
    assert here <= listed
    assert not here & elsewhere
    assert sorted(listed - here - elsewhere) == []


# -- what a case writes


def _write(case: Case, folder: Path) -> None:
    folder.mkdir()
    source = case.get("model", "class Model(nn.Module):\n    def forward(self, x):\n        return x * 2\n")
    (folder / "model.py").write_text(HEAD + source + ("" if "def build(" in source else BUILD))
    for name, text in case.get("files", {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    spec = _spec(case)
    fixtures = case.get("fixtures") or _requests(spec["model"])
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in fixtures))
    text = _text(spec)
    for old, new in case.get("change", {}).items():
        assert old in text, old
        text = text.replace(old, new)
    (folder / "deploy.yaml").write_text(text + case.get("add", ""), "utf-8")
    if "prepare" in case:
        exec(case["prepare"], {"folder": folder, "torch": torch, "np": np, "nn": torch.nn, "json": json})


def _spec(case: Case) -> Case:
    ports = {side: case.get(side, "") for side in ("inputs", "outputs")}
    dims = case.get("dims", {"batch": "1..8"})
    model = {
        "factory": "model.py:build",
        "inputs": {name: _port(text) for name, text in (ports["inputs"] or {"x": "float32[batch, 4]"}).items()},
    }
    if ports["outputs"] is not None:
        outputs = ports["outputs"] or {"y": "float32[batch, 4]"}
        model["outputs"] = {name: _port(text) for name, text in outputs.items()}
    if dims:
        model["dims"] = {name: _dim(text) for name, text in dims.items()}
    spec = {
        "apiVersion": "dspec/v1alpha1",
        "name": "case",
        "model": model,
        "fixtures": [{"file": "rows.jsonl"}],
        "targets": {"here": {"runtime": "onnxruntime"}},
    }
    return _merged(spec, case.get("spec", {}))


def _port(text: str) -> Case:
    found = _PORT.match(text)
    assert found, text
    sizes = [int(size) if size.isdigit() else size for size in re.split(r", ?", found[2]) if size]
    port: Case = {"dtype": found[1], "shape": sizes}
    if found[3]:
        port["range"] = [float(found[3]), float(found[4])]
    return port


def _dim(text: str) -> Case:
    found = _DIM.match(text)
    assert found, text
    dim = {"min": int(found[1])}
    dim |= {"max": int(found[2])} if found[2] else {}
    return dim | ({"multiple_of": int(found[3])} if found[3] else {})


def _merged(base: Case, over: Mapping[str, Any]) -> Case:
    both = {key: _merged(base[key], value) for key, value in over.items() if isinstance(base.get(key), dict)}
    return {**base, **over, **both}


def _text(spec: Case) -> str:
    """One line per key down to the third level, so that findings have lines to point at."""
    lines: list[str] = []

    def put(value: Any, indent: int) -> None:
        for key, inner in value.items():
            if isinstance(inner, dict) and indent < 3:
                lines.append("  " * indent + f"{key}:")
                put(inner, indent + 1)
            else:
                lines.append("  " * indent + f"{key}: {json.dumps(inner)}")

    put(spec, 0)
    return "\n".join(lines) + "\n"


def _requests(model: Case, count: int = 3) -> list[Case]:
    """Requests of random numbers at the least sizes."""
    draw = np.random.default_rng(7)
    dims = model.get("dims", {})

    def value(port: Case, number: int) -> Any:
        shape = [_least(size, dims) for size in port["shape"] if size != "batch"]
        low, high = port.get("range", (0, 7))
        if port["dtype"] == "bool":
            return (draw.random(shape) > 0.5).tolist()
        if "int" in port["dtype"]:
            return draw.integers(int(low), int(high) + 1, shape).tolist()
        values = draw.uniform(low, high, shape) if "range" in port else draw.normal(size=shape) + number
        return np.round(values, 3).tolist()

    return [{name: value(port, number) for name, port in model["inputs"].items()} for number in range(count)]


def _least(size: int | str, dims: Case) -> int:
    if isinstance(size, int) or size not in dims:
        return size if isinstance(size, int) else 1
    step = int(dims[size].get("multiple_of", 1))
    return max(1, -(-int(dims[size]["min"]) // step)) * step


# -- what a case is owed


def _refused(owed: Case, error: DspecError, folder: Path) -> None:
    text = "\n".join(str(found) for found in error.diagnostics)
    assert (error.exit_code, owed["code"]) == (owed["exit"], _first(error.diagnostics, owed["code"])), text
    for words in owed.get("says", []):
        assert words in text, f"{words!r} is not in\n{text}"
    assert "Traceback" not in text
    found = next(one for one in error.diagnostics if one.code == owed["code"])
    assert found.hint, text
    if "at" in owed:
        file = owed.get("in", "model.py")
        assert found.file == file, text
        line = (folder / file).read_text().splitlines()[found.line - 1]
        assert owed["at"] in line, f"{found.line}: {line}\n{text}"


def _first(found: tuple[Diagnostic, ...], code: str) -> str:
    return code if any(one.code == code for one in found) else found[0].code


def _built(owed: Case, made: Any, out: Path) -> None:
    said = [warning.message for warning in made.warnings]
    assert len(said) == len(owed.get("warns", [])), said
    for words in owed.get("warns", []):
        assert any(words in one for one in said), said
    _check_ports(made, owed.get("ports", {}))
    _check_paths(made.folder, out)
    verdict = made.verdict()
    text = f"{verdict.measured}\n" + "\n".join(verdict.detail)
    assert verdict.verdict == owed.get("verdict", "pass"), text
    for words in owed.get("detail", []):
        assert words in text, text
    for number, row in enumerate(owed.get("answers", [])):
        _check_answer(made.bundle, row, f"answer {number}")
    for row in owed.get("refuses", []):
        _check_refusal(made.bundle, row)
    for name, value in owed.get("facts", {}).items():
        assert made.bundle.facts[name] == value, made.bundle.facts
    for name, count in owed.get("operators", {}).items():
        assert made.manifest.model["operators"].get(name, 0) == count, made.manifest.model["operators"]
    exec(owed.get("then", ""), {"made": made, "np": np, "torch": torch, "json": json, "pytest": pytest, "out": out})


def _elsewhere(project: Path, folder: Path, seed: int) -> subprocess.Popen[str]:
    """The same project under the stage runner, with this hash seed, in another folder and zone; prints a digest."""
    copy, out = folder / "copy" / "deeper", folder / "out"
    shutil.copytree(project, copy, ignore=shutil.ignore_patterns("__pycache__"))
    out.mkdir()
    command = [sys.executable, str(HERE / "conftest.py"), str(copy / "deploy.yaml"), str(out)]
    variables = {**os.environ, "PYTHONHASHSEED": str(seed), "TZ": f"Etc/GMT+{seed}"}
    return subprocess.Popen(command, cwd="/", env=variables, stdout=subprocess.PIPE, text=True)


def _check_ports(made: Any, ports: Mapping[str, Any]) -> None:
    """The file's own names and sizes, as ONNX Runtime reads them."""
    if made.manifest.model["format"] != "onnx":  # what other files promise is read back when they are built
        assert not ports
        return
    session = made.bundle._engine._session
    found = {port.name: port.shape for port in (*session.get_inputs(), *session.get_outputs())}
    interface = made.manifest.interface
    assert list(found) == [*interface.inputs, *interface.outputs]
    for name, shape in ports.items():
        assert found[name] == shape


def _check_paths(bundle: Path, out: Path) -> None:
    """Row 138, for every case: no place of this machine in any file."""
    places = [place.encode() for place in (str(out), f"{Path.home()}/", sys.prefix, str(HERE.parent.parent))]
    for path in sorted(bundle.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            assert not [place for place in places if place in content], path


def _check_answer(bundle: Any, row: Case, where: str) -> None:
    got = _answer(bundle, row)
    for name, value in row["is"].items():
        wanted = np.array(value, dtype=got[name].dtype)
        assert got[name].shape == wanted.shape, (where, name, got[name])
        np.testing.assert_allclose(got[name], wanted, rtol=1e-5, atol=1e-6, err_msg=f"{where}: {name}")


def _answer(bundle: Any, row: Case) -> Any:
    """`ask`: a request as `dspec run` reads it from JSON; `run`: tensors at the model's door."""
    if "ask" in row:
        return bundle.ask(read_request(bundle.pipeline.fields, row["ask"], bundle.folder)).response
    inputs = bundle.manifest["interface"]["inputs"]
    return bundle.run({name: _array(value, inputs[name]["dtype"]) for name, value in row["run"].items()})


def _array(value: Any, dtype: str) -> Any:
    """A nested list, or `{shape: […], fill: 0}`."""
    if isinstance(value, dict):
        return np.full(value["shape"], value.get("fill", 0), value.get("dtype", dtype))
    return np.array(value, dtype)


def _check_refusal(bundle: Any, row: Case) -> None:
    with pytest.raises(RequestError) as caught:
        _answer(bundle, row)
    for words in row["says"]:
        assert words in str(caught.value), str(caught.value)


def _checked(owed: Case, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, start = set(sys.modules), time.perf_counter()
    code = cli.main(["check", str(folder / "deploy.yaml"), "--format", "json"])
    found = json.loads(capsys.readouterr().out)
    found = found["diagnostics"] if isinstance(found, dict) else found
    assert time.perf_counter() - start < owed.get("within_s", 10)
    assert code == owed["exit"], found
    if "codes" in owed:
        assert {one["code"] for one in found} == set(owed["codes"]), found
        return
    assert len(found) == len(owed.get("findings", [])), found
    lines = (folder / "deploy.yaml").read_text("utf-8").splitlines()
    for one, (number, at, says) in zip(found, owed.get("findings", []), strict=True):
        text = f"{one['message']} | {one['expected']} | {one['hint']}"
        assert one["code"] == number, found
        assert at in lines[one["line"] - 1], (one["line"], lines[one["line"] - 1])
        assert says in text, text
    assert "model" not in set(sys.modules) - before


# -- steps by themselves


def _steps(case: Case, runs: Any, folder: Path) -> None:
    names = {name: getattr(kinds, name) for name in dir(kinds) if name.isupper() or name in ("Value", "Sound")}
    names |= {"np": np, "io": io, "json": json, "folder": folder, "Image": Image, "encoded": _encoded}
    exec(case.get("setup", ""), names)
    for number, run in enumerate(runs):
        _step_run(run, names, folder, f"run {number}: {run['chain']}")


def _step_run(run: Case, names: Case, folder: Path, where: str) -> None:
    ends = {"gives", "refuses", "misfits", "then", "shape"} & set(run)
    assert ends, f"{where} asserts nothing"
    types = _several(eval(run["types"], names)) if "types" in run else None
    if "misfits" in run:
        assert types is not None, where
        with pytest.raises(ValueError) as caught:  # noqa: PT011 (the words are held below)
            _flow(run["chain"], types)
        assert not [words for words in run["misfits"] if words not in str(caught.value)], f"{where}: {caught.value}"
        return
    promised = _flow(run["chain"], types) if types is not None else None
    start = time.perf_counter()
    given = _several(eval(run["given"], names))
    if "refuses" in run:
        with pytest.raises(RequestError) as refused:
            _chain(run["chain"], given, folder)
        assert not [words for words in run["refuses"] if words not in str(refused.value)], f"{where}: {refused.value}"
    else:
        _check_found(run, _chain(run["chain"], given, folder), promised, names, where)
    assert time.perf_counter() - start < run.get("within_s", 10), where


def _chain(chain: list[Case], values: tuple[Any, ...], folder: Path) -> tuple[Any, ...]:
    for link in chain:
        params = {name: value for name, value in link.items() if name != "use"}
        values = _several(open_step(link["use"], params, folder)(*values))
    return tuple(np.asarray(value) if hasattr(value, "__array__") else value for value in values)


def _flow(chain: list[Case], types: tuple[Any, ...]) -> tuple[Any, ...]:
    for link in chain:
        params = {name: tuple(v) if isinstance(v, list) else v for name, v in link.items() if name != "use"}
        types = steps.load(link["use"])(**params).flow(*types)
    return types


def _check_found(run: Case, found: tuple[Any, ...], promised: Any, names: Case, where: str) -> None:
    if "gives" in run:
        wanted = run["gives"] if len(found) > 1 else [run["gives"]]
        for one, value in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, value, rtol=1e-6, atol=1e-6, err_msg=where)
    if "shape" in run:
        assert list(found[0].shape) == run["shape"], where
    if "dtype" in run:
        assert found[0].dtype.name == run["dtype"], where
    for one, value in zip(found, promised or (), strict=bool(promised)):
        _check_promise(one, value, where)
    exec(run.get("then", ""), {**names, "found": found[0] if len(found) == 1 else found})


def _check_promise(found: Any, promised: Any, where: str) -> None:
    assert promised.dtype is None or found.dtype.name == promised.dtype, where
    if promised.shape is not None:
        sizes = zip(np.shape(found), promised.shape, strict=True)
        assert all(size == wanted for size, wanted in sizes if isinstance(wanted, int)), (
            where,
            np.shape(found),
            promised,
        )
    if promised.range is not None and np.size(found):
        assert promised.range[0] <= np.min(found), (where, promised)
        assert np.max(found) <= promised.range[1], (where, promised)


def _several(value: Any) -> tuple[Any, ...]:
    """A bare tuple is several values; named tuples (`Value`, `Sound`) are one."""
    if isinstance(value, list) and value and isinstance(value[0], kinds.Value):
        return tuple(value)
    return value if type(value) is tuple else (value,)


def _encoded(picture: Image.Image, form: str = "PNG", **options: Any) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, form, **options)
    return stream.getvalue()
