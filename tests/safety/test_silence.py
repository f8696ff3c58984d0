"""`check`, `plan`, `schema`, `doctor`, `pin` and `verify --digests` run nothing of what they look at."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dspec.compiler.store import describe

DSPEC = Path(sys.executable).with_name("dspec")
LAUNCHERS = {
    "dspec": [str(DSPEC)],
    "python -P -m": [sys.executable, "-P", "-m", "dspec.compiler.cli"],
    "python -m": [sys.executable, "-m", "dspec.compiler.cli"],
}
COMMANDS = {
    "check": ("check deploy.yaml package.yaml", "2 files checked: 0 errors"),
    "check by pattern": ("check *.yaml", "loud_weights==1.0 has no sha256"),
    "plan": ("plan", "steps.py:clean"),
    "plan with a package": ("plan package.yaml --format json", '"onnxruntime/onnxruntime/fp32"'),
    "schema": ("schema deploy", '"$schema"'),
    "doctor": ("doctor deploy.yaml", "hardware profiles"),
    "verify": ("verify ../bundle --digests", "files as listed"),
    "explain": ("explain E0104", "not YAML"),
}
EXITS = {"check by pattern": 2}


def _environment(library: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return kept | {"PYTHONPATH": str(library)}


def _run(loud: Any, launcher: list[str], line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*launcher, *line.split()],
        cwd=loud.folder, env=_environment(loud.library), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


@pytest.fixture(scope="session")
def projects(make_loud: Any, before_us: tuple[str, ...]) -> dict[str, Any]:
    """For each launcher a project. `python -m` executes some files before dspec runs; those it can't be held to."""
    every = make_loud()
    most = make_loud()
    for name in before_us:
        (most.folder / f"{name}.py").unlink(missing_ok=True)
    return {launcher: most if launcher == "python -m" else every for launcher in LAUNCHERS}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_nothing_shouts(projects: dict[str, Any], launcher: str, command: str) -> None:
    loud = projects[launcher]
    before = describe(loud.folder)
    line, said = COMMANDS[command]
    done = _run(loud, LAUNCHERS[launcher], line)
    assert loud.shouts == ""
    assert done.returncode == EXITS.get(command, 0), done.stdout + done.stderr
    assert said in done.stdout
    assert done.stderr == ""
    assert describe(loud.folder) == before


def test_python_m_leaves_few_files_to_the_folder(projects: dict[str, Any]) -> None:
    """The limit that README states: `dspec` and `python -P` are safe in any folder, a bare `python -m` in most."""
    shadows = {file.stem for file in projects["dspec"].folder.glob("*.py")}
    left = shadows - {file.stem for file in projects["python -m"].folder.glob("*.py")}
    assert len(left) < 25
    assert {"json", "argparse", "pathlib", "hashlib", "yaml", "pydantic", "torch", "dataclasses"}.isdisjoint(left)


SAFE = ("dspec", "python -P -m")


@pytest.mark.parametrize("launcher", SAFE)
def test_pin_is_silent_and_writes_the_spec_alone(make_loud: Any, launcher: str) -> None:
    loud = make_loud()
    before = {entry.path: entry for entry in describe(loud.folder)}
    done = _run(loud, LAUNCHERS[launcher], "pin unpinned.yaml")
    assert (loud.shouts, done.returncode, done.stderr) == ("", 0, "")
    assert done.stdout.startswith("model.weights: sha256 ")
    after = {entry.path: entry for entry in describe(loud.folder)}
    assert before.keys() == after.keys()
    assert [path for path in before if before[path] != after[path]] == ["unpinned.yaml"]
    assert _run(loud, LAUNCHERS[launcher], "check unpinned.yaml").returncode == 0


@pytest.mark.parametrize("launcher", SAFE)
def test_a_hardware_file_can_not_name_objects(make_loud: Any, launcher: str) -> None:
    loud = make_loud()
    shout = f"!!python/object/apply:builtins.exec [\"open({str(loud.marker)!r}, 'a').write('yaml')\"]"
    (loud.folder / "hardware" / "board.yaml").write_text(f"os: {shout}\narch: x86_64\n")
    for command in ("check", "plan", "doctor deploy.yaml"):
        done = _run(loud, LAUNCHERS[launcher], command)
        assert (loud.shouts, done.returncode) == ("", 2)
        assert "E0110: the tag" in done.stdout + done.stderr
        assert "Traceback" not in done.stderr


def test_the_files_do_shout(make_loud: Any) -> None:
    """Otherwise the silence above would prove nothing."""
    loud = make_loud()
    with pytest.raises(SystemExit, match="must not run"):
        exec(compile((loud.folder / "model.py").read_text(), "model.py", "exec"), {"__file__": "model.py"})
    pickle.loads((loud.folder / "asset.pkl").read_bytes())
    with np.load(loud.folder / "fixtures.npz", allow_pickle=True) as archive:
        archive["raw"]
    shadowed = subprocess.run(
        [sys.executable, "-c", "import json"], cwd=loud.folder, capture_output=True, text=True, check=False
    )
    assert shadowed.returncode == 1
    assert [Path(line).name for line in loud.shouts.splitlines()] == [
        "model.py", "asset.pkl", "fixtures.npz", "json.py",
    ]  # fmt: skip


AUDIT = """\
import sys
events = []
def note(event, arguments):
    if event == "open":
        path, mode, flags = arguments
        events.append([event, str(path), mode or "", flags])
    elif event == "exec":
        events.append([event, arguments[0].co_filename])
    elif event == "compile":
        source = arguments[0].decode("utf-8", "replace") if isinstance(arguments[0], bytes) else str(arguments[0])
        events.append([event, str(arguments[1]), source])
    elif event == "import":
        events.append([event, str(arguments[0]), str(arguments[1])])
    elif event.startswith(("os.", "shutil.", "subprocess.", "pickle.", "marshal.load", "ctypes.", "socket.", "tempfile.")):
        events.append([event, *map(str, arguments)])
sys.addaudithook(note)
sys.argv = ["dspec", *sys.argv[1:]]
from dspec.compiler.cli import main
try:
    code = main()
except SystemExit as stop:
    code = stop.code
found = list(events)
import json
print(json.dumps({"code": code, "events": found, "modules": sorted(sys.modules)}), file=sys.stderr)
"""
LOOKS = ("os.listdir", "os.scandir", "os.getxattr", "os.listxattr", "os.walk", "os.fwalk", "os.putenv", "os.unsetenv")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
PINNED = ".unpinned.yaml.pin"
HEAVY = {"torch", "numpy", "onnx", "onnxruntime", "safetensors", "tokenizers", "pickle"}


def _audited(loud: Any, line: str) -> dict[str, Any]:
    done = _run(loud, [sys.executable, "-B", "-P", "-c", AUDIT], line)
    report: dict[str, Any] = json.loads(done.stderr.splitlines()[-1])
    return report


@pytest.mark.parametrize("command", [*COMMANDS, "pin"])
def test_what_python_itself_saw(make_loud: Any, command: str) -> None:
    """Every event of the interpreter: no file of the project is compiled to run, executed, imported or written."""
    loud = make_loud()
    report = _audited(loud, COMMANDS[command][0] if command in COMMANDS else "pin unpinned.yaml")
    assert report["code"] == EXITS.get(command, 0)
    events = report["events"]
    root = str(loud.folder.parent)
    # `ast.parse` compiles to a tree, under the name <unknown>; nothing of that name is ever executed.
    assert [event[:2] for event in events if event[0] in ("exec", "compile") and root in event[1]] == []
    assert [event for event in events if event[0] == "exec" and event[1] == "<unknown>"] == []
    sources = {file.read_text() for file in loud.folder.parent.rglob("*.py")}
    assert {event[1] for event in events if event[0] == "compile" and event[2] in sources} <= {"<unknown>"}
    assert [event for event in events if event[0] == "import" and root in event[2]] == []
    wrote = [event[1] for event in events if event[0] == "open" and (event[3] & WRITING or set(event[2]) & set("wax+"))]
    assert [Path(path).name for path in wrote] == ([PINNED] if command == "pin" else [])
    acted = [event for event in events if event[0].partition(".")[0] not in ("open", "exec", "compile", "import", "marshal")
             and event[0] not in LOOKS]  # fmt: skip
    assert [event for event in acted if not _allowed(event, command)] == []
    assert HEAVY.isdisjoint(name for name in report["modules"] if "." not in name)


def _allowed(event: list[str], command: str) -> bool:
    """`pin` swaps its file in; `doctor` knocks at the socket of a container engine."""
    name = event[0]
    if command == "pin":
        return name in ("os.chmod", "os.rename", "shutil.copymode") and PINNED in event[1] + event[2]
    if command == "doctor" and name in ("socket.__new__", "socket.connect"):
        return True
    return event == ["ctypes.dlopen", "None"]  # the interpreter itself: what `import ctypes` does
