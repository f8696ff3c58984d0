"""Writes the program folder: the exported program without a trace of this machine, and what a lowering must know."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from dspec.compiler.capture.flat import PREFIX
from dspec.compiler.capture.places import Place, Places
from dspec.compiler.capture.tensors import tensor_digests
from dspec.spec.records import Interface

_WRAPPER = __package__  # nn_module_stack entries of ours, which say nothing about the user's model


def write_program(
    program: ExportedProgram, interface: Interface, symbols: Mapping[str, str], places: Places, out: Path
) -> None:
    """`model.pt2` and `program.json` in `out`: the same bytes from any folder, on any day. `symbols`: symbol → dim."""
    out.mkdir(parents=True, exist_ok=True)
    _name_as_user_does(program)
    sources = _make_relative(program, places)
    torch.export.save(program, out / "model.pt2")
    tensors = tensor_digests(_tensors(program))
    body = {
        "interface": interface.model_dump(mode="json"),
        "symbols": dict(sorted(symbols.items())),
        "sources": sources,
        "tensors": [tensor.model_dump(mode="json") for tensor in tensors],
    }
    (out / "program.json").write_text(json.dumps(body, indent=1) + "\n")


def _tensors(program: ExportedProgram) -> dict[str, torch.Tensor]:
    every = {**program.state_dict, **program.constants}
    return {name: value for name, value in every.items() if isinstance(value, torch.Tensor)}


def _name_as_user_does(program: ExportedProgram) -> None:
    """Weights under the names that the user's module gives them."""
    program._state_dict = {name.removeprefix(PREFIX): value for name, value in program.state_dict.items()}
    program._constants = {name.removeprefix(PREFIX): value for name, value in program.constants.items()}
    for given in program.graph_signature.input_specs:
        if given.target is not None:
            given.target = given.target.removeprefix(PREFIX)


def _make_relative(program: ExportedProgram, places: Places) -> dict[str, str]:
    """Reduce every stack trace to `file:line`; gives node → `file:line` for the main graph."""
    sources = {}
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                place = _reduce(node.meta, places)
                if place and module is program.graph_module:
                    sources[node.name] = str(place)
    return sources


def _reduce(meta: dict[str, Any], places: Places) -> Place | None:
    trace = meta.pop("stack_trace", None)
    place = places.of_trace(trace) if trace else None
    if place:
        meta["stack_trace"] = f'File "{place.file}", line {place.line}'
    if "nn_module_stack" in meta:
        meta["nn_module_stack"] = dict(_stack(meta["nn_module_stack"]))
    return place


def _stack(stack: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, entry in stack.items():
        path, kind, *rest = entry
        if not str(kind).startswith(f"{_WRAPPER}."):
            bare = "" if path == PREFIX.removesuffix(".") else path.removeprefix(PREFIX)
            yield key, (bare, kind, *rest)
