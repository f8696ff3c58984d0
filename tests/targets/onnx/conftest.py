"""Tiny captured programs, as `compiler` leaves them: a flat wrapper, exported and saved."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.fx.experimental._config

from dspec.spec.models import Dim
from dspec.spec.records import Interface, Port
from dspec.targets.artifacts.onnx import BUILDER
from dspec.targets.protocol import Artifact, Program

Ports = Mapping[str, tuple[str, Sequence[int | str]]]
DIMS = {
    "batch": Dim(min=1, max=32),
    "seq": Dim(min=2, max=64),
    "even": Dim(min=2, max=64, multiple_of=2),
    "height": Dim(min=4, max=64, multiple_of=2),
}
SIZES = {"batch": 3, "seq": 7, "even": 14, "height": 22}


class Flat(torch.nn.Module):
    """Tensors in the interface's order in, a tuple out."""

    def __init__(self, model: torch.nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, tuple(names)

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = self.model(**dict(zip(self.names, tensors, strict=True)))
        return tuple(found) if isinstance(found, (tuple, list)) else (found,)


def example(dtype: str, shape: Sequence[int | str], sizes: Mapping[str, int], seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    numbers = [sizes[size] if isinstance(size, str) else size for size in shape]
    if dtype == "bool":
        return torch.rand(numbers, generator=generator) > 0.5
    if dtype.startswith(("int", "uint")):
        return torch.randint(0, 10, numbers, generator=generator).to(getattr(torch, dtype))
    return torch.randn(numbers, generator=generator).to(getattr(torch, dtype))


def capture(
    model: torch.nn.Module,
    inputs: Ports,
    outputs: Ports,
    folder: Path,
) -> Program:
    """Save the program of `model`: `inputs` and `outputs` are name → (dtype, shape)."""
    folder.mkdir(parents=True, exist_ok=True)
    examples = tuple(example(dtype, shape, SIZES) for dtype, shape in inputs.values())
    used = {size for _, shape in inputs.values() for size in shape if isinstance(size, str)}
    shapes = tuple(
        {axis: _export_dim(size) for axis, size in enumerate(shape) if isinstance(size, str)}
        for _, shape in inputs.values()
    )
    # Sizes of 1 are ordinary sizes: without this, torch guards them away.
    oblivious = torch.fx.experimental._config.patch(backed_size_oblivious=True)  # type: ignore[attr-defined]
    with warnings.catch_warnings(), torch.inference_mode(), oblivious:
        warnings.simplefilter("ignore")
        exported = torch.export.export(Flat(model, list(inputs)), examples, dynamic_shapes=(shapes,))
        sources = _reduce_traces(exported)
        torch.export.save(exported, folder / "model.pt2")
    interface = Interface(
        inputs={name: Port(dtype=dtype, shape=tuple(shape)) for name, (dtype, shape) in inputs.items()},
        outputs={name: Port(dtype=dtype, shape=tuple(shape)) for name, (dtype, shape) in outputs.items()},
        dims={name: DIMS[name] for name in sorted(used)},
        batch="batch" if "batch" in used else None,
    )
    return Program(
        path=folder / "model.pt2",
        interface=interface,
        symbols=_symbols(exported, interface),
        sources=sources,
        tensors=(),
    )


def _export_dim(name: str) -> Any:
    return torch.export.Dim.AUTO(min=DIMS[name].min, max=DIMS[name].max)


def _symbols(exported: Any, interface: Interface) -> dict[str, str]:
    placeholders = [node for node in exported.graph.nodes if node.op == "placeholder"][-len(interface.inputs) :]
    found = {}
    for node, port in zip(placeholders, interface.inputs.values(), strict=True):
        for size, declared in zip(node.meta["val"].shape, port.shape, strict=True):
            if isinstance(declared, str) and str(size).isidentifier():
                found[str(size)] = declared
    return found


def _reduce_traces(exported: Any) -> dict[str, str]:
    """Stack traces become `file:line` of this folder's sources, as capture leaves them. Gives node → place."""
    found = {}
    for module in exported.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            place = _place(node.meta.pop("stack_trace", None) or "")
            if place:
                node.meta["stack_trace"] = f'File "{place[0]}", line {place[1]}'
            if place and module is exported.graph_module:
                found[node.name] = f"{place[0]}:{place[1]}"
    return found


def _place(trace: str) -> tuple[str, int] | None:
    here = re.compile(rf'File "{re.escape(str(Path(__file__).parent))}/(test_\w+\.py)", line (\d+)')
    frames = here.findall(trace)
    return (frames[-1][0], int(frames[-1][1])) if frames else None


def session(artifact: Artifact) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        str(artifact.folder / artifact.file), options, providers=["CPUExecutionProvider"]
    )


def worst(program: Program, model: torch.nn.Module, run: Any, sizes: Mapping[str, int]) -> float:
    """Greatest absolute difference between the file and eager PyTorch, over all outputs, at one set of sizes."""
    feeds = {
        name: example(port.dtype, port.shape, sizes, seed=index)
        for index, (name, port) in enumerate(program.interface.inputs.items())
    }
    with torch.inference_mode():
        expected = model(**{name: tensor.clone() for name, tensor in feeds.items()})
    expected = tuple(expected) if isinstance(expected, (tuple, list)) else (expected,)
    got = run.run(list(program.interface.outputs), {name: tensor.numpy() for name, tensor in feeds.items()})
    for one, other in zip(got, expected, strict=True):
        assert one.shape == tuple(other.shape)
        assert one.dtype == other.numpy().dtype
    return max(
        float(np.abs(one.astype(np.float64) - other.numpy().astype(np.float64)).max(initial=0.0))
        for one, other in zip(got, expected, strict=True)
    )


@pytest.fixture(autouse=True, scope="session")
def one_registry() -> Iterator[None]:
    """Torch reads its table of translations anew for each export: a second that some thirty exports here can share."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    once: Any = functools.cache(ONNXRegistry.from_torchlib.__func__)  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            ONNXRegistry, "from_torchlib", classmethod(lambda cls, opset_version=18: once(cls, opset_version))
        )
        yield


class Lab:
    """What the tests of this folder share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def capture(self, model: torch.nn.Module, inputs: Ports, outputs: Ports) -> Program:
        return capture(model.eval(), inputs, outputs, self.folder / "program")

    def build(self, model: torch.nn.Module, inputs: Ports, outputs: Ports, **options: int) -> tuple[Program, Artifact]:
        program = self.capture(model, inputs, outputs)
        return program, BUILDER.build(program, options, self.folder / "artifact")

    session = staticmethod(session)
    worst = staticmethod(worst)
    example = staticmethod(example)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.fixture(scope="module")
def module_lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(tmp_path_factory.mktemp("onnx"))
