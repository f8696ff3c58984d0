"""The ONNX Runtime engine and the runner over it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dspec.targets.shipped.cores import quota_cores, usable_cores
from dspec.targets.shipped.errors import BundleError, EngineError, RequestError
from dspec.targets.shipped.runner import Bundle

Amend = Callable[[Path, Any], None]


def test_threads_are_explicit_and_within_what_this_process_may_use(toy: Path) -> None:
    facts = Bundle(toy).facts
    cores = min(2, len(os.sched_getaffinity(0)), quota_cores() or 2)
    assert (facts["intra_op_threads"], facts["inter_op_threads"]) == (str(cores), "1")
    assert facts["provider"] == "CPUExecutionProvider"
    assert facts["engine"].startswith("onnxruntime 1.")
    assert usable_cores(1) == 1
    assert usable_cores(10**6) <= len(os.sched_getaffinity(0))


QUOTAS = [
    ({"cpu.max": "200000 100000\n"}, 2),
    ({"cpu.max": "150000 100000\n"}, 2),
    ({"cpu.max": "50000 100000\n"}, 1),
    ({"cpu.max": "max 100000\n"}, None),
    ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
    ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
    ({}, None),
]


@pytest.mark.parametrize(("files", "cores"), QUOTAS)
def test_quota(tmp_path: Path, files: dict[str, str], cores: int | None) -> None:
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert quota_cores(tmp_path) == cores


OPTIONS = [
    ({"intra_op_threds": 1}, "unknown option 'intra_op_threds'; there are provider, optimization"),
    ({"provider": "CUDAExecutionProvider"}, "this ONNX Runtime has .*, not CUDAExecutionProvider"),
    ({"optimization": "most"}, "optimization is 'most'; one of disabled, basic, extended, all"),
    ({"inter_op_threads": 0}, "inter_op_threads at least 1"),
]


@pytest.mark.parametrize(("options", "message"), OPTIONS)
def test_options_are_held(own_toy: Path, amend: Amend, options: dict[str, Any], message: str) -> None:
    amend(own_toy / "bundle.json", {"options": options})
    with pytest.raises(EngineError, match=message):
        Bundle(own_toy)


def test_the_graph_must_be_what_the_manifest_declares(own_toy: Path, amend: Amend) -> None:
    interface = json.loads((own_toy / "bundle.json").read_text())["interface"]
    interface["outputs"]["hidden"]["dtype"] = "float64"
    amend(own_toy / "bundle.json", {"interface": interface})
    with pytest.raises(
        EngineError, match=r"graph's outputs are .*hidden float32; bundle.json declares .*hidden float64"
    ):
        Bundle(own_toy)


def test_an_engine_that_is_not_there(own_toy: Path, amend: Amend) -> None:
    amend(own_toy / "bundle.json", {"engine": "warp"})
    with pytest.raises(EngineError, match="this bundle ships no engine 'warp'"):
        Bundle(own_toy)


def test_an_unreadable_manifest(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"no bundle\.json in"):
        Bundle(tmp_path)
    (tmp_path / "bundle.json").write_text("[]")
    with pytest.raises(BundleError, match=r"bundle\.json is no JSON object"):
        Bundle(tmp_path)


def test_ids_and_sizes_are_held_where_onnx_runtime_would_not(toy: Path, expected: Any) -> None:
    bundle, (door, outputs) = Bundle(toy), expected("red blue")
    np.testing.assert_allclose(bundle.run(door)["embedding"], outputs["embedding"], 1e-5)
    with pytest.raises(RequestError, match="input_ids: the tensor holds -1; expected values from 0 to 8"):
        bundle.run(door | {"input_ids": door["input_ids"] * 0 - 1})
    with pytest.raises(RequestError, match=r"axis 0 of the tensor is 100; expected at most 8 \(batch\)"):
        bundle.run({name: np.repeat(array, 100, axis=0) for name, array in door.items()})


def test_strided_tensors_run(toy: Path, expected: Any) -> None:
    door, outputs = expected("red blue")
    strided = {name: np.asfortranarray(np.repeat(array, 2, axis=0)) for name, array in door.items()}
    np.testing.assert_allclose(Bundle(toy).run(strided)["embedding"][1], outputs["embedding"][0], 1e-5)
