"""`scaled_dot_product_attention` in ONNX operators, as PyTorch computes it.

onnxscript 0.7 fills masked scores with the lowest finite number, so that a row whose positions are all masked (the padding
on the left of a decoder's input) attends to everything alike; PyTorch answers zero there. It also takes tensors of four
axes only.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op


def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Query of shape (…, L, E), key (…, S, E), value (…, S, V) → (…, L, V); a row that sees nothing gives 0."""
    if dropout_p:
        raise ValueError(f"attention with dropout {dropout_p} is random")
    rank = len(key.shape)
    if enable_gqa:
        key, value = (_repeated(tensor, query) for tensor in (key, value))
    scores = op.MatMul(*_scaled(query, _transposed(key, rank), scale))
    mask = _causal(query, key) if is_causal else _additive(attn_mask, query)
    if mask is None:
        return op.MatMul(op.Softmax(scores, axis=-1), value)
    scores = op.Add(scores, mask)
    unseen = op.Equal(op.ReduceMax(scores, _ints(-1), keepdims=1), _number(-math.inf, query))
    weights = op.Where(unseen, _number(0.0, query), op.Softmax(scores, axis=-1))
    return op.MatMul(weights, value)


def _number(number: float, like: Any) -> Any:
    return op.Constant(value=ir.tensor(number, dtype=like.dtype))


def _ints(*numbers: int) -> Any:
    return op.Constant(value=ir.tensor(np.array(numbers, np.int64)))


def _transposed(tensor: Any, rank: int) -> Any:
    return op.Transpose(tensor, perm=[*range(rank - 2), rank - 1, rank - 2])


def _scaled(query: Any, key: Any, scale: float | None) -> tuple[Any, Any]:
    """Both sides carry the root of the scale, as in PyTorch, which keeps half precision from overflowing."""
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    root = math.sqrt(abs(factor))
    return op.Mul(query, _number(math.copysign(root, factor), query)), op.Mul(key, _number(root, key))


def _additive(mask: Any, query: Any) -> Any:
    if mask is None or mask.dtype != ir.DataType.BOOL:
        return mask
    return _where_seen(mask, query)


def _where_seen(seen: Any, query: Any) -> Any:
    return op.Where(seen, _number(0.0, query), _number(-math.inf, query))


def _causal(query: Any, key: Any) -> Any:
    rows, columns = (_positions(tensor) for tensor in (query, key))
    seen = op.LessOrEqual(op.Unsqueeze(columns, _ints(0)), op.Unsqueeze(rows, _ints(1)))
    return _where_seen(seen, query)


def _positions(tensor: Any) -> Any:
    """0, 1, … along the axis before the last."""
    size = op.Squeeze(op.Shape(tensor, start=-2, end=-1))
    zero, one = (op.Constant(value=ir.tensor(number, dtype=ir.DataType.INT64)) for number in (0, 1))
    return op.Range(zero, size, one)


def _repeated(tensor: Any, query: Any) -> Any:
    """Heads of key or value repeated so that each query head has one: (…, H, S, E) → (…, H·times, S, E)."""
    heads, wanted = tensor.shape[-3], query.shape[-3]
    if heads == wanted:
        return tensor
    rank = len(tensor.shape)
    apart = op.Unsqueeze(tensor, _ints(rank - 2))
    times = op.Expand(apart, _ints(*[1] * (rank - 2), wanted // heads, 1, 1))
    front, back = op.Shape(tensor, end=rank - 3), op.Shape(tensor, start=rank - 2)
    return op.Reshape(times, op.Concat(front, _ints(wanted), back, axis=0))
