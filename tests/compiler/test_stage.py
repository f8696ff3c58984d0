"""The stage runner against real child processes; the stage functions lie in a file that only the child imports."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from dspec.compiler.stage import Outcome, Stage, run_stage
from dspec.compiler.store import Store, describe
from dspec.spec.errors import ExportError, MachineError

FUNCTIONS = """
import os, subprocess, sys, time
from pathlib import Path
from dspec.spec.errors import Diagnostic, ExportError

def work(request, places, inputs, out, report):
    report("at work")
    print("a print of user code")
    (out / "answer.txt").write_text(str(request["number"] * 2))
    with open(places["log"], "a") as log:
        log.write("ran ")
    warning = Diagnostic(code="E0499", message="careful", severity="warning")
    read = [Path(places["folder"]) / "data.txt"] if "folder" in places else []
    return {"value": {"double": request["number"] * 2}, "warnings": [warning], "read": read}

def refuse(request, places, inputs, out, report):
    raise ExportError.of("E0401", "no", hint="do otherwise")

def die(request, places, inputs, out, report):
    print("last words", file=sys.stderr)
    os.kill(os.getpid(), 9)

def leave_a_process(request, places, inputs, out, report):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    return {"value": child.pid}
"""


@pytest.fixture
def functions(tmp_path: Path) -> Path:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "stagefunctions.py").write_text(FUNCTIONS)
    return tmp_path


def _stage(root: Path, function: str, **details: object) -> Stage:
    return Stage(
        name="test",
        function=f"stagefunctions:{function}",
        request={"number": 21},
        places={"log": str(root / "log"), **details},
        environment={"PYTHONPATH": str(root / "code")},
        folder=root / "spec",
    )


def _run(root: Path, stage: Stage, heard: list[str] | None = None) -> Outcome:
    return run_stage(Store(root=root / "store"), stage, (heard if heard is not None else []).append)


def _runs(root: Path) -> int:
    return (root / "log").read_text().count("ran")


def test_a_stage_runs_once_and_replays_its_warnings(functions: Path) -> None:
    heard: list[str] = []
    first = _run(functions, _stage(functions, "work"), heard)
    second = _run(functions, _stage(functions, "work"), heard)
    assert (first.value, first.hit, second.hit, _runs(functions)) == ({"double": 42}, False, True, 1)
    assert second.warnings == first.warnings
    assert heard == ["at work"]
    assert [entry.path for entry in second.tree] == ["answer.txt"]


def test_a_changed_file_that_was_only_discovered_runs_it_again(functions: Path) -> None:
    data = functions / "spec" / "data.txt"
    data.parent.mkdir()
    data.write_text("1234")
    stage = _stage(functions, "work", folder=str(data.parent))
    _run(functions, stage)
    status = data.stat()
    data.write_text("4321")
    os.utime(data, ns=(status.st_atime_ns, status.st_mtime_ns))  # same size, same time: only the bytes tell
    assert not _run(functions, stage).hit
    data.write_text("1234")
    assert _run(functions, stage).hit
    assert _runs(functions) == 2


def test_a_lost_blob_runs_the_stage_again(functions: Path) -> None:
    tree = _run(functions, _stage(functions, "work")).tree
    Store(root=functions / "store").blob(tree[0].sha256).unlink()
    assert not _run(functions, _stage(functions, "work")).hit


def test_an_error_crosses_the_process_and_is_not_kept(functions: Path) -> None:
    for _ in range(2):
        with pytest.raises(ExportError, match="E0401: no") as caught:
            _run(functions, _stage(functions, "refuse"))
        assert caught.value.diagnostics[0].hint == "do otherwise"


def test_a_killed_stage_says_how_it_ended(functions: Path) -> None:
    with pytest.raises(MachineError) as caught:
        _run(functions, _stage(functions, "die"))
    found = caught.value.diagnostics[0]
    assert found.code == "E0601"
    assert "SIGKILL" in found.message
    assert "last words" in found.notes
    assert list((functions / "store" / "work").iterdir()) == []


def test_no_process_outlives_its_stage(functions: Path) -> None:
    pid = _run(functions, _stage(functions, "leave_a_process")).value
    for _ in range(50):
        if not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]:
            return
        time.sleep(0.1)
    pytest.fail(f"process {pid} is still there")


def test_input_trees_are_part_of_the_key(functions: Path) -> None:
    store = Store(root=functions / "store")
    keys = set()
    for text in ("a", "b"):
        folder = functions / text
        folder.mkdir()
        (folder / "f").write_text(text)
        keys.add(Stage(name="n", function="f", request={}, inputs={"x": store.keep(folder)}).key())
        assert describe(folder)
    assert len(keys) == 2
