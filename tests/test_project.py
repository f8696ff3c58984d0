"""What holds for the project: layout, lists, import contracts, what a light install can do."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from dspec import targets
from dspec.targets.shipped import steps

ROOT = Path(__file__).parents[1]
ROOTS = ("spec", "targets", "compiler", "dashboard")
PORTIONS = {root: ROOT / root / "dspec" / root for root in ROOTS}
SOURCES = sorted(path for portion in PORTIONS.values() for path in portion.rglob("*.py"))
SHIPPED = PORTIONS["targets"] / "shipped"
EXAMPLES = sorted(ROOT.glob("examples/*/deploy.yaml"))
LIGHT_COMMANDS = {
    "--help": ["--help"],
    "check": ["check", *map(str, EXAMPLES)],
    "schema": ["schema"],
    "explain": ["explain", "E0104"],
}
HEAVY = {
    "torch", "numpy", "onnx", "onnxruntime", "onnxscript", "onnx_ir", "executorch", "safetensors",
    "tokenizers", "transformers", "PIL", "streamlit", "fastapi", "uvicorn", "jsonschema",
}  # fmt: skip
SMALL_SPEC = """\
apiVersion: dspec/v1alpha1
name: small
model:
  factory: model.py:build
  inputs: {x: {dtype: float32, shape: [batch, 4]}}
  outputs: {y: {dtype: float32, shape: [batch, 2]}}
  dims: {batch: {max: 8}}
fixtures: [{file: requests.jsonl}]
targets: {local: {runtime: onnxruntime}}
"""
LIST_MODULES = """\
import json, sys
sys.argv = ["dspec", *sys.argv[1:]]
from dspec.compiler.cli import main
try:
    code = main()
except SystemExit as stop:
    code = stop.code
loaded = sorted({name.partition(".")[0] for name in sys.modules})
print(json.dumps({"code": code, "modules": loaded}), file=sys.stderr)
"""


def _run(command: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    line = [str(command), *arguments]
    return subprocess.run(line, cwd=cwd, env=clean, capture_output=True, text=True, check=False)


def _names_with(folder: Path, assignment: str) -> tuple[str, ...]:
    """Modules of a folder that end with `<assignment> = …`, as every part of a list does."""
    pattern = re.compile(rf"^{assignment}\b", re.MULTILINE)
    found = (path.stem for path in folder.glob("*.py") if pattern.search(path.read_text()))
    return tuple(sorted(found))


def test_runtimes_are_the_packages_that_have_options() -> None:
    found = tuple(sorted(path.parent.name for path in PORTIONS["targets"].glob("*/options.py")))
    assert found == targets.RUNTIMES


def test_builders_are_the_modules_that_have_one() -> None:
    assert _names_with(PORTIONS["targets"] / "artifacts", "BUILDER") == targets.BUILDERS


def test_steps_are_the_modules_that_have_one() -> None:
    assert _names_with(SHIPPED / "steps", "STEP") == steps.NAMES


@pytest.mark.parametrize("root", ROOTS)
def test_a_source_root_holds_one_typed_portion(root: str) -> None:
    kept = [path.name for path in (ROOT / root).iterdir() if path.name != "__pycache__"]
    assert kept == ["dspec"]
    assert not (ROOT / root / "dspec" / "__init__.py").exists()
    assert (PORTIONS[root] / "py.typed").exists()


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {path.parent for path in SOURCES}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def _name(path: Path) -> str:
    return path.relative_to(SHIPPED).as_posix()


def _top_level_imports(path: Path) -> set[str]:
    """First names of what importing the module imports, `if TYPE_CHECKING` left out."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
    return found


@pytest.mark.parametrize("path", sorted(SHIPPED.rglob("*.py")), ids=_name)
def test_shipped_modules_import_relatively_and_load_libraries_late(path: Path) -> None:
    foreign = _top_level_imports(path) - sys.stdlib_module_names
    # A step is read by `dspec check` as well, so it loads nothing at all; an engine is one library.
    engine = path.stem.removeprefix("engine_")
    if path.parent.name == "serve":  # imported by the command `serve` alone
        assert foreign <= {"numpy", "orjson", "fastapi", "starlette", "uvicorn", "prometheus_client"}
        return
    if path.parent.name == "triton":  # imported by the server's Python backend alone, which brings its own module
        assert foreign <= {"numpy", "triton_python_backend_utils"}
        return
    linked = (
        {"torch"} if engine == "executorch" else set()
    )  # its library is linked against torch, and its tensors are torch's
    assert foreign <= (set() if path.parent.name == "steps" else {"numpy", engine, *linked})


def test_import_contracts_hold() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    done = _run(lint, "--no-cache", cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("command", LIGHT_COMMANDS)
def test_light_commands_import_nothing_heavy(command: str) -> None:
    done = _run(Path(sys.executable), "-c", LIST_MODULES, *LIGHT_COMMANDS[command], cwd=ROOT)
    report = json.loads(done.stderr.splitlines()[-1])
    assert report["code"] in (0, None), done.stdout + done.stderr
    assert HEAVY.isdisjoint(report["modules"]), sorted(HEAVY.intersection(report["modules"]))


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `dspec` command of an environment that has the core install and nothing else."""
    home = tmp_path_factory.mktemp("bare") / "env"
    venv.create(home, symlinks=True)
    python = home / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", str(ROOT)], check=True)
    return home / "bin" / "dspec"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    (tmp_path / "deploy.yaml").write_text(SMALL_SPEC)
    (tmp_path / "requests.jsonl").write_text('{"x": [1, 2, 3, 4]}\n')
    (tmp_path / "model.py").write_text("raise SystemExit('must not run')\ndef build(): ...\n")
    return tmp_path


def test_the_core_install_is_light(bare: Path) -> None:
    scheme = sysconfig.get_path("purelib", vars={"base": str(bare.parents[1])})
    assert HEAVY.isdisjoint(path.name for path in Path(scheme).iterdir())


@pytest.mark.parametrize("line", ["--help", "check deploy.yaml", "schema", "explain E0104"])
def test_the_core_install_answers(bare: Path, small: Path, line: str) -> None:
    done = _run(bare, *line.split(), cwd=small)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()


def test_the_core_install_names_what_a_build_needs(bare: Path, small: Path) -> None:
    done = _run(bare, "build", "deploy.yaml", cwd=small)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "pip install 'dspec[onnxruntime]'" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
