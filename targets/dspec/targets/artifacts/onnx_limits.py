"""What the installed ONNX Runtime reads: found by asking it, since a table of versions goes stale."""

from __future__ import annotations

from functools import cache

import onnx
from onnx import TensorProto, helper

from dspec.spec.errors import ExportError

_IR, _OPSET = 10, 18  # read by every onnxruntime that pyproject.toml allows


@cache
def max_ir_version() -> int:
    """The newest IR version that the installed onnxruntime loads."""
    return _newest(_IR, onnx.IR_VERSION + 2, lambda number: _loads(number, _OPSET))


@cache
def max_opset() -> int:
    """The newest opset of the domain ai.onnx that the installed onnxruntime loads without guessing."""
    return _newest(_OPSET, onnx.defs.onnx_opset_version() + 2, lambda number: _loads(_IR, number))


def check_versions(ir_version: int, opset: int) -> None:
    """Raises ExportError E0507 when the runtime would refuse the file, or load it with a guess."""
    import onnxruntime

    for what, found, limit in (
        ("IR version", ir_version, max_ir_version()),
        ("opset", opset, max_opset()),
    ):
        if found > limit:
            raise ExportError.of(
                "E0507",
                f"the file has ONNX {what} {found}",
                expected=f"{limit} at most: onnxruntime {onnxruntime.__version__} reads no newer one",
                hint="give a lower `opset` in the target's options, or use a newer onnxruntime",
            )


def _newest(known: int, last: int, loads: object) -> int:
    for number in range(last, known, -1):
        if loads(number):  # type: ignore[operator]
            return number
    return known


def _loads(ir_version: int, opset: int) -> bool:
    import onnxruntime

    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "probe", value[:1], value[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:  # its exceptions have no common base but this
        return False
    return True
