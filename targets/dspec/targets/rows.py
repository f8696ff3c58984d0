"""A request's fields as the tensors of one row that an inference server takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np


def row_of(field: Mapping[str, Any], value: Any) -> Any:
    """A field's value (Python form) as a tensor of one row: an array, or a list of bytes where the datatype is BYTES."""
    if field["type"] == "tensor":
        return np.asarray(value)[np.newaxis]
    if field["type"] == "number":
        return np.array([value], np.float64)
    if isinstance(value, str) and field["type"] == "text":
        return [value.encode()]
    return [bytes(value)] if isinstance(value, (bytes, bytearray, memoryview)) else [json.dumps(value).encode()]
