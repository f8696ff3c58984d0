"""The user's code: found, run, watched, and blamed with its own line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from dspec.spec.errors import DspecError, ExportError, SpecError

IO = {"dtype": "float32", "shape": ["batch", 4]}
MODEL: dict[str, Any] = {"inputs": {"x": IO}, "outputs": {"y": IO}, "dims": {"batch": {"min": 1, "max": 4}}}
PLAIN = """import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.lin = nn.Linear(4, width)

    def forward(self, x):
        return self.lin(x)

def build(width=4):
    return Model(width)
"""


def refused(kind: type[DspecError], run: Any, *args: Any, **keywords: Any) -> str:
    with pytest.raises(kind) as caught:
        run(*args, **keywords)
    return str(caught.value)


def test_missing_file_and_callable(run: Any) -> None:
    said = refused(SpecError, run, PLAIN, {**MODEL, "factory": "net.py:build"})
    assert "deploy.yaml: error E0401: net.py: no such file" in said
    said = refused(SpecError, run, PLAIN, {**MODEL, "factory": "model.py:biuld"})
    assert "model.py:biuld: biuld isn't there" in said
    assert "did you mean build?" in said
    said = refused(SpecError, run, PLAIN, {**MODEL, "factory": "no_such_package.net:build"})
    assert "no module named no_such_package.net" in said


def test_config_that_does_not_fit(run: Any) -> None:
    said = refused(SpecError, run, PLAIN, {**MODEL, "config": {"widht": 4}})
    assert "E0402: model.config does not fit model.py:build: got an unexpected keyword argument 'widht'" in said
    assert "expected: keyword arguments of build(width=4)" in said


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ("import torch\n\ndef build():\n    return 1 / 0\n", 4, "calling model.py:build: ZeroDivisionError"),
        ("import torch\nraise SystemExit('usage')\n", 2, "importing model.py: SystemExit: usage"),
        ("import torch\n\ndef build(:\n", 3, "importing model.py: SyntaxError"),
        ("import torch\nimport not_installed_here\n", 2, "importing model.py: ModuleNotFoundError"),
    ],
)
def test_exceptions_have_the_users_line(source: str, line: int, words: str, run: Any) -> None:
    said = refused(ExportError, run, source, MODEL)
    assert f"model.py:{line}: error E0403: {words}" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ("{'state_dict': {}}", "model.py:build returned dict"),
        ("None", "model.py:build returned NoneType"),
        ("(nn.Linear(4, 4), 1)", "model.py:build returned tuple"),
    ],
)
def test_no_module(returned: str, words: str, run: Any) -> None:
    said = refused(ExportError, run, f"from torch import nn\n\ndef build():\n    return {returned}\n", MODEL)
    assert words in said
    assert "expected: a function that returns a torch.nn.Module" in said


def test_a_module_instead_of_a_factory(run: Any) -> None:
    said = refused(ExportError, run, PLAIN + "net = Model()\n", {**MODEL, "factory": "model.py:net"})
    assert "model.py:net is a Model itself, not a function that returns one" in said


def test_wrappers_are_taken_off(run: Any) -> None:
    source = PLAIN.replace("return Model(width)", "return nn.DataParallel(Model(width))")
    assert [digest["name"] for digest in run(source, MODEL).described["tensors"]] == ["lin.bias", "lin.weight"]


def test_the_users_object_is_unchanged(run: Any, tmp_path: Path) -> None:
    source = PLAIN.replace(
        "return Model(width)",
        "import builtins\n    builtins.dspec_test_module = made = Model(width)\n    return made",
    )
    fast = torch.backends.mha.get_fastpath_enabled()
    threads = torch.get_num_threads()
    run(source, MODEL)
    import builtins

    made = builtins.dspec_test_module  # type: ignore[attr-defined]
    del builtins.dspec_test_module  # type: ignore[attr-defined]
    assert made.training
    assert made.lin.weight.dtype == torch.float32
    assert made.lin.weight.requires_grad
    assert torch.backends.mha.get_fastpath_enabled() == fast
    assert torch.get_num_threads() == threads
    assert torch.get_default_dtype() == torch.float32
    assert "model" not in sys.modules
    assert str(tmp_path / "spec") not in sys.path


def test_undeclared_source(run: Any, tmp_path: Path) -> None:
    (tmp_path / "spec").mkdir()
    (tmp_path / "spec" / "layers.py").write_text("WIDTH = 4\n")
    source = "import layers\n" + PLAIN
    said = refused(SpecError, run, source, MODEL)
    assert "E0405: layers.py was loaded and the spec does not declare it" in said
    assert 'add "layers.py" (or a glob that covers it) to model.code.sources' in said
    captured = run(source, {**MODEL, "code": {"sources": ["lay*.py"]}})
    assert {path.name for path in captured.result.read} == {"layers.py", "model.py"}
    assert "torch" in captured.result.distributions
    assert "dspec" not in captured.result.distributions
    assert not list((tmp_path / "spec").rglob("__pycache__"))


def test_undeclared_source_imported_late(run: Any, tmp_path: Path) -> None:
    (tmp_path / "spec").mkdir()
    (tmp_path / "spec" / "late.py").write_text("")
    said = refused(SpecError, run, PLAIN.replace("return self.lin(x)", "import late; return self.lin(x)"), MODEL)
    assert "late.py was loaded" in said


def test_undeclared_file(run: Any, tmp_path: Path) -> None:
    (tmp_path / "spec" / "data").mkdir(parents=True)
    (tmp_path / "spec" / "data" / "labels.txt").write_text("4")
    source = PLAIN.replace("return Model(width)", "return Model(int(open('%s').read()))")
    source %= tmp_path / "spec" / "data" / "labels.txt"
    source = source.replace("open(", "__import__('pathlib').Path(").replace(".read()", ".read_text()")
    said = refused(SpecError, run, source, MODEL)
    assert "E0406: data/labels.txt was read and the spec does not declare it" in said
    assert 'add "data/labels.txt" to model.files' in said
    captured = run(source, {**MODEL, "files": ["data/*.txt"]})
    assert {path.name for path in captured.result.read} == {"labels.txt", "model.py"}


def test_file_from_outside(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere.txt").write_text("4")
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/nowhere")  # tests run in the temporary folder
    source = PLAIN.replace("return Model(width)", f"open({str(tmp_path / 'elsewhere.txt')!r}).close(); return Model()")
    said = refused(SpecError, run, source, MODEL)
    assert "elsewhere.txt was read; it is neither in the spec's folder nor part of an installed package" in said
    assert "move elsewhere.txt into the spec's folder" in said


def test_a_file_named_like_the_standard_library(run: Any, tmp_path: Path) -> None:
    (tmp_path / "spec").mkdir()
    (tmp_path / "spec" / "queue.py").write_text(PLAIN)
    captured = run(PLAIN, {**MODEL, "factory": "queue.py:build"})
    assert [path.name for path in captured.result.read] == ["queue.py"]


def test_a_file_in_a_subfolder(run: Any, tmp_path: Path) -> None:
    (tmp_path / "spec" / "nets").mkdir(parents=True)
    (tmp_path / "spec" / "nets" / "small.py").write_text(PLAIN)
    captured = run(PLAIN, {**MODEL, "factory": "nets/small.py:build"})
    assert set(captured.described["sources"].values()) == {"nets/small.py:10"}


def test_without_weights_the_seed_is_fixed(run: Any, tmp_path: Path) -> None:
    one = run(PLAIN, MODEL, out=tmp_path / "a")
    torch.rand(5)
    other = run(PLAIN, MODEL, out=tmp_path / "b")
    assert one.described["tensors"] == other.described["tensors"]


def test_constants_of_forward_are_reported(run: Any) -> None:
    source = PLAIN.replace("def forward(self, x)", "def forward(self, x, k=2.0, flag=None)")
    assert "forward's k is no input: it stays 2.0" in run(source, MODEL).lines
