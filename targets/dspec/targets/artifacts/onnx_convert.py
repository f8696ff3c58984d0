"""torch's exporter on a copy of the program. Never retried with the tracing exporter."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import onnx_ir as ir
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from dspec.spec.errors import ExportError
from dspec.targets.artifacts.fx_origin import ORIGIN, Origin, Origins, failing_node
from dspec.targets.artifacts.onnx_attention import attention
from dspec.targets.artifacts.onnx_sort import stable_sort
from dspec.targets.protocol import Program

_TRANSLATIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.ops.aten.scaled_dot_product_attention.default: attention,
    torch.ops.aten.sort.stable: stable_sort,
}
NOT_TRANSLATED = "No ONNX function found"


def convert(program: Program, opset: int) -> ir.Model:
    """The program as an ONNX graph, in the exporter's own names. `opset` 0 leaves the choice to the exporter.

    Raises:
        ExportError: E0501 an operator has no translation, E0502 anything else that the exporter refuses.
    """
    exported = _load(program)
    origins = Origins(exported, program.sources)
    _check_outputs(exported, program, origins)
    try:
        # A fused attention kernel has other strides than its decomposition, and a recorded view breaks on them.
        with _quiet(), sdpa_kernel(SDPBackend.MATH):
            converted = torch.onnx.export(
                exported,
                dynamo=True,
                verbose=False,
                opset_version=opset or None,
                custom_translation_table=_TRANSLATIONS,
            )
    except Exception as error:
        raise _refusal(error, origins) from error
    assert converted is not None
    for node in ir.traversal.RecursiveGraphIterator(converted.model.graph):
        node.meta[ORIGIN] = origins.of(node.meta["node"]) if "node" in node.meta else Origin()
    return converted.model


def origins(model: ir.Model) -> dict[str, str]:
    """First output of a node → where the user wrote it, in words; nodes without a known place are left out."""
    nodes = ir.traversal.RecursiveGraphIterator(model.graph)
    found = {str(node.outputs[0].name): node.meta[ORIGIN] for node in nodes if ORIGIN in node.meta}
    return {name: str(origin) for name, origin in found.items() if str(origin)}


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporter logs and warns about its own internals; what matters is checked on the written file."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _load(program: Program) -> torch.export.ExportedProgram:
    with _quiet():
        return torch.export.load(program.path)


def _refusal(error: Exception, origins: Origins) -> ExportError:
    node = failing_node(error)
    origin = origins.of(node) if node is not None else Origin()
    causes = list(_causes(error))
    missing = next((str(cause) for cause in causes if str(cause).startswith(NOT_TRANSLATED)), "")
    place: dict[str, Any] = {"file": origin.file, "line": origin.line}
    inside = f" in {origin.module}" if origin.module else ""
    if missing:
        return ExportError.of(
            "E0501",
            f"the operator {origin.operator or missing}{inside} has no ONNX translation",
            expected="operators that torch.onnx translates",
            hint="write it with other operators, move it out of forward() into a pipeline step, or use a target"
            " that runs PyTorch itself",
            **place,
        )
    at = f" at {origin.operator}{inside}" if origin.operator else ""
    return ExportError.of(
        "E0502",
        f"torch's ONNX exporter stopped{at}: {_headline(causes[-1])}",
        expected="a program that converts to ONNX",
        hint="rewrite that part of forward(); a target that runs PyTorch itself is not affected",
        **place,
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _headline(error: BaseException) -> str:
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first}"[:400]


def _check_outputs(exported: torch.export.ExportedProgram, program: Program, origins: Origins) -> None:
    """ONNX has no complex outputs: the exporter would turn them into float pairs without a word."""
    results = next(node for node in exported.graph.nodes if node.op == "output").args[0]
    for (name, port), node in zip(program.interface.outputs.items(), results, strict=True):
        dtype = str(node.meta["val"].dtype).removeprefix("torch.")
        if dtype != port.dtype:
            raise _wrong_dtype(name, dtype, port.dtype, origins.of(node))


def _wrong_dtype(name: str, found: str, declared: str, origin: Origin) -> ExportError:
    hints = {
        "complex": "return torch.view_as_real(…) or .abs(); ONNX has no complex outputs",
        "bfloat16": "an autocast block inside forward() leaves its dtype behind: call .float() on the result",
        "float16": "an autocast block inside forward() leaves its dtype behind: call .float() on the result",
    }
    hint = next((text for key, text in hints.items() if found.startswith(key)), "declare what forward() returns")
    return ExportError.of(
        "E0505",
        f"output {name} is {found}",
        expected=f"{declared}, as declared in model.outputs",
        hint=hint,
        file=origin.file,
        line=origin.line,
    )
