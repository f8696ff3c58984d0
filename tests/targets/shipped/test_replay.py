"""The value after every step is held to what a golden vector recorded, and the first step that differs is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dspec.targets.shipped.golden import read_npz, write_npz
from dspec.targets.shipped.replay import first_apart
from dspec.targets.shipped.selftest import differences, selftest
from dspec.targets.shipped.values import packed_steps, unpacked_steps

SOUND = np.array([3e4, -1.0, 0.5], np.float32)
RECORDED = [
    ("clean", "text", "a cat"),
    ("loud", "samples", SOUND),
    ("tokens", "ids", np.array([1, 2, 3])),
    ("inside", "x", np.zeros(3, np.float32)),  # in the graph: no step of the bundle gives it
    ("best", "top", [{"label": "cat", "score": 0.5}]),
]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, ("", [])),
        ({"loud": SOUND + np.float32(0.02)}, ("", [])),  # as far as float32 carries numbers of that size
        ({"best": [{"label": "cat", "score": 0.500001}]}, ("", [])),
        ({"clean": "a dog"}, ("step clean (text)", ["whole is 'a dog', recorded 'a cat'"])),
        ({"loud": SOUND * 1.01}, ("step loud (samples)", ["|difference| 300 at (0)"])),
        ({"tokens": np.array([1, 2, 4])}, ("step tokens (ids)", ["|difference| 1 at (2)"])),
        ({"tokens": np.array([1, 2])}, ("step tokens (ids)", ["shape [2]"])),
        ({"tokens": "1 2 3"}, ("step tokens (ids)", ["str, recorded int64 [3]"])),
        ({"best": [{"label": "dog", "score": 0.5}]}, ("step best (top)", ["[0].label is 'dog', recorded 'cat'"])),
        ({"tokens": np.array([9, 2, 3]), "best": []}, ("step tokens (ids)", ["|difference| 8 at (0)"])),
    ],
)
def test_the_first_step_that_differs(changed: dict[str, Any], said: tuple[str, list[str]]) -> None:
    ran = [(step, name, changed.get(step, value)) for step, name, value in RECORDED if step != "inside"]
    where, reasons = first_apart(RECORDED, ran[:3], ran[3:], differences)
    assert where == (f"{said[0]}, the first that differs" if said[0] else "")
    assert len(reasons) == len(said[1])
    assert all(reason.startswith(words) for reason, words in zip(reasons, said[1], strict=True))


def test_values_of_every_kind_come_back(tmp_path: Path) -> None:
    trace = [
        ("a", "n", 3),
        ("a", "text", "ü\ud800"),
        ("b.c", "x", np.arange(2)),
        ("d", "odd", object()),
        ("e", "j", {"k": []}),
    ]
    write_npz(tmp_path / "t.npz", packed_steps(trace))
    found = unpacked_steps(read_npz(tmp_path / "t.npz"))
    assert [(step, name) for step, name, _ in found] == [("a", "n"), ("a", "text"), ("b.c", "x"), ("e", "j")]
    assert [value for _, _, value in found if not isinstance(value, np.ndarray)] == [3, "ü\ud800", {"k": []}]


def test_the_self_test_holds_a_step_that_no_input_shows(own_toy: Path) -> None:
    path = own_toy / "golden" / "0001" / "trace.npz"
    arrays = read_npz(path)
    write_npz(path, arrays | {"00.tokens.input_ids": arrays["00.tokens.input_ids"] + 1})  # the door's tensor stays
    report = selftest(own_toy)
    assert not report["ok"]
    assert report["failures"][0].startswith(
        "texts.jsonl:2: step tokens (input_ids), the first that differs: |difference| 1"
    )
    assert len(report["failures"]) == 2  # both calls, and nothing else
