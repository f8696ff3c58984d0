"""Runs a stage in a process of its own, or answers it from the store.

A stage's key covers dspec's own sources, its request (the spec keys it reads), the digests of its input trees and the
machine class where bits depend on it. What user code reads and imports is only known afterwards: the record holds the
digests of those files and the versions of those distributions, and a record counts only while they still hold.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from dspec.compiler.store import Store, Tree, tree_digest
from dspec.spec.errors import BY_EXIT_CODE, Diagnostic, DspecError, MachineError
from dspec.spec.files import sha256_of
from dspec.spec.records import digest
from dspec.targets import package_folders, runtime_names

Report = Callable[[str], None]
LOG_LINES = 15


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """What to run.

    Attributes:
        function: `module:function`, called in the child as `f(request, places, inputs, out, report)`.
        request: plain JSON, part of the key.
        places: paths and other facts that must not decide the result, not part of the key.
        inputs: trees laid out for the child, by name; their digests are part of the key.
        environment: variables of the child, part of the key.
        folder: what discovered files are relative to (the spec's folder).
    """

    name: str
    function: str
    request: Mapping[str, Any]
    places: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Tree] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path = Path()

    def key(self) -> str:
        trees = {name: tree_digest(tree) for name, tree in self.inputs.items()}
        return digest([self.name, own_sources(), sys.version, self.request, trees, dict(self.environment)])


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What a stage gave: files, a plain JSON value, the warnings of its first run, and whether it ran at all."""

    tree: Tree
    value: Any
    warnings: tuple[Diagnostic, ...]
    hit: bool


@cache
def own_sources() -> str:
    """Digest of dspec's code and of every runtime's: a changed one answers nothing from the store."""
    import dspec

    roots = sorted({Path(root) for root in dspec.__path__})
    roots += [folder for name in runtime_names() for folder in package_folders(name)]
    files = sorted({path for root in roots for pattern in ("*.py", "*.toml") for path in root.rglob(pattern)})
    return digest([[path.name, sha256_of(path)] for path in files])


def run_stage(store: Store, stage: Stage, report: Report, *, anew: bool = False) -> Outcome:
    """The stage's outcome, from the store where a record still holds; with `anew`, run in any case.

    Raises whatever DspecError the stage raised, MachineError E0601 when its process died, and DamagedBlobError when an
    input is not what the store promised (it is dropped then).
    """
    key = stage.key()
    for record in () if anew else store.records(stage.name, key):
        if _still_holds(record["discovered"], stage.folder) and _blobs_exist(store, record):
            return _outcome(record, hit=True)
    record = _run_child(store, stage, report)
    store.record(stage.name, key, record)
    return _outcome(record, hit=False)


def _outcome(record: Mapping[str, Any], *, hit: bool) -> Outcome:
    from dspec.spec.records import FileEntry

    return Outcome(
        tree=tuple(FileEntry.model_validate(entry) for entry in record["tree"]),
        value=record["value"],
        warnings=tuple(Diagnostic.from_json(found) for found in record["warnings"]),
        hit=hit,
    )


def _blobs_exist(store: Store, record: Mapping[str, Any]) -> bool:
    return all(store.blob(entry["sha256"]).is_file() for entry in record["tree"])


def _still_holds(discovered: Mapping[str, Any], folder: Path) -> bool:
    files = all(_digest_or_none(folder / name) == known for name, known in discovered["files"].items())
    return files and all(_version_or_none(name) == known for name, known in discovered["distributions"].items())


def _digest_or_none(path: Path) -> str | None:
    return sha256_of(path) if path.is_file() else None


def _version_or_none(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


@contextlib.contextmanager
def work_folder(store: Store, name: str) -> Iterator[Path]:
    """A folder of our own, gone afterwards whatever happens."""
    (store.root / "work").mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=store.root / "work"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run_child(store: Store, stage: Stage, report: Report) -> dict[str, Any]:
    with work_folder(store, stage.name) as work:
        inputs = {name: str(store.checkout(tree, work / "in" / name)) for name, tree in stage.inputs.items()}
        (work / "out").mkdir()
        request = {
            "function": stage.function, "request": stage.request, "places": stage.places,
            "inputs": inputs, "out": str(work / "out"), "folder": str(stage.folder),
        }  # fmt: skip
        (work / "request.json").write_text(json.dumps(request))
        reply = _converse(stage, work, report)
        tree = store.keep(work / "out")
        entries = [entry.model_dump(mode="json") for entry in tree]
        return {
            "tree": entries,
            **{key: reply[key] for key in ("value", "warnings", "discovered")},
        }


def _converse(stage: Stage, work: Path, report: Report) -> dict[str, Any]:
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        **stage.environment,
    }
    command = [
        sys.executable,
        "-m",
        "dspec.compiler.child",
        str(work / "request.json"),
        str(os.getpid()),
    ]
    with (work / "log.txt").open("wb") as log:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
        try:
            reply = _read_replies(child, report)
            child.wait()
        finally:
            _end_group(child)
    if reply is None:
        raise _death(stage, child.returncode, work / "log.txt")
    if "error" in reply:
        raise BY_EXIT_CODE[reply["exit"]](Diagnostic.from_json(found) for found in reply["error"])
    return reply


def _read_replies(child: subprocess.Popen[bytes], report: Report) -> dict[str, Any] | None:
    assert child.stdout is not None
    final = None
    for line in child.stdout:
        reply = json.loads(line)
        if "progress" in reply:
            report(reply["progress"])
        else:
            final = reply
    return final


def _end_group(child: subprocess.Popen[bytes]) -> None:
    """No process of the stage outlives it, whatever it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    if child.stdout:
        child.stdout.close()


def _death(stage: Stage, code: int, log: Path) -> DspecError:
    how = f"was killed by signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"ended with exit code {code}"
    last = log.read_text(errors="replace").splitlines()[-LOG_LINES:]
    hint = "memory ran out, most likely" if code == -signal.SIGKILL else "its last lines are below"
    return MachineError.of("E0601", f"the process of stage {stage.name} {how}", hint=hint, notes=tuple(last))
