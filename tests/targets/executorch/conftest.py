"""Tiny captured programs, as `compiler` leaves them, lowered to `.pte` and run by the engine that ships."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dspec.spec.models import Dim
from dspec.spec.records import Interface, Port
from dspec.targets.artifacts.pte import BUILDER
from dspec.targets.protocol import Artifact, Program
from dspec.targets.shipped import engine_executorch

Ports = Mapping[str, tuple[str, Sequence[int | str]]]
DIMS = {"batch": Dim(min=1, max=64), "seq": Dim(min=2, max=24), "side": Dim(min=8, max=24)}
SIZES = {"batch": 3, "seq": 7, "side": 11}


class Flat(torch.nn.Module):
    """Tensors in the interface's order in, a tuple out."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = self.model(*tensors)
        return tuple(found) if isinstance(found, (tuple, list)) else (found,)


def example(dtype: str, shape: Sequence[int | str], sizes: Mapping[str, int], seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    numbers = [sizes[size] if isinstance(size, str) else size for size in shape]
    if dtype.startswith(("int", "uint")):
        return torch.randint(0, 10, numbers, generator=generator).to(getattr(torch, dtype))
    return torch.randn(numbers, generator=generator).to(getattr(torch, dtype))


def capture(model: torch.nn.Module, inputs: Ports, outputs: Ports, folder: Path, place: str = "") -> Program:
    """Save the program of `model`: `inputs` and `outputs` are name → (dtype, shape). `place`: of every node, `file:line`."""
    folder.mkdir(parents=True, exist_ok=True)
    examples = tuple(example(dtype, shape, SIZES) for dtype, shape in inputs.values())
    used = {size for _, shape in inputs.values() for size in shape if isinstance(size, str)}
    shapes = tuple(
        {
            axis: torch.export.Dim.AUTO(min=DIMS[size].min, max=DIMS[size].max)
            for axis, size in enumerate(shape)
            if isinstance(size, str)
        }
        for _, shape in inputs.values()
    )
    kernels = (torch.backends.mkldnn.flags(enabled=False), torch.backends.nnpack.flags(enabled=False))
    with warnings.catch_warnings(), torch.no_grad(), kernels[0], kernels[1]:
        warnings.simplefilter("ignore")
        exported = torch.export.export(Flat(model.eval()), examples, dynamic_shapes=(shapes,))
    sources = {node.name: _place(node) for node in exported.graph.nodes if _place(node)}
    for node in exported.graph.nodes:
        file, _, line = sources.get(node.name, "").rpartition(":")
        node.meta["stack_trace"] = f'File "{file}", line {line}' if file else None
    torch.export.save(exported, folder / "model.pt2")
    interface = Interface(
        inputs={name: Port(dtype=dtype, shape=tuple(shape)) for name, (dtype, shape) in inputs.items()},
        outputs={name: Port(dtype=dtype, shape=tuple(shape)) for name, (dtype, shape) in outputs.items()},
        dims={name: DIMS[name] for name in sorted(used)},
        batch="batch" if "batch" in used else None,
    )
    symbols = {}
    placeholders = [node for node in exported.graph.nodes if node.op == "placeholder"][-len(inputs) :]
    for node, port in zip(placeholders, interface.inputs.values(), strict=True):
        for size, declared in zip(node.meta["val"].shape, port.shape, strict=True):
            if isinstance(declared, str) and str(size).isidentifier():
                symbols[str(size)] = declared
    return Program(path=folder / "model.pt2", interface=interface, symbols=symbols, sources=sources, tensors=())


def _place(node: Any) -> str:
    here = re.compile(rf'File "{re.escape(str(Path(__file__).parent))}/(\w+\.py)", line (\d+), in forward')
    frames = [found for found in here.findall(node.meta.get("stack_trace") or "") if found[0] != "conftest.py"]
    return ":".join(frames[-1]) if frames else ""


def open_engine(program: Program, artifact: Artifact) -> Any:
    manifest = {
        "options": {"delegate": artifact.facts["delegate"], "threads": 1},
        "cores": 1,
        "model": {"path": artifact.file, **artifact.facts},
        "interface": program.interface.model_dump(mode="json"),
    }
    return engine_executorch.open_engine(artifact.folder, manifest)


def feeds(program: Program, sizes: Mapping[str, int]) -> dict[str, Any]:
    ports = program.interface.inputs.items()
    return {name: example(port.dtype, port.shape, sizes, seed).numpy() for seed, (name, port) in enumerate(ports)}


def worst(program: Program, model: torch.nn.Module, engine: Any, sizes: Mapping[str, int]) -> float:
    """Greatest |difference| from PyTorch over all outputs at one set of sizes, asked twice: the second call is equal."""
    given = feeds(program, sizes)
    with torch.inference_mode():
        expected = Flat(model)(*(torch.from_numpy(array.copy()) for array in given.values()))
    got, again = engine.run(given), engine.run(given)
    apart = 0.0
    for name, reference in zip(program.interface.outputs, expected, strict=True):
        assert got[name].shape == tuple(reference.shape)
        assert got[name].dtype == reference.numpy().dtype
        assert np.array_equal(got[name], again[name])
        apart = max(apart, float(np.abs(got[name].astype(np.float64) - reference.double().numpy()).max(initial=0.0)))
    return apart


class Lab:
    """What the tests of this folder share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def capture(self, model: torch.nn.Module, inputs: Ports, outputs: Ports) -> Program:
        return capture(model, inputs, outputs, self.folder / "program")

    def build(
        self, model: torch.nn.Module, inputs: Ports, outputs: Ports, delegate: str = "xnnpack"
    ) -> tuple[Program, Artifact]:
        program = self.capture(model, inputs, outputs)
        return program, BUILDER.build(program, {"delegate": delegate}, self.folder / "artifact")

    engine = staticmethod(open_engine)
    worst = staticmethod(worst)
    feeds = staticmethod(feeds)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)
