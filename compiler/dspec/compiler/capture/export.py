"""torch.export of the flat module, and what must not be in the graph."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import Dim as ExportDim
from torch.export import ExportedProgram

from dspec.compiler.capture.answers import structure_changed
from dspec.compiler.capture.blockers import blocked
from dspec.compiler.capture.flat import PREFIX, Axis, Flat
from dspec.compiler.capture.guards import Guard, noted_guards
from dspec.compiler.capture.places import Places
from dspec.compiler.capture.shapes import greatest, is_dynamic, least
from dspec.compiler.capture.state import mutated_buffer
from dspec.compiler.capture.usercode import UserCode
from dspec.spec.errors import Diagnostic, ExportError
from dspec.spec.models import Dim, Tensor
from dspec.targets.shipped.forward import StructureError

_SWITCHES = ("train", "training")  # an operator with one of these False, or a probability of 0, is not random
_PROBABILITIES = ("p", "dropout_p", "dropout")


@dataclass(frozen=True, kw_only=True, slots=True)
class Exported:
    """What torch.export made, and the rules over sizes that it assumed. `symbols`: axis → its symbol at first."""

    program: ExportedProgram
    guards: tuple[Guard, ...]
    symbols: Mapping[Axis, Any]


def export(
    flat: Flat, example: Sequence[torch.Tensor], inputs: Mapping[str, Tensor], dims: Mapping[str, Dim], code: UserCode
) -> Exported:
    """Export `flat` with the declared dims dynamic. Raises ExportError with the user's line; no other exporter is tried."""
    flat.axes = _axes(inputs, dims)
    exported = _export(flat, example, dims, code)
    mutated = _mutated_inputs(exported.program)
    if mutated:  # seen only while tracing; the copy keeps the caller's tensor, and every target's input, whole
        flat.copied |= mutated
        exported = _export(flat, example, dims, code)
    _refuse_random(exported.program, code.places)
    for name in exported.program.graph_signature.buffers_to_mutate.values():
        raise mutated_buffer(name.removeprefix(PREFIX), flat.module)
    return exported


def _axes(inputs: Mapping[str, Tensor], dims: Mapping[str, Dim]) -> tuple[Axis, ...]:
    return tuple(
        Axis(input=number, axis=axis, dim=size)
        for number, tensor in enumerate(inputs.values())
        for axis, size in enumerate(tensor.shape)
        if isinstance(size, str) and is_dynamic(dims[size])
    )


def _export(flat: Flat, example: Sequence[torch.Tensor], dims: Mapping[str, Dim], code: UserCode) -> Exported:
    dynamic: list[dict[int, Any]] = [{} for _ in example]
    for place in flat.axes:
        dim = dims[place.dim]
        dynamic[place.input][place.axis] = ExportDim.AUTO(min=least(dim), max=greatest(dim))
    with _neutral(), noted_guards(code.places, flat.module) as guards, code.watch.running():
        try:
            program = torch.export.export(
                flat, tuple(tensor.clone() for tensor in example), dynamic_shapes=(tuple(dynamic),), strict=False
            )
        except StructureError as error:
            raise structure_changed(str(error), "while it is traced") from error
        except Exception as error:
            raise blocked(error, flat.module, code.places) from error
    return Exported(program=program, guards=tuple(guards), symbols=dict(flat.noted.symbols))


@contextlib.contextmanager
def _neutral() -> Iterator[None]:
    """Nothing of this machine enters the program, and torch's own remarks stay out of the way.

    oneDNN and NNPACK are off: choosing a convolution's kernel asks `batch < 16`, which would narrow the range.
    """
    level = logging.root.manager.disable
    logging.disable(logging.ERROR)
    silence = io.StringIO()
    try:
        with warnings.catch_warnings(), redirect_stdout(silence), redirect_stderr(silence):
            warnings.simplefilter("ignore")
            mkldnn, nnpack = torch.backends.mkldnn.flags(enabled=False), torch.backends.nnpack.flags(enabled=False)
            with mkldnn, nnpack, torch.no_grad():
                yield
    finally:
        logging.disable(level)


def _mutated_inputs(program: ExportedProgram) -> frozenset[int]:
    signature = program.graph_signature
    order = list(signature.user_inputs)
    return frozenset(order.index(name) for name in signature.user_inputs_to_mutate.values())


def _refuse_random(program: ExportedProgram, places: Places) -> None:
    for node in _nodes(program):
        if node.op == "call_function" and _is_random(node):
            place = places.of_trace(node.meta.get("stack_trace") or "")
            name = str(node.target)
            live = "dropout" in name
            what = "dropout is live in eval mode" if live else "forward draws random numbers"
            hint = (
                "pass training=self.training to F.dropout, or use nn.Dropout"
                if live
                else "draw the numbers outside and pass them as an input"
            )
            raise ExportError.of("E0430", f"{what}: {name}", hint=hint, **(place.details() if place else {}))


def _nodes(program: ExportedProgram) -> Iterator[torch.fx.Node]:
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield from module.graph.nodes


def _is_random(node: torch.fx.Node) -> bool:
    if not isinstance(node.target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in node.target.tags:
        return False
    schema = node.target._schema.arguments
    values = {argument.name: argument.default_value for argument in schema if argument.has_default_value()}
    values |= {argument.name: value for argument, value in zip(schema, node.args, strict=False)} | dict(node.kwargs)
    off = any(values.get(name) is False for name in _SWITCHES)
    return not off and not any(values.get(name) == 0 for name in _PROBABILITIES)


def unused_inputs(program: ExportedProgram, names: Sequence[str], spec_file: str) -> tuple[Diagnostic, ...]:
    """A warning for each declared input that no answer depends on."""
    nodes = {node.name: node for node in program.graph.nodes}
    flat = [
        name for name, node in zip(names, program.graph_signature.user_inputs, strict=True) if not nodes[node].users
    ]
    return tuple(
        Diagnostic(
            code="E0426",
            message=f"no output depends on the input {name}",
            file=spec_file,
            key=f"model.inputs.{name}",
            severity="warning",
            hint="drop it from model.inputs, or keep it for callers that send it",
        )
        for name in flat
    )
