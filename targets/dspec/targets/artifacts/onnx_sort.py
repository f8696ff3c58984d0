"""`sort(stable=True)`, which onnxscript 0.7 leaves out: ONNX's TopK over a whole axis is stable by its own definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op


def stable_sort(self: Any, stable: bool | None = None, dim: int = -1, descending: bool = False) -> tuple[Any, Any]:
    """(values, int64 indices) along `dim`. "The element with the lower index will appear first" (ONNX, TopK)."""
    if not len(self.shape):
        return op.Identity(self), op.Constant(value=ir.tensor(np.array(0, np.int64)))
    axis = dim % len(self.shape)
    size = op.Shape(self, start=axis, end=axis + 1)
    values, indices = op.TopK(self, size, axis=axis, largest=int(descending), sorted=1)
    return values, indices
