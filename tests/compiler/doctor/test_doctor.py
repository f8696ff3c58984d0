"""`dspec doctor` says what this machine has, what it matches and what it lacks."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from dspec.compiler import doctor, hostfacts
from dspec.compiler.cli import main
from dspec.compiler.doctor import in_range, packages
from dspec.spec.hardware import PROFILES

EXAMPLES = Path(__file__).parents[3] / "examples"
SPEC = """\
apiVersion: dspec/v1alpha1
name: small
model:
  factory: model.py:build
  inputs: {x: {dtype: float32, shape: [batch, 4]}}
  outputs: {y: {dtype: float32, shape: [batch, 2]}}
  dims: {batch: {max: 8}}
fixtures: [{file: requests.jsonl}]
targets:
  local: {runtime: onnxruntime}
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    (tmp_path / "requests.jsonl").write_text('{"x": [1, 2, 3, 4]}\n')
    (tmp_path / "model.py").write_text("def build(): ...\n")
    (tmp_path / "deploy.yaml").write_text(SPEC)
    return tmp_path / "deploy.yaml"


@pytest.fixture
def asked(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, dict[str, Any]]]:
    def ask(*arguments: str) -> tuple[int, dict[str, Any]]:
        code = main(["doctor", *arguments, "--format", "json"])
        return code, json.loads(capsys.readouterr().out)

    return ask


def test_this_machine(asked: Callable[..., tuple[int, dict[str, Any]]]) -> None:
    code, found = asked()
    assert code == 0
    assert found["versions"]["dspec"] == version("dspec")
    assert found["cpu"]["affinity"] == len(os.sched_getaffinity(0))
    assert 1 <= found["cpu"]["granted"] <= found["cpu"]["affinity"]
    assert found["memory"]["total"] > 2**28
    torch = next(one for one in found["packages"] if one["name"] == "torch")
    assert {"capture", "onnxruntime"} <= set(torch.pop("extras"))
    assert torch == {"name": "torch", "wanted": "<2.14,>=2.13", "installed": version("torch"), "fits": True}
    assert found["profiles"].keys() == PROFILES.keys()
    assert found["profiles"]["host"] is None
    assert found["profiles"]["ios-arm64"] == "ios-arm64 is ios, this machine is linux"
    assert [one["name"] for one in found["runtimes"]] == ["executorch", "fastapi", "onnxruntime", "triton"]
    assert all(one["missing"] == [] and one["install"] == "" for one in found["runtimes"])
    assert {one["measure"] for one in found["runtimes"] if one["name"] != "triton"} == {""}
    assert {one["name"] for one in found["programs"]} == {"git", "docker", "Chromium", "chromedriver"}
    assert all(one["free"] > 0 for one in found["disks"])
    assert found["targets"] == []


def test_a_runtime_without_its_server_builds_and_can_not_be_measured(
    asked: Callable[..., tuple[int, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (triton,) = (one for one in asked()[1]["runtimes"] if one["name"] == "triton")
    assert triton["measure"] == "no Triton server is installed on this machine: `dspec triton install` fetches one"


def test_it_is_quick_and_loads_nothing_heavy(spec: Path) -> None:
    import subprocess
    import sys

    code = "import sys; from dspec.compiler.cli import main; main(); print(sorted(sys.modules))"
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code, "doctor", str(spec)], capture_output=True, text=True, check=True)
    assert time.perf_counter() - start < 10
    loaded = done.stdout.splitlines()[-1]
    assert not [name for name in ("torch", "numpy", "onnx", "onnxruntime") if f"'{name}'" in loaded]


def test_the_targets_of_a_spec(spec: Path, asked: Callable[..., tuple[int, dict[str, Any]]]) -> None:
    spec.write_text(SPEC + "  arm: {runtime: onnxruntime, hardware: linux-arm64}\n"
                    "  big: {runtime: onnxruntime, resources: {cores: 1000}, optional: true}\n")  # fmt: skip
    code, found = asked(str(spec))
    targets = {one["target"]: one for one in found["targets"]}
    assert code == 0  # measured elsewhere, built here
    assert targets["local"] == {"target": "local", "optional": False, "build": "", "measure": "", "to_do": ""}
    assert targets["arm"]["build"] == ""
    assert targets["arm"]["measure"] == f"linux-arm64 is arm64, this machine is {os.uname().machine}"
    assert targets["big"]["measure"].startswith("the target is granted 1000 cores and this machine grants ")


def test_a_profile_of_the_folder_is_matched_too(spec: Path, asked: Callable[..., tuple[int, dict[str, Any]]]) -> None:
    (spec.parent / "hardware").mkdir()
    (spec.parent / "hardware" / "wide.yaml").write_text("os: linux\narch: x86_64\nflags: [no_such_set]\n")
    (spec.parent / "hardware" / "wrong.yaml").write_text("os: [1]\n")
    found = asked(str(spec))[1]["profiles"]
    assert found["wide"] == "wide has no_such_set, this machine's CPU has not"
    assert "error E0" in found["wrong"]


def _lacking(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    from dspec.targets.pinned import installed

    monkeypatch.setattr(
        "dspec.targets.onnxruntime.runtime.installed", lambda name: "" if name in names else installed(name)
    )


def test_what_a_runtime_lacks_and_the_command(
    spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _lacking(monkeypatch, "onnx", "onnxscript")
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "  onnxruntime: lacks onnx, onnxscript\n    pip install 'dspec[onnxruntime]'\n" in text
    assert main(["doctor", str(spec)]) == 4
    assert "no: this machine lacks onnx, onnxscript for onnxruntime" in capsys.readouterr().out


def test_an_optional_target_that_can_not_be_built_is_no_failure(
    spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _lacking(monkeypatch, "onnx")
    spec.write_text(SPEC.replace("{runtime: onnxruntime}", "{runtime: onnxruntime, optional: true}"))
    assert main(["doctor", str(spec)]) == 0
    assert "local (optional)  no: this machine lacks onnx for onnxruntime" in capsys.readouterr().out


def test_a_refused_target_can_not_be_built(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec.write_text(SPEC.replace("{runtime: onnxruntime}", "{runtime: onnxruntime, options: {opset: 5}}"))
    assert main(["doctor", str(spec)]) == 4
    assert "no: option opset is 5" in capsys.readouterr().out


RANGES = [
    ("2.13.0+cpu", "<2.14,>=2.13", True), ("2.14.0", "<2.14,>=2.13", False), ("2.13", "==2.13.0", True),
    ("1.4.0", "==1.4.1", False), ("0.9", ">=0.10", False), ("3", "", True), ("1.0rc1", ">=1.0", True), ("2.0", "!=2.0", False),
]  # fmt: skip


@pytest.mark.parametrize(("installed", "wanted", "fits"), RANGES)
def test_versions_in_range(installed: str, wanted: str, fits: bool) -> None:
    assert in_range(installed, wanted) is fits


def test_each_distribution_stands_once() -> None:
    found = packages(
        ["pydantic>=2", "numpy>=2; extra == 'b'", "numpy>=2; extra == 'a'", "x; extra == 'dev'", "none-such==1"]
    )
    assert [(one.name, one.extras) for one in found] == [
        ("none-such", ("core",)),
        ("numpy", ("b", "a")),
        ("pydantic", ("core",)),
    ]
    assert [one.fits for one in found] == [False, True, True]


def _tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


V2 = "0::/slice/box\n"
V1 = "4:memory:/docker/box\n1:cpu,cpuacct:/docker/box\n0::/\n"
GROUPS: list[tuple[dict[str, str], float | None, int | None]] = [
    ({}, None, None),
    ({"proc/self/cgroup": V2, "sys/fs/cgroup/cpu.max": "max 100000\n", "sys/fs/cgroup/memory.max": "max\n"}, None, None),
    ({"proc/self/cgroup": V2, "sys/fs/cgroup/slice/box/cpu.max": "150000 100000", "sys/fs/cgroup/slice/box/memory.max": "max"},
     1.5, None),
    ({"proc/self/cgroup": V2, "sys/fs/cgroup/slice/cpu.max": "100000 100000", "sys/fs/cgroup/slice/box/cpu.max": "400000 100000",
      "sys/fs/cgroup/slice/memory.max": "2147483648", "sys/fs/cgroup/slice/box/memory.max": "1073741824"}, 1.0, 2**30),
    ({"proc/self/cgroup": V1, "sys/fs/cgroup/cpu/docker/box/cpu.cfs_quota_us": "50000",
      "sys/fs/cgroup/cpu/docker/box/cpu.cfs_period_us": "100000",
      "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
      "sys/fs/cgroup/memory/docker/box/memory.limit_in_bytes": "536870912"}, 0.5, 2**29),
    ({"proc/self/cgroup": V1, "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"},
     None, None),
    ({"sys/fs/cgroup/cpu.max": "rubbish", "sys/fs/cgroup/memory.max": "\n"}, None, None),
]  # fmt: skip


@pytest.mark.parametrize(("files", "quota", "limit"), GROUPS)
def test_limits_of_control_groups(
    tmp_path: Path, files: dict[str, str], quota: float | None, limit: int | None
) -> None:
    """Version 2 and version 1; the least of a group's own and of all above it."""
    root = _tree(tmp_path, files)
    assert hostfacts.cpu_quota(root) == quota
    assert hostfacts.memory_limit(root) == limit


def test_a_part_of_a_core_is_granted_to_no_one() -> None:
    def granted(affinity: int, quota: float | None) -> int:
        return hostfacts.Cpu(model="", instruction_sets=(), present=8, affinity=affinity, quota=quota).granted

    assert [granted(4, None), granted(4, 2.5), granted(2, 8.0), granted(4, 0.5)] == [4, 2, 2, 1]


def test_accelerators_are_the_devices_that_are_there(tmp_path: Path) -> None:
    root = _tree(tmp_path, {
        "dev/nvidia0": "", "dev/nvidiactl": "", "dev/nvidia-uvm": "",
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar 5\n",
        "proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: \t\t NVIDIA H200\nIRQ: 1\n",
    })  # fmt: skip
    assert hostfacts.accelerators(root) == (hostfacts.Accelerator(kind="cuda", name="NVIDIA H200", driver="550.54.15"),)
    assert hostfacts.accelerators(tmp_path / "nothing") == ()


def test_a_container_engine_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    assert doctor._engine() == f"no engine at unix://{tmp_path}/none.sock: No such file or directory"
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.1:2375")
    assert doctor._engine() == "engine at tcp://10.0.0.1:2375, not asked"


def test_the_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(EXAMPLES / "minilm" / "deploy.yaml")]) == 0
    text = capsys.readouterr().out
    titles = [line for line in text.splitlines() if line and not line.startswith(" ")]
    assert titles == ["machine", "hardware profiles", "runtimes", "packages", "programs", "disk", "targets"]
    assert "  matches  host" in text
    assert "  local   yes         " in text
