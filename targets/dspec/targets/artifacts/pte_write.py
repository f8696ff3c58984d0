"""Write a `.pte`, and hold what was written against the interface."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dspec.spec.errors import Diagnostic
from dspec.targets.artifacts import pte_check, pte_read
from dspec.targets.artifacts.pte_lower import Edge, lower, refusal
from dspec.targets.artifacts.pte_neutral import neutral
from dspec.targets.artifacts.pte_nodes import Operator, operators
from dspec.targets.artifacts.pte_read import METHOD, File
from dspec.targets.protocol import Program


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """`handles`: the file's instruction → executorch's number of the operator that its kernel computes."""

    path: Path
    file: File
    operators: tuple[Operator, ...]
    handles: Mapping[int, int]
    edge: Edge

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        return self.edge.warnings


def write(program: Program, delegate: str, path: Path) -> Written:
    """The program as a file. Errors as `pte.PteBuilder.build`."""
    edge = lower(program, delegate)
    found = operators(edge, program.symbols)  # before planning, which changes the graph
    try:
        with neutral():
            made = edge.manager.to_executorch()
    except Exception as error:
        raise refusal(error, edge.origins) from error
    with path.open("wb") as stream:
        made.write_to_file(stream)
    file = pte_read.read(path)
    pte_check.check(file, program.interface)
    pte_check.check_strings(path)
    numbers = made.debug_handle_map.get(METHOD, {})
    handles = {at: handle for at, handle in numbers.items() if isinstance(handle, int)}  # a delegate has a list of them
    return Written(path=path, file=file, operators=found, handles=handles, edge=edge)
