"""The reference folder: fixtures and shape points with PyTorch's own answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dspec.compiler.capture.shards as shards
from dspec.spec.errors import DspecError, ExportError, SpecError
from dspec.targets.shipped.request import read_request

SOURCE = """import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 6)

    def forward(self, ids, mask):
        found = self.embed(ids) * mask.unsqueeze(-1)
        return {"mean": found.mean(1), "tokens": found}

def build():
    return Model()
"""
TOKENS = {"dtype": "int64", "shape": ["batch", "seq"]}
MODEL: dict[str, Any] = {
    "inputs": {"ids": TOKENS, "mask": TOKENS},
    "outputs": {
        "mean": {"dtype": "float32", "shape": ["batch", 6]},
        "tokens": {"dtype": "float32", "shape": ["batch", "seq", 6]},
    },
    "dims": {"batch": {"min": 1, "max": 8}, "seq": {"min": 2, "max": 20}},
}
ROWS = [{"ids": list(range(5, 5 + n)), "mask": [1] * n} for n in (3, 6, 4)]


def refused(kind: type[DspecError], run: Any, *args: Any, **keywords: Any) -> str:
    with pytest.raises(kind) as caught:
        run(*args, **keywords)
    return str(caught.value)


def test_fixtures_and_shape_points(run: Any) -> None:
    captured = run(SOURCE, MODEL, lines=[*ROWS[:2], ROWS[2] | {"expected": "cat"}])
    index = captured.index
    assert [case["id"] for case in index["cases"][:3]] == ["rows.jsonl:1", "rows.jsonl:2", "rows.jsonl:3"]
    assert [case["sizes"] for case in index["cases"][:3]] == [{"batch": 1, "seq": n} for n in (3, 6, 4)]
    points = {tuple(case["sizes"].values()) for case in index["cases"][3:]}
    assert {(1, 2), (8, 20), (3, 5)} <= points
    assert {(1, 5), (8, 5), (3, 2), (3, 20)} <= points
    assert len(points) == len(index["cases"]) - 3
    assert all(1 <= b <= 8 and 2 <= s <= 20 for b, s in points)
    assert index["cases"][3]["id"] == "shape batch=1 seq=2"
    assert [fixture["expected"] for fixture in index["fixtures"]] == [None, None, "cat"]
    assert index["fixtures"][2]["request"] == ROWS[2]
    assert index["threads"] == 1
    assert index["torch"].startswith("2.")
    assert index["cpu"].startswith(("x86-64-", "arm64-"))
    for case, inputs, outputs in captured.cases():
        assert inputs["ids"].shape == (case["sizes"]["batch"], case["sizes"]["seq"])
        assert set(inputs["ids"].ravel()) <= set(range(5, 11))
        assert outputs["tokens"].shape == (*inputs["ids"].shape, 6)


def test_a_batch_is_made_of_different_fixtures(run: Any) -> None:
    captured = run(SOURCE, MODEL, lines=[{"ids": [n, n], "mask": [1, 1]} for n in (1, 2, 3)])
    _, inputs, _ = next(entry for entry in captured.cases() if entry[0]["sizes"] == {"batch": 8, "seq": 20})
    assert inputs["ids"][:, 0].tolist() == [1, 2, 3, 1, 2, 3, 1, 2]


def test_spread(run: Any) -> None:
    spread = run(SOURCE, MODEL, lines=ROWS).index["spread"]["mean"]
    assert spread["span"] > 0.1
    assert spread["cosine"] < 0.99
    assert spread["magnitude"] > 0.1
    assert 0 < spread["noise"] < 1e-5
    assert spread["noise_reason"] == ""


def test_a_constant_answer_has_no_span(run: Any) -> None:
    source = SOURCE.replace('"mean": found.mean(1)', '"mean": found.mean(1) * 0 + 1')
    spread = run(source, MODEL, lines=ROWS).index["spread"]["mean"]
    assert spread["span"] == 0
    assert spread["cosine"] == 1


def test_float64_that_does_not_run(run: Any) -> None:
    source = SOURCE.replace(
        "found = ", "found = torch.zeros(6, dtype=torch.float32) @ torch.eye(6, dtype=self.embed.weight.dtype) + "
    )
    spread = run(source, MODEL, lines=ROWS).index["spread"]["mean"]
    assert spread["noise"] is None
    assert spread["noise_reason"].startswith("float64 does not run: ")


def test_shards_are_bounded_and_identical(run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shards, "SHARD_BYTES", 2000)
    one, other = (run(SOURCE, MODEL, lines=ROWS, out=tmp_path / name) for name in "ab")
    names = sorted(path.name for path in one.reference.iterdir())
    assert len(names) > 3
    for name in names:
        assert (one.reference / name).read_bytes() == (other.reference / name).read_bytes()
    assert len(list(one.cases())) == len(one.index["cases"])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"ids": [1, 2], "mask": [1, 1]}\n{"ids": [1,\n', "rows.jsonl:2: error E0450: rows.jsonl:2 is not JSON"),
        ("", "E0451: rows.jsonl holds no fixtures"),
        ("\n\n", "E0451: rows.jsonl holds no fixtures"),
        ('{"ids": [1, 2]}\n', "rows.jsonl:1: mask: nothing"),
        ('{"ids": [1, 2], "mask": [1, 1], "extra": 1}\n', "rows.jsonl:1: extra: an unknown field"),
        ("[1]\n", "rows.jsonl:1: the request: a list"),
        ('\n{"ids": [1], "mask": [1]}\n', "rows.jsonl:2: ids: axis 1 of the tensor is 1"),
        (json.dumps({"ids": [1] * 21, "mask": [1] * 21}), "rows.jsonl:1: ids: axis 1 of the tensor is 21"),
        ('{"ids": [1.5, 2], "mask": [1, 1]}\n', "rows.jsonl:1: ids: "),
    ],
)
def test_fixtures_at_fault(content: str, words: str, run: Any, tmp_path: Path) -> None:
    (tmp_path / "spec").mkdir()
    (tmp_path / "spec" / "rows.jsonl").write_text(content)
    assert words in refused(SpecError, run, SOURCE, MODEL)


def test_bounds_are_named(run: Any) -> None:
    said = refused(SpecError, run, SOURCE, MODEL, lines=[{"ids": [1] * 21, "mask": [1] * 21}])
    assert "expected: at most 20 (seq)" in said


def test_an_id_outside_the_table_names_the_fixture(run: Any) -> None:
    said = refused(ExportError, run, SOURCE, MODEL, lines=[*ROWS, {"ids": [1, 50], "mask": [1, 1]}])
    assert "model.py:10: error E0453: PyTorch itself fails at fixture rows.jsonl:4: IndexError" in said


def test_npz_rows(run: Any, tmp_path: Path) -> None:
    (tmp_path / "spec").mkdir()
    np.savez(
        tmp_path / "spec" / "rows.npz",
        ids=np.arange(12).reshape(3, 4),
        mask=np.ones((3, 4), np.int64),
        expected=np.array([0, 1, 2]),
    )
    captured = run(SOURCE, MODEL, fixtures=[{"file": "rows.npz"}])
    assert [fixture["id"] for fixture in captured.index["fixtures"]] == ["rows.npz:1", "rows.npz:2", "rows.npz:3"]
    assert captured.index["fixtures"][2]["expected"] == 2
    fields = {name: {"type": "tensor", "dtype": "int64", "shape": ["seq"]} for name in ("ids", "mask")}
    again = read_request(fields, captured.index["fixtures"][1]["request"], captured.reference)
    assert again["ids"].tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"ids": np.ones((2, 3)), "mask": np.ones((3, 3))}, "the arrays have {'ids': 2, 'mask': 3} rows"),
        ({"ids": np.array([{}], object)}, "holds Python objects"),
        ({"ids": np.float32(1)}, "has no axis that counts requests"),
        ({"ids": np.ones((0, 3)), "mask": np.ones((0, 3))}, "rows.npz holds no fixtures"),
    ],
)
def test_npz_at_fault(arrays: Any, words: str, run: Any, tmp_path: Path) -> None:
    (tmp_path / "spec").mkdir()
    np.savez(tmp_path / "spec" / "rows.npz", **arrays)
    assert words in refused(SpecError, run, SOURCE, MODEL, fixtures=[{"file": "rows.npz"}])


def test_npz_that_is_cut(run: Any, tmp_path: Path) -> None:
    (tmp_path / "spec").mkdir()
    np.savez(tmp_path / "spec" / "rows.npz", ids=np.ones((2, 3)))
    whole = (tmp_path / "spec" / "rows.npz").read_bytes()
    (tmp_path / "spec" / "rows.npz").write_bytes(whole[:100])
    said = refused(SpecError, run, SOURCE, MODEL, fixtures=[{"file": "rows.npz"}])
    assert "rows.npz is no .npz of plain arrays" in said


def test_an_answer_that_is_not_finite(run: Any) -> None:
    source = SOURCE.replace("found.mean(1)", "found.mean(1) / (ids[:, :1] - 8)")
    captured = run(source, MODEL, lines=[ROWS[0], {"ids": [8, 9], "mask": [1, 1]}])
    assert "PyTorch itself answers NaN or infinity in mean, first on rows.jsonl:2" in captured.said()
    assert captured.index["warnings"]


def test_pictures_travel_by_digest(run: Any, tmp_path: Path) -> None:
    from PIL import Image

    (tmp_path / "spec" / "pictures").mkdir(parents=True)
    for shade in (10, 200):
        Image.new("RGB", (4, 4), (shade, 0, 0)).save(tmp_path / "spec" / "pictures" / f"{shade}.png")
    model = {
        "inputs": {"x": {"dtype": "float32", "shape": ["batch", 4, 4, 3]}},
        "outputs": {"y": {"dtype": "float32", "shape": ["batch", 4, 4, 3]}},
        "dims": {"batch": {"min": 1, "max": 4}},
    }
    captured = run(
        "from torch import nn\n\nclass M(nn.Module):\n    def forward(self, x):\n        return x * 2\n\ndef build():\n    return M()\n",
        model,
        lines=[{"photo": "pictures/10.png"}, {"photo": {"file": "pictures/200.png"}}],
        request={"photo": {"type": "image"}},
        preprocess=[
            {"id": "d", "use": "decode", "in": ["photo"], "out": ["pixels"]},
            {"id": "s", "use": "scale", "in": ["pixels"], "out": ["x"]},
        ],
    )
    kept = captured.index["fixtures"][1]["request"]["photo"]["file"]
    assert kept.startswith("files/")
    assert kept.endswith(".png")
    assert (captured.reference / kept).read_bytes() == (tmp_path / "spec" / "pictures" / "200.png").read_bytes()
    assert {path.name for path in captured.result.read} == {"10.png", "200.png", "model.py"}


def test_a_batch_that_begins_above_one(run: Any) -> None:
    model = {**MODEL, "dims": {**MODEL["dims"], "batch": {"min": 2, "max": 8}}}
    assert "a request is one item: let model.dims.batch begin at 1" in refused(SpecError, run, SOURCE, model)


def test_a_step_that_does_not_open(run: Any) -> None:
    steps = [{"id": "scaled", "use": "scale", "params": {"wrong": 1}, "in": ["ids"], "out": ["more"]}]
    said = refused(SpecError, run, SOURCE, MODEL, preprocess=steps)
    assert "E0456: step scaled: TypeError" in said


def test_state_that_grows_only_at_some_sizes(run: Any) -> None:
    source = SOURCE.replace("found = ", "self.long = ids if ids.shape[1] > 19 else None; found = ")
    said = refused(ExportError, run, source, MODEL)
    assert "E0444" in said or "E0432" in said
