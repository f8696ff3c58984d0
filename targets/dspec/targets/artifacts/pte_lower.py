"""The program in ExecuTorch's terms: edge operators, what the delegate takes, memory planned for the largest declared sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

from dspec.spec.errors import Diagnostic, DspecError, ExportError
from dspec.targets.artifacts.fx_origin import Origin, Origins, failing_node
from dspec.targets.artifacts.pte_delegate import Key, Selective, causes
from dspec.targets.artifacts.pte_neutral import neutral, no_new_guards, quiet
from dspec.targets.artifacts.pte_resize import without_resizing
from dspec.targets.artifacts.pte_strides import broken_view, copied
from dspec.targets.protocol import Program

# The verifier is off: it runs `range(len(first output))` over operators that give lists, which freezes a dynamic batch
# (exir/verification/arg_validator.py), and it refuses operators by a list that is not the runtime's. What it would
# find is checked on the written file, against the declared runtime.
CONFIG = EdgeCompileConfig(_check_ir_validity=False)
XNNPACK = "xnnpack"


@dataclass(frozen=True, kw_only=True, slots=True)
class Left:
    """An operator that is not in the delegate although the delegate offers it: why, and whose line it is."""

    operator: str
    reason: str
    origin: Origin


@dataclass(frozen=True, kw_only=True, slots=True)
class Edge:
    """`manager`: executorch's EdgeProgramManager.

    `without`: why there is no delegate at all although one was asked for; empty otherwise.
    """

    manager: Any
    origins: Origins
    left: Mapping[Key, Left]
    without: str = ""

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        if self.without:
            return (_no_delegate(self.without),)
        return tuple(_said(left) for left in self.left.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What an attempt tries: with a delegate, without what it refused; with copies before the views named."""

    delegate: bool
    left: Mapping[Key, Left]
    copies: frozenset[str] = frozenset()
    without: str = ""


def lower(program: Program, delegate: str, left: Mapping[Key, Left] | None = None) -> Edge:
    """Lower with as much of the delegate as it takes: an operator that it fails at leaves it, alone. `left` are out from the start.

    Raises:
        ExportError: E0530 ExecuTorch itself can't lower the program, E0532 it narrowed the declared range.
    """
    plan = Plan(delegate=delegate == XNNPACK, left=left or {})
    while True:
        exported, origins = _opened(program)
        partitioner = Selective(frozenset(plan.left)) if plan.delegate else None
        try:
            manager = _edge(copied(exported, plan.copies), program, partitioner)
            return Edge(manager=manager, origins=origins, left=plan.left, without=plan.without)
        except DspecError:
            raise
        except Exception as error:
            plan = _cured(plan, error, exported, partitioner, origins)


def _opened(program: Program) -> tuple[torch.export.ExportedProgram, Origins]:
    """A copy of its own for each attempt: lowering changes the program that it is given."""
    with quiet():
        exported = torch.export.load(program.path)
    return exported, Origins(exported, program.sources)


def _edge(exported: torch.export.ExportedProgram, program: Program, partitioner: Selective | None) -> Any:
    with neutral(), no_new_guards(exported, program.symbols):
        return to_edge_transform_and_lower(
            without_resizing(exported), partitioner=[partitioner] if partitioner else None, compile_config=CONFIG
        )


def _cured(
    plan: Plan,
    error: Exception,
    exported: torch.export.ExportedProgram,
    partitioner: Selective | None,
    origins: Origins,
) -> Plan:
    """What to try after that failure. Raises the refusal where nothing is left to try."""
    view = broken_view(error, exported)
    if view and view not in plan.copies:
        return replace(plan, copies=plan.copies | {view})
    if partitioner is None:
        raise refusal(error, origins) from error
    blamed = partitioner.blamed(error)
    if blamed is None:  # nobody's operator: what portable kernels can't do either is refused then
        return replace(plan, delegate=False, left={}, without=headline(error))
    origin = origins.of(partitioner.nodes[blamed])
    return replace(plan, left={**plan.left, blamed: Left(operator=blamed[0], reason=headline(error), origin=origin)})


def refusal(error: Exception, origins: Origins) -> ExportError:
    """What ExecuTorch stopped at, at the user's line."""
    node = failing_node(error)
    origin = origins.of(node) if node is not None else Origin()
    inside = f" in {origin.module}" if origin.module else ""
    at = f" at {origin.operator}{inside}" if origin.operator else ""
    return ExportError.of(
        "E0530",
        f"ExecuTorch's lowering stopped{at}: {headline(error)}",
        expected="a program that lowers to ExecuTorch",
        hint="rewrite that part of forward() with other operators, or move it into a pipeline step; targets of the "
        "runtimes onnxruntime and fastapi are not affected",
        file=origin.file,
        line=origin.line,
    )


def headline(error: BaseException) -> str:
    """The first cause, in a line, without paths of this machine."""
    first = list(causes(error))[-1]
    text = next((line.strip() for line in str(first).splitlines() if line.strip()), "")
    return re.sub(r"(?:/[\w.+-]+){2,}/", "", f"{type(first).__name__}: {text}")[:300]


def _said(left: Left) -> Diagnostic:
    return Diagnostic(
        code="E0533",
        message=f"XNNPACK refuses {left.operator}, which portable kernels compute instead: {left.reason}",
        file=left.origin.file,
        line=left.origin.line,
        severity="warning",
        expected="an operator that the delegate takes",
        hint="nothing needs to be done; where it costs too much, write that line with other operators",
    )


def _no_delegate(reason: str) -> Diagnostic:
    return Diagnostic(
        code="E0533",
        message=f"XNNPACK fails on this program as a whole, so that portable kernels compute all of it: {reason}",
        severity="warning",
        expected="a program that the delegate takes parts of",
        hint="report it with the model; `min_delegated` makes it an error",
    )
