"""`graph.txt`: a `.pte` as text that reviewers can diff."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from dspec.spec.records import Interface
from dspec.targets.artifacts.pte_nodes import Operator
from dspec.targets.artifacts.pte_read import File


def listing(file: File, operators: Sequence[Operator], handles: Mapping[int, int], interface: Interface) -> str:
    """One line per input, output, kernel, delegate and instruction; the same text for the same program.

    `handles`: the file's instruction → executorch's number of the operator that its kernel computes.
    """
    return "\n".join(_lines(file, operators, handles, interface)) + "\n"


def _lines(
    file: File, operators: Sequence[Operator], handles: Mapping[int, int], interface: Interface
) -> Iterator[str]:
    for title, ports, planned in (
        ("inputs", interface.inputs, file.inputs),
        ("outputs", interface.outputs, file.outputs),
    ):
        yield title
        for (name, port), found in zip(ports.items(), planned, strict=True):
            yield f"  {name} {port.dtype}[{', '.join(map(str, port.shape))}], planned for {found}"
    yield f"\nmemory\n  planned {' + '.join(map(str, file.arenas)) or 0} bytes"
    yield "\nportable kernels"
    counts = Counter(call.operator for call in file.calls.values() if call.delegate is None)
    yield from (f"  {name} {count}" for name, count in sorted(counts.items()))
    yield "\ninstructions"
    where = {operator.handle: operator for operator in operators if operator.delegate is None}
    for number, call in file.calls.items():
        if call.delegate is not None:
            inside = [operator for operator in operators if operator.delegate == call.delegate]
            backend = file.delegates[call.delegate].backend
            yield f"  {backend} {call.delegate}: {len(inside)} operators -> {call.result}"
            yield from (f"    {_operator(operator)}" for operator in inside)
        else:
            known = where.get(handles.get(number, -1))
            yield f"  {call.operator} -> {call.result}" + (f"  {_place(known)}" if known else "")


def _operator(operator: Operator) -> str:
    return f"{operator.name} -> {operator.shape}  {_place(operator)}".rstrip()


def _place(operator: Operator) -> str:
    return str(operator.origin)
