"""Two traces side by side, in the order of the pipeline: the first step where they part is the one to look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dspec.spec.errors import MachineError, SpecError
from dspec.spec.models import Spec
from dspec.spec.placement import at

ATOL = RTOL = 1e-5  # of floats; everything else is equal or it is not
ONLY = "only in "
ANSWER = ("output.", "response")
AFTER = " (after the model)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One value of both traces: `<step>.<value>`, `door.<input>`, `output.<output>` or `response`.

    `what` is its type in words, `apart` how far it is from the other's in words, '' where both agree.
    """

    name: str
    what: str
    apart: str
    summary: str


def read(path: Path) -> Any:
    """The `Traced` of a file. Raises SpecError E0718 where it is no trace, MachineError where numpy is missing."""
    try:
        from dspec.targets.shipped.errors import BundleError, GoldenError
        from dspec.targets.shipped.trace import read_trace
    except ImportError as error:
        hint = "pip install 'dspec[onnxruntime]'"
        raise MachineError.of("E0605", f"comparing traces needs {error.name}", hint=hint) from error
    try:
        return read_trace(path)
    except (GoldenError, BundleError) as error:
        raise SpecError.of(
            "E0718",
            f"{path} is no trace: {error}",
            expected="what `dspec run --trace FILE` wrote, or golden/<number>/trace.npz of a bundle",
            hint="run the request again with --trace",
        ) from error


def rows(
    a: Any, b: Any, atol: float = ATOL, rtol: float = RTOL, *, inside: Callable[[str], str] | None = None
) -> list[Row]:
    """Every value of either trace, in the order of the first; what only one holds is told and never hidden.

    A trace without model outputs (a golden vector's) is not blamed for lacking them. Where `a` is PyTorch's own,
    `inside` says of a value why only one of both can hold it ("": there is no such reason).
    """
    policy = {"atol": atol, "rtol": rtol}
    found = [*_values(a, b, policy), *_response(a, b, policy)]
    return [_excused(row, inside) for row in found] if inside else found


def _excused(row: Row, inside: Callable[[str], str]) -> Row:
    why = inside(row.name) if row.apart.startswith(ONLY) else ""
    return replace(row, apart="", summary=why) if why else row


def inside_graph(spec: Spec) -> Callable[[str], str]:
    """Why a bundle of this spec lacks a value that PyTorch's trace holds, or has one that it lacks: by the value's name.

    What a step in the graph gives is seen by nobody, and tensors enter and leave such a graph under other names.
    """
    fused = {section: at(getattr(spec, section), "graph") for section in ("preprocess", "postprocess")}
    within = {f"{step.id}.{name}" for steps in fused.values() for step in steps for name in step.outputs}
    doors = [door for door, section in (("door.", "preprocess"), ("output.", "postprocess")) if fused[section]]

    def why(name: str) -> str:
        if name.removesuffix(AFTER) in within:
            return "inside the graph"
        return "at the graph's door" if name.startswith(tuple(doors)) else ""

    return why


def first_apart(found: Sequence[Row]) -> Row | None:
    """The first value that differs."""
    return next((row for row in found if row.apart), None)


def _values(a: Any, b: Any, policy: dict[str, float]) -> Iterator[Row]:
    for name in [*a.values, *(name for name in b.values if name not in a.values)]:
        mine, its = a.values.get(name), b.values.get(name)
        if name not in a.values or name not in b.values:
            if not _leaves_out_answers(b if name in a.values else a, name):
                where = "the first" if name in a.values else "the second"
                yield Row(name=name, what=_type(mine if name in a.values else its), apart=f"{ONLY}{where}", summary="")
            continue
        yield _row(name, mine, its, policy)


def _leaves_out_answers(trace: Any, name: str) -> bool:
    return name.startswith(ANSWER) and not any(key.startswith(ANSWER) for key in trace.values)


def _row(name: str, mine: Any, its: Any, policy: dict[str, float]) -> Row:
    from dspec.targets.shipped.compare import compare
    from dspec.targets.shipped.tolerance import broken_by

    if not (_is_array(mine) and _is_array(its)):
        return _json(name, mine, its, policy)
    rule = policy if mine.dtype.kind == "f" else {"atol": 0.0, "rtol": 0.0}
    error = compare(mine, its)
    reasons = broken_by(error, rule)
    greatest = max((point["diff"] for point in error["frontier"]), default=0.0)
    summary = error["broken"] or f"max |Δ| {greatest:.3g}"
    return Row(name=name, what=_type(mine), apart="; ".join(reasons), summary=summary)


def _response(a: Any, b: Any, policy: dict[str, float]) -> Iterator[Row]:
    if a.response is None or b.response is None:
        return
    yield _json("response", a.response, b.response, policy)


def _json(name: str, mine: Any, its: Any, policy: dict[str, float]) -> Row:
    """Values that are not both arrays."""
    from dspec.targets.shipped.selftest import differences

    if _is_array(mine) or _is_array(its):
        apart = f"{_type(its)} where the first has {_type(mine)}"
    else:
        apart = "; ".join(differences(mine, its, within=policy))
    return Row(name=name, what=_type(mine), apart=apart, summary="" if apart else "equal")


def _is_array(value: Any) -> bool:
    return hasattr(value, "dtype")


def _type(array: Any) -> str:
    if not _is_array(array):
        return "json"
    return f"{array.dtype} [{', '.join(map(str, array.shape))}]"
