"""Two traces side by side, in the order of the pipeline: the first step where they part is the one to look at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dspec.spec.errors import MachineError, SpecError

ATOL = RTOL = 1e-5  # of floats; everything else is equal or it is not
ONLY = "only in "
ANSWER = ("output.", "response")


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


def rows(a: Any, b: Any, atol: float = ATOL, rtol: float = RTOL, *, reference: bool = False) -> list[Row]:
    """Every value of either trace, in the order of the first; what only one holds is told and never hidden.

    A trace without model outputs (a golden vector's) is not blamed for lacking them. Where `a` is PyTorch's own
    (`reference`), a bundle whose graph holds some of the steps is not blamed for lacking what is inside.
    """
    policy = {"atol": atol, "rtol": rtol}
    found = [*_values(a, b, policy), *_response(a, b, policy)]
    return [_inside(row) if row.apart.startswith(ONLY) else row for row in found] if reference else found


def _inside(row: Row) -> Row:
    return replace(row, apart="", summary="inside the graph, or at its door")


def first_apart(found: Sequence[Row]) -> Row | None:
    """The first value that differs."""
    return next((row for row in found if row.apart), None)


def _values(a: Any, b: Any, policy: dict[str, float]) -> Iterator[Row]:
    for name in [*a.values, *(name for name in b.values if name not in a.values)]:
        mine, its = a.values.get(name), b.values.get(name)
        if mine is None or its is None:
            if not _leaves_out_answers(a if mine is None else b, name):
                where = "the first" if its is None else "the second"
                yield Row(name=name, what=_type(its if mine is None else mine), apart=f"{ONLY}{where}", summary="")
            continue
        yield _row(name, mine, its, policy)


def _leaves_out_answers(trace: Any, name: str) -> bool:
    return name.startswith(ANSWER) and not any(key.startswith(ANSWER) for key in trace.values)


def _row(name: str, mine: Any, its: Any, policy: dict[str, float]) -> Row:
    from dspec.targets.shipped.compare import compare
    from dspec.targets.shipped.tolerance import broken_by

    rule = policy if mine.dtype.kind == "f" else {"atol": 0.0, "rtol": 0.0}
    error = compare(mine, its)
    reasons = broken_by(error, rule)
    greatest = max((point["diff"] for point in error["frontier"]), default=0.0)
    summary = error["broken"] or f"max |Δ| {greatest:.3g}"
    return Row(name=name, what=_type(mine), apart="; ".join(reasons), summary=summary)


def _response(a: Any, b: Any, policy: dict[str, float]) -> Iterator[Row]:
    if a.response is None or b.response is None:
        return
    from dspec.targets.shipped.selftest import differences

    apart = "; ".join(differences(a.response, b.response, within=policy))
    yield Row(name="response", what="json", apart=apart, summary="" if apart else "equal")


def _type(array: Any) -> str:
    return f"{array.dtype} [{', '.join(map(str, array.shape))}]"
