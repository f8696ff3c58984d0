"""What a spec may ask of ONNX Runtime in vain, in words, before anything heavy runs."""

from __future__ import annotations

from collections.abc import Iterator

from dspec.spec.errors import Diagnostic
from dspec.spec.models import Spec, Target

MIN_OPSET = 18  # torch's translations start here
NO_NUMPY = frozenset(("bfloat16",))  # ONNX Runtime's CPU kernels and numpy both lack it


def refusals(spec: Spec, target: Target) -> tuple[Diagnostic, ...]:
    """Every reason at once; empty when the target can be served."""
    return (*_dtypes(spec), *_options(target))


def _dtypes(spec: Spec) -> Iterator[Diagnostic]:
    for side, ports in (("inputs", spec.model.inputs), ("outputs", spec.model.outputs)):
        for name, port in ports.items():
            if port.dtype in NO_NUMPY:
                yield Diagnostic(
                    code="E0517",
                    message=f"{side[:-1]} {name} is {port.dtype}, which ONNX Runtime can't serve on a CPU",
                    key=f"model.{side}.{name}.dtype",
                    expected="float32, float16, float64, an integer dtype or bool",
                    hint="declare it float32 and cast inside forward() where the model needs another dtype",
                )


def _options(target: Target) -> Iterator[Diagnostic]:
    opset = target.options.get("opset", 0)
    if isinstance(opset, int) and opset != 0 and opset < MIN_OPSET:
        yield _option("opset", opset, f"0 for the exporter's own choice, or {MIN_OPSET} and above")
    for name, least in (("intra_op_threads", 0), ("inter_op_threads", 1)):
        found = target.options.get(name, least)
        if isinstance(found, int) and found < least:
            yield _option(name, found, f"{least} and above")


def _option(name: str, found: int, expected: str) -> Diagnostic:
    return Diagnostic(
        code="E0518",
        message=f"option {name} is {found}",
        key=f"options.{name}",
        expected=expected,
        hint=f"leave {name} out for the default",
    )
