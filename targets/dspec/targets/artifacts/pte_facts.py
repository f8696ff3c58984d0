"""What is in a `.pte`, for manifest, reports and whoever builds the device's runtime."""

from __future__ import annotations

from collections import Counter
from typing import Any

from dspec.spec.records import Interface
from dspec.targets.artifacts.pte_listing import listing
from dspec.targets.artifacts.pte_write import Written
from dspec.targets.protocol import Program


def listed(written: Written, interface: Interface) -> str:
    return listing(written.file, written.operators, written.handles, interface)


def facts(written: Written, delegate: str, program: Program) -> dict[str, Any]:
    """Shares from 0 to 1, sizes in bytes; `kernels` is what a selective build of the runtime must hold."""
    file, every = written.file, written.operators
    inside = [operator for operator in every if operator.delegate is not None]
    flops = sum(operator.flops for operator in every)
    return {
        "delegate": delegate,
        "delegates": len(file.delegates),
        "backends": sorted({found.backend for found in file.delegates}),
        "delegated_operators": round(len(inside) / len(every), 6) if every else 0.0,
        "delegated_flops": round(sum(operator.flops for operator in inside) / flops, 6) if flops else 0.0,
        "flops": flops,
        "operators": dict(sorted(Counter(operator.name for operator in every).items())),
        "portable": _portable(written),
        "refused": [
            {"operator": left.operator, "from": str(left.origin), "why": left.reason}
            for left in written.edge.left.values()
        ],
        "kernels": sorted(file.operators),
        "planned_bytes": list(file.arenas),
        "sections": file.sections,
        "bytes": sum(file.sections.values()),
        "parameters": _parameters(program),
        "data": [],
    }


def _portable(written: Written) -> list[dict[str, Any]]:
    """The operators that no delegate takes, with the user's lines."""
    found: dict[str, list[str]] = {}
    for operator in written.operators:
        if operator.delegate is None:
            found.setdefault(operator.name, []).append(str(operator.origin))
    return [
        {"operator": name, "count": len(places), "from": sorted({place for place in places if place})}
        for name, places in sorted(found.items())
    ]


def origins(written: Written) -> dict[str, list[dict[str, Any]]]:
    """Kernel of the file (`aten::fft.out`) → where the user wrote what it computes, with the dtype of its result."""
    by_handle = {operator.handle: operator for operator in written.operators if operator.delegate is None}
    found: dict[str, list[dict[str, Any]]] = {}
    for number, call in written.file.calls.items():
        if call.delegate is not None:
            continue
        known = by_handle.get(written.handles.get(number, -1))
        place = {"file": known.origin.file, "line": known.origin.line, "module": known.origin.module} if known else {}
        dtype = known.shape.partition("[")[0] if known else (call.result.dtype if call.result else "")
        found.setdefault(call.operator, []).append(place | {"dtype": dtype})
    return found


def _parameters(program: Program) -> int:
    count = 0
    for tensor in program.tensors:
        numbers = 1
        for size in tensor.shape:
            numbers *= size
        count += numbers
    return count
