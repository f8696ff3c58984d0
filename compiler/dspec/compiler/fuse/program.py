"""Stage `fuse`: Program → Program, with the steps in the graph exported as part of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from dspec.compiler.capture.contract import check_dims
from dspec.compiler.capture.export import export
from dspec.compiler.capture.module import quiet_machine
from dspec.compiler.capture.outputs import Outputs
from dspec.compiler.capture.places import Place, Places
from dspec.compiler.capture.program import write_program
from dspec.compiler.capture.shapes import example_sizes, used_dims
from dspec.compiler.capture.usercode import UserCode
from dspec.compiler.fuse.module import Chain, Fused, twins_of
from dspec.compiler.lower import read_program
from dspec.compiler.stage import Report
from dspec.spec.doors import doors
from dspec.spec.errors import SpecError
from dspec.spec.models import Spec, Tensor
from dspec.spec.nearest import listed
from dspec.spec.placement import at, fused_before, leaving
from dspec.spec.records import Interface, Port
from dspec.targets import catalogue
from dspec.targets.protocol import Program

_KEPT = re.compile(r'File "([^"/][^"]*)", line (\d+)')  # what capture left of a stack trace; ours are absolute


class KeptPlaces(Places):
    """The user's lines that capture left in a program."""

    def of_trace(self, trace: str) -> Place | None:
        found = _KEPT.search(trace)
        return Place(file=found[1], line=int(found[2])) if found else None


def fuse_program(request: Any, places: Any, inputs: Mapping[str, Path], out: Path, report: Report) -> dict[str, Any]:
    """Stage `fuse`: `program/` below `out`. Raises ExportError where the steps and the model don't make one graph."""
    spec = Spec.model_validate_json(json.dumps(request["spec"]))
    program = read_program(inputs["program"])
    spec = with_outputs(spec, program.interface)
    report("fusing the steps in the graph with the model")
    with quiet_machine():
        _fuse(spec, program, places["spec_file"], out / "program")
    return {"value": {}}


def with_outputs(spec: Spec, interface: Interface) -> Spec:
    """The spec with the outputs that capture found, where it declares none."""
    outputs = {name: _tensor(port) for name, port in interface.outputs.items()}
    return spec.model_copy(update={"model": spec.model.model_copy(update={"outputs": outputs})})


def _tensor(port: Port) -> Tensor:
    return Tensor.model_validate(port.model_dump())


def _fuse(spec: Spec, program: Program, spec_file: str, out: Path) -> None:
    model, code = program.interface, UserCode(program.path.parent, spec_file)
    code.places = KeptPlaces(program.path.parent)
    _check_reads(spec)
    ports = doors(spec, catalogue())
    names = leaving(spec, model.outputs)
    inputs = {name: _tensor(port) for name, port in ports.inputs.items()}
    fused = _module(spec, program, ports.inputs, names)
    used = used_dims(inputs, model.dims)
    sizes = example_sizes(used, _taken(fused, inputs))
    example = tuple(_zeros(tensor, sizes) for tensor in inputs.values())
    exported = export(fused, example, inputs, model.dims, code)
    symbols = check_dims(exported, used, sizes, spec_file)
    outputs = Outputs(exported, symbols, model.dims, code.places)
    declared = {name: _tensor(port) for name, port in ports.outputs.items()}
    interface = model.model_copy(
        update={"inputs": dict(ports.inputs), "outputs": outputs.ports(names, declared, spec_file)}
    )
    _forget_origins(exported.program)
    write_program(exported.program, interface, {**symbols.names, **outputs.unbacked}, code.places, out)


def _check_reads(spec: Spec) -> None:
    """Raise SpecError for a step that reads what the model does not give: `check` can't tell where outputs are not declared."""
    given = dict.fromkeys(spec.model.outputs)
    for number, step in enumerate(spec.postprocess):
        for name in step.inputs:
            if name not in given and step.place == "graph":
                raise SpecError.of(
                    "E0310",
                    f"step `{step.id}` reads `{name}`, which nothing gives",
                    key=f"postprocess.{number}",
                    expected=listed(given),
                    hint="name an output of the model, and declare it in model.outputs",
                )
        given |= dict.fromkeys(step.outputs)


def _module(spec: Spec, program: Program, entering: Mapping[str, Port], names: list[str]) -> Fused:
    before, after = fused_before(spec), at(spec.postprocess, "graph")
    model = torch.export.load(program.path).module()
    chains = [Chain(steps, twins_of(steps)) for steps in (before, after)]
    return Fused(model, program.interface, chains[0], chains[1], entering, names)


def _forget_origins(program: torch.export.ExportedProgram) -> None:
    """Which graph a node comes from is told by an address in memory, another in each process."""
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                node.meta.pop("from_node", None)


def _taken(fused: Fused, inputs: Mapping[str, Tensor]) -> set[int]:
    """Sizes of the model, which an example must not share."""
    weights = {size for value in (*fused.parameters(), *fused.buffers()) for size in value.shape}
    return weights | {size for tensor in inputs.values() for size in tensor.shape if isinstance(size, int)}


def _zeros(tensor: Tensor, sizes: Mapping[str, int]) -> torch.Tensor:
    shape = [sizes[size] if isinstance(size, str) else size for size in tensor.shape]
    return torch.zeros(shape, dtype=getattr(torch, tensor.dtype))
