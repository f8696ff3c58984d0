"""The tolerance in force for each output: what the spec says, or the default of its dtype."""

from __future__ import annotations

from dspec.spec.models import Policy, Spec
from dspec.spec.records import Interface

EXACT = Policy(atol=0.0, rtol=0.0)
BY_DTYPE = {
    "float64": Policy(atol=1e-7, rtol=1e-6),
    "float32": Policy(atol=1e-4, rtol=1e-3),
    "float16": Policy(atol=1e-2, rtol=1e-2),
    "bfloat16": Policy(atol=5e-2, rtol=5e-2),
}


def policies(spec: Spec, interface: Interface) -> dict[str, Policy]:
    """Output → policy. The spec's default is for floats: an integer has no reason to drift."""
    return {name: _policy(spec, name, port.dtype) for name, port in interface.outputs.items()}


def _policy(spec: Spec, output: str, dtype: str) -> Policy:
    named = spec.tolerance.outputs.get(output)
    if named is not None:
        return named
    if dtype in BY_DTYPE:
        return spec.tolerance.default or BY_DTYPE[dtype]
    return EXACT
