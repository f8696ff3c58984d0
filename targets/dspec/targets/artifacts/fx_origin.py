"""Where in the user's code a node of an exported program comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

ORIGIN = "dspec.origin"  # key in an ONNX IR node's `meta`, which is never written to a file
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
# A region that torch runs as generated code loses its trace: `File "<eval_with_key>.3", line 5, in forward\n    linear = `
_GENERATED = re.compile(r'File "<eval_with_key>[^"]*", line \d+, in \w+\n\s*(\w+) =')
_PLACE = re.compile(r"^(.*):(\d+)$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """`operator` as `aten._linalg_svd`, `module` as `encoder.layer.0`; empty and 0 where not known."""

    operator: str = ""
    module: str = ""
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.file else ""
        return " ".join(part for part in (place, self.module and f"({self.module})") if part)


class Origins:
    """Origins of the nodes of one program, decompositions of them included (they keep the stack trace)."""

    def __init__(self, exported: torch.export.ExportedProgram, sources: Mapping[str, str]) -> None:
        traced = [node for node in exported.graph.nodes if node.name in sources and node.meta.get("stack_trace")]
        self._by_name = dict(sources)
        self._by_trace = {node.meta["stack_trace"]: sources[node.name] for node in traced}
        self._inside = dict(_inner_places(exported))

    def of(self, node: torch.fx.Node) -> Origin:
        file, line = _place(self._source(node))
        return Origin(operator=_operator(node), module=_module(node), file=file, line=line)

    def _source(self, node: torch.fx.Node) -> str:
        trace = node.meta.get("stack_trace") or ""
        if not trace:
            return self._by_name.get(node.name, "")
        generated = _GENERATED.match(trace)
        if generated:
            return self._inside.get(generated[1], "")
        return self._by_trace.get(trace) or _last_user_frame(trace)


def _inner_places(exported: torch.export.ExportedProgram) -> Iterator[tuple[str, str]]:
    """Nodes of autocast blocks, branches and loops: node → place."""
    for name, module in exported.graph_module.named_modules():
        for node in getattr(getattr(module, "graph", None), "nodes", ()) if name else ():
            place = _last_user_frame(node.meta.get("stack_trace") or "")
            if place:
                yield node.name, place


def failing_node(error: BaseException) -> torch.fx.Node | None:
    """The node that was being worked on when `error` rose: the innermost one on its stack or its causes' stacks."""
    import torch

    found: torch.fx.Node | None = None
    for frame_locals in _frames(error):
        node = frame_locals.get("node", frame_locals.get("n"))
        if isinstance(node, torch.fx.Node) and node.op == "call_function":
            found = node
    return found


def _frames(error: BaseException) -> Iterator[Mapping[str, object]]:
    seen: BaseException | None = error
    while seen is not None:
        trace = seen.__traceback__
        while trace is not None:
            yield trace.tb_frame.f_locals
            trace = trace.tb_next
        seen = seen.__cause__ or seen.__context__


def _last_user_frame(trace: str) -> str:
    """Programs keep paths of the user's own sources relative, so an absolute one is a library's."""
    frames = [f"{file}:{line}" for file, line in _FRAME.findall(trace) if not file.startswith(("/", "<"))]
    return frames[-1] if frames else ""


def _place(source: str) -> tuple[str, int]:
    found = _PLACE.match(source)
    return (found[1], int(found[2])) if found else (source, 0)


def _operator(node: torch.fx.Node) -> str:
    schema = getattr(node.target, "_schema", None)
    return str(schema.name).replace("::", ".") if schema is not None else str(node.target)


def _module(node: torch.fx.Node) -> str:
    stack = node.meta.get("nn_module_stack") or {}
    paths = [str(entry[0]) for entry in stack.values() if entry[0]]
    return paths[-1] if paths else ""
