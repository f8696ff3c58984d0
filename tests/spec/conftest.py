"""A small catalogue, and a folder with the files that the cases name."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from dspec.spec.catalogue import Catalogue, RuntimeEntry, StepEntry


class Value(NamedTuple):
    kind: str
    dtype: str | None = None
    shape: tuple[int | str | None, ...] | None = None
    range: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class Letters:
    """A text as numbers.

    Attributes:
        alphabet: a file with one letter a line,
            in order.
        max_length: letters at most.
        fill: whether shorter texts are filled up.
        multiple_of: what the length is filled up to a multiple of.
    """

    alphabet: str | None = field(default=None, metadata={"asset": True})
    max_length: int
    fill: bool = False
    multiple_of: int = 1

    def flow(self, text: Value) -> tuple[Value, ...]:
        if text.kind not in ("text", "any"):
            raise ValueError(f"takes text, not {text.kind}")
        return (Value("tensor", "int64", (self.max_length if self.fill else None,)),)


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Multiply by a factor.

    Attributes:
        factor: what to multiply by.
        weights: one factor per channel.
    """

    factor: float = 1.0
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.weights and self.factor != 1.0:
            raise ValueError("factor and weights exclude each other")

    def flow(self, value: Value) -> tuple[Value, ...]:
        if value.kind not in ("tensor", "any"):
            raise ValueError(f"takes tensor, not {value.kind}")
        return (Value("tensor", "float32", value.shape),)


@dataclass(frozen=True, kw_only=True)
class Swap:
    """Exchange two values."""

    def flow(self, one: Value, other: Value) -> tuple[Value, ...]:
        return other, one


@dataclass(frozen=True, kw_only=True)
class Python:
    """A function of your own."""

    file: str = field(metadata={"asset": True})
    callable: str

    def flow(self, *values: Value) -> tuple[Value, ...]:
        return (Value("any"),)


@dataclass(frozen=True, kw_only=True)
class Portable:
    """Options of the toy runtime.

    Attributes:
        level: how hard to try.
        threads: 0 stands for all.
    """

    level: Literal["none", "some", "full"] = "some"
    threads: int = 0


@dataclass(frozen=True, kw_only=True)
class Device:
    least: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.least <= 1:
            raise ValueError("least is a share, from 0 to 1")


def _step(name: str, params: type[Any], takes: int, gives: int, *places: str) -> StepEntry:
    return StepEntry(name=name, params=params, takes=takes, gives=gives, places=places or ("host",), requires=(),
                     summary=(params.__doc__ or "").splitlines()[0])  # fmt: skip


TOY = Catalogue(
    steps={
        "letters": _step("letters", Letters, 1, 1),
        "scale": _step("scale", Scale, 1, 1, "host", "graph"),
        "swap": _step("swap", Swap, 2, 2),
        "python": _step("python", Python, 0, 0),
    },
    runtimes={
        "portable": RuntimeEntry(name="portable", options=Portable, needs_max=False, places=("host",),
                                 hardware=("host", "linux-*"), summary="runs anywhere"),
        "device": RuntimeEntry(name="device", options=Device, needs_max=True, places=("host", "graph", "contract"),
                               hardware=("android-*", "host"), summary="runs on a phone"),
    },
    value=Value,
)  # fmt: skip


@pytest.fixture
def toy() -> Catalogue:
    return TOY


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Holds model.py (build), steps.py (clean), requests.jsonl, alphabet.txt, weights.pt, and links that lead out."""
    inside = tmp_path / "spec"
    inside.mkdir()
    (inside / "model.py").write_text("def build(layers=1): ...\n")
    (inside / "steps.py").write_text("def clean(value): ...\n")
    (inside / "requests.jsonl").write_text('{"x": [0, 0, 0, 0, 0, 0, 0, 0]}\n')
    (inside / "alphabet.txt").write_text("a\nb\n")
    (inside / "weights.pt").write_bytes(b"weights")
    (tmp_path / "outside.txt").write_text("secret\n")
    (inside / "link.txt").symlink_to(tmp_path / "outside.txt")
    yield inside
    shutil.rmtree(inside)


SMALL = """\
apiVersion: dspec/v1alpha1
name: tiny
model:
  factory: model.py:build
  inputs: {x: {dtype: float32, shape: [batch, 8]}}
  outputs: {y: {dtype: float32, shape: [batch, 2]}}
  dims: {batch: {min: 1, max: 8}}
fixtures: [{file: requests.jsonl}]
targets: {local: {runtime: portable}}
"""


@pytest.fixture
def write(folder: Path) -> Callable[..., Path]:
    """`write(more="", **replaced)`: the smallest spec, with texts replaced and lines added; gives its path."""

    def make(more: str = "", replace: dict[str, str] | None = None) -> Path:
        text = SMALL
        for old, new in (replace or {}).items():
            assert old in text
            text = text.replace(old, new)
        (folder / "deploy.yaml").write_text(text + more, "utf-8")
        return folder / "deploy.yaml"

    return make
