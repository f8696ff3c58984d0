"""What can't become a proven ONNX file is refused with the operator, the module, the user's line and a way out."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from dspec.spec.errors import ExportError
from dspec.spec.models import Dim
from dspec.spec.records import Port
from dspec.targets.artifacts.onnx import BUILDER

X = {"x": ("float32", ["batch", 4])}
Y = {"y": ("float32", ["batch", 4])}


class Spectral(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch.linalg.svd(x)[1]  # svd
        return found


class Holder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.spectral = Spectral()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.spectral(x)
        return found


class Noise(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.randn_like(x)  # noise


class LiveDropout(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.dropout(x)  # dropout


class Autocast(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found: torch.Tensor = self.linear(x)  # autocast
            return found


class Complex(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch.fft.fft(x)  # complex
        return found


class Folded(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(2, -1)  # folded


class Echo(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def line_of(mark: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, text in enumerate(lines, 1) if text.endswith(f"# {mark}"))


CASES = {
    # id: model, inputs, outputs, code, line mark, texts
    "no translation": (
        Holder(), X, {"y": ("float32", ["batch"])}, "E0501", "svd",
        ("the operator aten._linalg_svd in model.spectral has no ONNX translation", "a pipeline step"),
    ),
    "random": (Noise(), X, Y, "E0506", "noise", ("RandomNormalLike", "draws random numbers, from test_refusals.py:")),
    "live dropout": (LiveDropout(), X, Y, "E0506", "dropout", ("(Dropout)", "training=self.training")),
    "autocast": (Autocast(), X, Y, "E0505", "autocast", ("output y is bfloat16", "float32, as declared", ".float()")),
    "complex output": (Complex(), X, Y, "E0505", "complex", ("output y is complex64", "view_as_real")),
    "batch became a constant": (
        Folded(), {"x": ("float32", ["batch", 3, 8])}, {"y": ("float32", ["batch", 24])}, "E0503", "folded",
        ("axis 0 of output y became the constant 2", "expected: batch, as declared", "x.shape[i]"),
    ),
    "one name twice": (Echo(), X, {"x": ("float32", ["batch", 4])}, "E0515", None, ("x is the name of an input and",)),
    "wrong rank": (Echo(), X, {"y": ("float32", ["batch"])}, "E0503", None, ("the rank of output y became 2",)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refused_in_words(lab: Any, case: str) -> None:
    model, inputs, outputs, code, mark, texts = CASES[case]
    with pytest.raises(ExportError) as caught:
        lab.build(model, inputs, outputs)
    (found,) = caught.value.diagnostics
    assert found.code == code
    for text in texts:
        assert text in str(found)
    if mark is not None:
        assert (found.file, found.line) == (Path(__file__).name, line_of(mark))
    assert "Traceback" not in str(found)


def test_a_declared_dim_that_the_program_fixed(lab: Any) -> None:
    program = lab.capture(Echo(), {"x": ("float32", [3, 4])}, {"y": ("float32", [3, 4])})
    ports = {"x": Port(dtype="float32", shape=("batch", 4))}
    other = program.interface.model_copy(update={"inputs": ports})
    with pytest.raises(ExportError, match="axis 0 of input x became the constant 3"):
        BUILDER.build(dataclasses.replace(program, interface=other), {}, lab.folder / "artifact")


def test_a_dim_with_one_size_is_a_number_in_the_file(lab: Any) -> None:
    program = lab.capture(Echo(), {"x": ("float32", [3, 4])}, {"y": ("float32", [3, 4])})
    interface = program.interface.model_copy(
        update={
            "inputs": {"x": Port(dtype="float32", shape=("batch", 4))},
            "outputs": {"y": Port(dtype="float32", shape=("batch", 4))},
            "dims": {"batch": Dim(min=3, max=3)},
        }
    )
    artifact = BUILDER.build(dataclasses.replace(program, interface=interface), {}, lab.folder / "artifact")
    assert lab.session(artifact).get_inputs()[0].shape == [3, 4]


def test_an_opset_out_of_reach(lab: Any) -> None:
    with pytest.raises(ExportError, match="E0507"):
        lab.build(Echo(), X, Y, opset=99)


def test_an_asked_opset_is_kept(lab: Any) -> None:
    _, artifact = lab.build(Echo(), X, Y, opset=21)
    assert artifact.facts["opset"] == 21


def test_nothing_is_printed(lab: Any, capfd: pytest.CaptureFixture[str]) -> None:
    lab.build(Echo(), X, Y)
    assert capfd.readouterr() == ("", "")
