"""`dspec trace-diff A B`: the first step where two traces of a request part."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any, NamedTuple

from dspec.compiler.console import table
from dspec.compiler.trace_diff import Row, first_apart, inside_graph, read, rows
from dspec.spec.load import Loaded, load
from dspec.targets import catalogue

HEADINGS = ("value", "type", "difference", "")


def run(options: argparse.Namespace) -> int:
    """0 where every value agrees, 1 where one parts."""
    first, second = _Named(str(options.first), read(options.first)), _Named(str(options.second), read(options.second))
    pairs, inside = [(first, second)], None
    if options.spec:
        loaded = load(options.spec, catalogue())
        reference = _Named("PyTorch", _of_pytorch(loaded, options, first.trace.request))
        pairs, inside = [(reference, first), (reference, second)], inside_graph(loaded.spec)
    found = [
        (one.name, other.name, rows(one.trace, other.trace, options.atol, options.rtol, inside=inside))
        for one, other in pairs
    ]
    if options.format == "json":
        print(json.dumps([_json(*compared) for compared in found]))
    else:
        print("\n\n".join(_text(*compared) for compared in found))
    return 1 if any(first_apart(every) for _, _, every in found) else 0


class _Named(NamedTuple):
    name: str
    trace: Any


def _of_pytorch(loaded: Loaded, options: argparse.Namespace, request: Any) -> Any:
    from dspec.compiler.console import progress
    from dspec.compiler.store import Store
    from dspec.compiler.traced import reference_trace

    with progress() as report:
        return reference_trace(loaded, request, Store(root=options.store.resolve()), report)


def _json(one: str, other: str, found: list[Row]) -> dict[str, object]:
    first = first_apart(found)
    return {"first": one, "second": other, "parts_at": first and first.name, "values": [asdict(row) for row in found]}


def _text(one: str, other: str, found: list[Row]) -> str:
    first = first_apart(found)
    lines = table(HEADINGS, [(row.name, row.what, row.summary, "apart" if row.apart else "equal") for row in found])
    verdict = f"they part at {first.name}: {first.apart}" if first else "they agree in every value"
    return f"{one} and {other}\n{lines}\n{verdict}"
