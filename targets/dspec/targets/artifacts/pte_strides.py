"""Views that hold whatever the strides of what they look at: lowering re-traces the program, and strides are nobody's promise.

A fused attention kernel's output has other strides than its decomposition. While the user's module is traced, with the
fused one, `.contiguous()` before a view is nothing and leaves no trace; without it, the view breaks once it is
decomposed. So the copy is put back, in front of every view that sees an attention's output without one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch

aten = torch.ops.aten
_VIEWS = (aten.view.default, aten._unsafe_view.default)
_FUSED = (aten.scaled_dot_product_attention.default,)
_RESTRIDED = (
    aten.transpose.int, aten.permute.default, aten.t.default, aten.unsqueeze.default, aten.squeeze.dim, aten.squeeze.dims,
    aten.slice.Tensor, aten.select.int, aten.expand.default, aten.alias.default, aten.detach.default, *_VIEWS,
)  # fmt: skip
_BROKEN = re.compile(r"While executing %(\w+) ")


def copied(exported: torch.export.ExportedProgram, more: frozenset[str]) -> torch.export.ExportedProgram:
    """The same program, changed in place: a copy stands before the views that need one, and before those named in `more`."""
    for module in _graph_modules(exported):
        views = [node for node in module.graph.nodes if node.target in _VIEWS]
        chosen = [node for node in views if node.name in more or _sees_fused(node.args[0])]
        for node in chosen:
            _copy_before(module.graph, node)
        if chosen:
            module.recompile()
    return exported


def broken_view(error: BaseException, exported: torch.export.ExportedProgram) -> str:
    """The name of the view that a re-trace broke at; empty where it broke at something else."""
    seen: BaseException | None = error
    while seen is not None:
        text = str(seen)
        found = _BROKEN.search(text) if "view" in text else None
        if found and any(node.name == found[1] and node.target in _VIEWS for node in _nodes(exported)):
            return found[1]
        seen = seen.__cause__ or seen.__context__
    return ""


def _graph_modules(exported: torch.export.ExportedProgram) -> Iterator[torch.fx.GraphModule]:
    for module in exported.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield module


def _nodes(exported: torch.export.ExportedProgram) -> Iterator[torch.fx.Node]:
    for module in _graph_modules(exported):
        yield from module.graph.nodes


def _sees_fused(node: Any) -> bool:
    """Whether only operators that keep the storage lie between a fused kernel and what is given."""
    while isinstance(node, torch.fx.Node) and node.target in _RESTRIDED:
        node = node.args[0]
    return isinstance(node, torch.fx.Node) and node.target in _FUSED


def _copy_before(graph: torch.fx.Graph, view: torch.fx.Node) -> None:
    seen = view.args[0]
    assert isinstance(seen, torch.fx.Node)
    with graph.inserting_before(view):
        copy = graph.call_function(aten.clone.default, (seen,), {"memory_format": torch.contiguous_format})
    copy.meta = {**view.meta, "val": seen.meta["val"].clone(memory_format=torch.contiguous_format)}
    view.replace_input_with(seen, copy)
