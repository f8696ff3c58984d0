"""XNNPACK, without the operators that it refuses: each leaves the delegate by itself, and the rest stays in."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir.backend.canonical_partitioners.config_partitioner import format_target_name

Key = tuple[str, str, tuple[str, ...]]
_BACKENDS = "/executorch/backends/"
_AT_WORK = ("target_node", "node", "n")  # what the delegate's passes and visitors call the node they are at


def key(node: torch.fx.Node) -> Key:
    """Names one operator of the user's model before and after decomposition: debug handles shift between attempts."""
    name = format_target_name(getattr(node.target, "__name__", str(node.target)))
    return name, node.meta.get("stack_trace") or "", tuple(node.meta.get("nn_module_stack") or ())


class Selective(XnnpackPartitioner):  # type: ignore[misc]  # executorch is untyped
    """XNNPACK's partitioner without the operators named in `refused`."""

    def __init__(self, refused: frozenset[Key]) -> None:
        super().__init__()
        self.refused = refused
        self.seen: dict[Any, Key] = {}  # debug handle → operator
        self.nodes: dict[Key, torch.fx.Node] = {}

    def ops_to_not_decompose(self, ep: Any) -> tuple[Any, Callable[[torch.fx.Node], bool]]:
        operators, keep = super().ops_to_not_decompose(ep)
        return operators, lambda node: keep(node) and key(node) not in self.refused

    def get_matched_nodes_from_configs(self, ep: Any) -> list[list[torch.fx.Node]]:
        groups = []
        for group in super().get_matched_nodes_from_configs(ep):
            calls = [_source(node) for node in group if node.op == "call_function"]
            self.seen |= {node.meta.get("debug_handle"): key(node) for node in calls}
            self.nodes |= {key(node): node for node in calls}
            if not any(key(node) in self.refused for node in calls):
                groups.append(group)
        return groups

    def blamed(self, error: BaseException) -> Key | None:
        """The operator that the delegate failed at; None where its frames do not tell, or it had left already."""
        node = _at_work(error)
        found = self.seen.get(_source(node).meta.get("debug_handle")) if node is not None else None
        return None if found is None or found in self.refused else found


def _source(node: torch.fx.Node) -> torch.fx.Node:
    """The operator itself where the node is a part of what it gives: both have one debug handle."""
    while node.target is operator.getitem and isinstance(node.args[0], torch.fx.Node):
        node = node.args[0]
    return node


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it was raised from, the first cause last."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__


def _at_work(error: BaseException) -> torch.fx.Node | None:
    found = None
    for one in causes(error):
        trace = one.__traceback__
        while trace is not None:
            if _BACKENDS in trace.tb_frame.f_code.co_filename:
                node = next((n for name in _AT_WORK if _is_call(n := trace.tb_frame.f_locals.get(name))), None)
                found = node if node is not None else found
            trace = trace.tb_next
    return found


def _is_call(node: Any) -> bool:
    return isinstance(node, torch.fx.Node) and node.op == "call_function"
