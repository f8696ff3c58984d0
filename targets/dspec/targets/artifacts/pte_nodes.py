"""The operators of a lowered program: who computes each, of what shape, from which line, and how much arithmetic it is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from dspec.targets.artifacts.dim_text import renamed
from dspec.targets.artifacts.fx_origin import Origin
from dspec.targets.artifacts.pte_lower import Edge

_CALL = "executorch_call_delegate"
# Of the inputs: each number that comes out takes as many products as the weight has numbers per channel, or the inner size.
_PRODUCTS = ("linear", "mm", "bmm", "addmm", "baddbmm", "matmul", "convolution")
_MOVES = (
    "view", "view_copy", "permute_copy", "expand_copy", "unsqueeze_copy", "squeeze_copy", "slice_copy", "select_copy", "cat",
    "clone", "_clone_dim_order", "_to_dim_order_copy", "split_with_sizes_copy", "transpose_copy", "constant_pad_nd", "full",
    "unbind_copy", "split_copy", "alias_copy", "embedding", "stack", "repeat", "index", "index_select", "gather", "arange",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Operator:
    """`name` as `aten.linear.default`; `delegate`: its number, None for a portable kernel; `flops` at the largest declared sizes.

    `shape` as `float32[batch, 4]`; `handle`: executorch's number of it, by which the file's instructions are found again.
    """

    name: str
    delegate: int | None
    shape: str
    flops: int
    origin: Origin
    handle: Any


def operators(edge: Edge, names: Mapping[str, str]) -> tuple[Operator, ...]:
    """Every operator in the order of the graph. `names`: exported symbol → declared dim."""
    exported = edge.manager.exported_program()
    greatest = {str(symbol): int(found.upper) for symbol, found in exported.range_constraints.items()}
    return tuple(_all(exported.graph_module, edge, names, greatest))


def _all(
    module: torch.fx.GraphModule, edge: Edge, names: Mapping[str, str], greatest: Mapping[str, int]
) -> Iterator[Operator]:
    number = 0
    for node in module.graph.nodes:
        if node.op == "call_function" and getattr(node.target, "__name__", "") == _CALL:
            lowered = getattr(module, node.args[0].target)
            for inner in lowered.original_module.graph.nodes:
                if _counts(inner):
                    yield _operator(inner, number, edge, names, greatest)
            number += 1
        elif _counts(node):
            yield _operator(node, None, edge, names, greatest)


def _counts(node: torch.fx.Node) -> bool:
    """Operators over tensors: not sizes, nor the parts of a tuple."""
    return node.op == "call_function" and hasattr(node.target, "_schema") and _tensor(node) is not None


def _tensor(node: Any) -> torch.Tensor | None:
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    if isinstance(value, (tuple, list)):
        value = next((part for part in value if isinstance(part, torch.Tensor)), None)
    return value if isinstance(value, torch.Tensor) else None


def _operator(
    node: torch.fx.Node, delegate: int | None, edge: Edge, names: Mapping[str, str], greatest: Mapping[str, int]
) -> Operator:
    value = _tensor(node)
    assert value is not None
    sizes = ", ".join(renamed(str(size), names) for size in value.shape)
    return Operator(
        name=name_of(node),
        delegate=delegate,
        shape=f"{str(value.dtype).removeprefix('torch.')}[{sizes}]",
        flops=_flops(node, value, greatest),
        origin=edge.origins.of(node),
        handle=node.meta.get("debug_handle"),
    )


def name_of(node: torch.fx.Node) -> str:
    """`aten.linear.default`."""
    schema = node.target._schema  # type: ignore[union-attr]
    return f"{str(schema.name).replace('::', '.')}.{schema.overload_name or 'default'}"


def _flops(node: torch.fx.Node, value: torch.Tensor, greatest: Mapping[str, int]) -> int:
    """Two per product where products are summed; one per number elsewhere; none where numbers are only moved."""
    kind = name_of(node).split(".")[1]
    count = math.prod(_size(size, greatest) for size in value.shape)
    if kind in _MOVES:
        return 0
    if kind not in _PRODUCTS:
        return count
    return 2 * count * _inner(kind, node, greatest)


def _inner(kind: str, node: torch.fx.Node, greatest: Mapping[str, int]) -> int:
    tensors = [found for argument in node.args if (found := _tensor(argument)) is not None]
    if kind == "convolution":
        channels = 0 if not node.args[6] else 1  # a transposed one sums over the weight's first axis
        weight = [_size(size, greatest) for size in tensors[1].shape]
        return math.prod(size for axis, size in enumerate(weight) if axis != channels)
    left = tensors[1] if kind in ("addmm", "baddbmm") else tensors[0]
    return _size(left.shape[-1], greatest)


def _size(size: Any, greatest: Mapping[str, int]) -> int:
    if isinstance(size, int):
        return size
    expression = size.node.expr
    return int(expression.subs({symbol: greatest.get(str(symbol), 1) for symbol in expression.free_symbols}))
