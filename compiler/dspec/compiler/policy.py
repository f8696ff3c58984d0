"""The tolerance in force for each output: what the spec says, or the default of its dtype."""

from __future__ import annotations

from dspec.spec.errors import SpecError
from dspec.spec.models import Policy, Spec
from dspec.spec.records import Interface, Port

EXACT = Policy(atol=0.0, rtol=0.0)
BY_DTYPE = {
    "float64": Policy(atol=1e-7, rtol=1e-6),
    "float32": Policy(atol=1e-4, rtol=1e-3),
    "float16": Policy(atol=1e-2, rtol=1e-2),
    "bfloat16": Policy(atol=5e-2, rtol=5e-2),
}


def policies(spec: Spec, interface: Interface) -> dict[str, Policy]:
    """Output → policy. The spec's default is for floats: an integer has no reason to drift."""
    return {name: _policy(spec, interface, name) for name in interface.outputs}


def _policy(spec: Spec, interface: Interface, output: str) -> Policy:
    named = spec.tolerance.outputs.get(output)
    if named is None:
        return _by_dtype(spec, interface.outputs[output].dtype)
    if named.selects and named.atol is None and named.rtol is None:
        source = _source(named.selects, output, interface)
        of_source = _by_dtype(spec, source.dtype)
        return named.model_copy(update={"atol": of_source.atol, "rtol": of_source.rtol})
    return named


def _source(name: str, output: str, interface: Interface) -> Port:
    found = {**interface.inputs, **interface.outputs}
    if name not in found:  # the spec left its outputs open, so `check` could not tell
        raise SpecError.of(
            "E0320",
            f"`{output}` selects from `{name}`, which is no input or output",
            key=f"tolerance.outputs.{output}.selects",
            expected=", ".join(found),
            hint="name the tensor that the indices point into",
        )
    return found[name]


def _by_dtype(spec: Spec, dtype: str) -> Policy:
    return (spec.tolerance.default or BY_DTYPE[dtype]) if dtype in BY_DTYPE else EXACT
