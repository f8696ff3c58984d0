"""Names of the Open Inference Protocol's datatypes; needs no numpy, for the web process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DTYPES = {
    "BOOL": "bool",
    **{f"{sign}INT{bits}": f"{sign.lower()}int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)},
    "FP16": "float16", "FP32": "float32", "FP64": "float64",
}  # fmt: skip
NAMES = {dtype: name for name, dtype in DTYPES.items()}
BYTES = "BYTES"


def datatype_of(dtype: str) -> str:
    return NAMES[dtype]


def field_datatype(field: Mapping[str, Any]) -> str:
    """Of a request's field: texts, files and JSON are BYTES."""
    kind = field["type"]
    return "FP64" if kind == "number" else NAMES[field.get("dtype") or "float32"] if kind == "tensor" else BYTES
