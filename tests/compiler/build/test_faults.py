"""Whatever happens to a build, `bundles/` is the old publication or the new one, and the next build succeeds.

DSPEC_KILLS=30 runs the long form of the kill suite.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dspec.compiler.store import describe, tree_digest

Project = Any  # conftest.Project: importlib mode gives test folders no names
KILLS = int(os.environ.get("DSPEC_KILLS", "2"))


def _start(project: Project, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "dspec.compiler.cli", "build", *arguments]
    return subprocess.Popen(
        command, cwd=project.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )


def _processes_of(folder: Path) -> list[str]:
    """Processes whose command line or working folder lies in the project."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            if str(folder) in command or str(folder) in os.readlink(entry / "cwd"):
                found.append(command)
        except OSError:
            continue
    return found


def _nobody_left(folder: Path) -> None:
    for _ in range(50):
        if not _processes_of(folder):
            return
        time.sleep(0.1)
    pytest.fail(f"left behind: {_processes_of(folder)}")


def _width(project: Project, width: int) -> None:
    text = (project.folder / "deploy.yaml").read_text()
    head, _, rest = text.partition("{width: ")
    project.spec(head + "{width: " + str(width) + rest[rest.index("}") :])


def test_killed_at_random_moments(project: Project) -> None:
    draw = random.Random(11)
    before = tree_digest(describe(project.published))
    for number in range(KILLS):
        _width(project, 40 + number)
        build = _start(project)
        time.sleep(draw.uniform(0.1, 25.0))
        build.kill()
        build.communicate()
        _nobody_left(project.folder)
        after = tree_digest(describe(project.published))
        bundle = json.loads((project.published / "fleet" / "bundle.json").read_text())
        assert after == before or bundle["name"] == "tiny"
        assert project.dspec("verify", "bundles/tiny/fleet", "--digests").code == 0
        assert os.listdir(project.folder / "bundles") == ["tiny"]
        before = after
    done = project.dspec("build")
    assert done.code == 0, done.out + done.err
    assert list((project.folder / ".dspec" / "work").iterdir()) == []
    assert not list((project.folder / ".dspec").rglob("*.part"))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted(project: Project, number: signal.Signals, code: int) -> None:
    before = tree_digest(describe(project.published))
    _width(project, 77)
    build = _start(project)
    time.sleep(4)
    os.killpg(build.pid, number)
    _, errors = build.communicate(timeout=30)
    assert build.returncode == code, errors.decode()
    assert b"Traceback" not in errors
    _nobody_left(project.folder)
    assert tree_digest(describe(project.published)) == before
    assert list((project.folder / ".dspec" / "work").iterdir()) == []


def test_a_hanging_model_ends_with_the_time_allowed(project: Project) -> None:
    before = tree_digest(describe(project.published))
    project.edit_file("model.py", "def build(width):", "def build(width):\n    import time\n    time.sleep(600)")
    done = project.dspec("build", "--timeout", "6")
    assert done.code == 4
    assert "E0607: the build took longer than 6 s" in done.err
    _nobody_left(project.folder)
    assert tree_digest(describe(project.published)) == before


def test_a_killed_measuring_process_publishes_nothing(project: Project) -> None:
    before = tree_digest(describe(project.published))
    project.edit("rate_rps: 100, duration_s: 1", "rate_rps: 101, duration_s: 3")
    build = _start(project)
    victim = _bundle_process(build, project.folder)
    os.kill(victim, signal.SIGKILL)
    _, errors = build.communicate(timeout=120)
    assert build.returncode == 1, errors.decode()
    assert b"Traceback" not in errors
    _nobody_left(project.folder)
    assert tree_digest(describe(project.published)) == before
    done = project.dspec("build")
    assert done.code == 0, done.out + done.err


def _bundle_process(build: subprocess.Popen[bytes], folder: Path) -> int:
    """The id of the process that the build measures, once it is there."""
    for _ in range(1200):
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                cwd = os.readlink(entry / "cwd")
            except OSError:
                continue
            if b"dspec_bundle" in words and b"pipe" in words and cwd.startswith(str(folder)):
                return int(entry.name)
        assert build.poll() is None
        time.sleep(0.05)
    raise AssertionError("nothing was measured")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this machine lets no test mount a file system")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_is_an_error_and_leaves_the_publication(project: Project, small_disk: Path) -> None:
    before = tree_digest(describe(project.published))
    (small_disk / "filler").write_bytes(bytes(2_900_000))
    _width(project, 400)
    done = project.dspec("build", "--store", str(small_disk / "store"))
    assert done.code == 4, done.out + done.err
    assert "E0606" in done.out + done.err
    assert "No space left on device" in done.out + done.err
    assert tree_digest(describe(project.published)) == before
    (small_disk / "filler").unlink()
    done = project.dspec("build", "--store", str(small_disk / "store"))
    assert done.code == 0, done.out + done.err


def test_a_folder_that_may_not_be_written_is_an_error(project: Project, small_disk: Path) -> None:
    before = tree_digest(describe(project.published))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    done = project.dspec("build", "--bundles", str(small_disk / "bundles"))
    assert done.code == 4, done.out + done.err
    assert "E0606: the system refused" in done.err
    done = project.dspec("build", "--store", str(small_disk / "store"))
    assert done.code == 4, done.out + done.err
    assert tree_digest(describe(project.published)) == before
    assert list((project.folder / ".dspec" / "work").iterdir()) == []


def test_a_damaged_publication_is_put_right_by_the_next_build(project: Project) -> None:
    model = project.published / "fleet" / "model" / "model.onnx"
    before = tree_digest(describe(project.published / "fleet"))
    model.chmod(0o644)
    model.write_bytes(b"other bytes")  # in place: the store's blob, a hard link, is damaged with it
    assert project.dspec("verify", "bundles/tiny/fleet", "--digests").code == 1
    codes = [project.dspec("build").code for _ in range(2)]
    assert codes[-1] == 0
    assert project.dspec("verify", "bundles/tiny/fleet", "--digests").code == 0
    assert tree_digest(describe(project.published / "fleet")) == before
