"""golden/statistics.json: how inputs, outputs and sizes are distributed over the fixtures, so that a service can count in the same buckets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dspec.compiler.measure.cases import Expected
from dspec.targets.shipped.serve.counts import bucketed, series
from dspec.targets.shipped.serve.edges import FILE

DECILES = np.arange(1, 10) / 10
DIGITS = 9  # of an edge: as many as a float32 has


class Statistics:
    """Gathers the values of one fixture after another. `inputs` and `batch`, whose size tells nothing, as in pipeline.json."""

    def __init__(self, inputs: Mapping[str, Any], batch: str | None) -> None:
        self._sizes = {name: [dim if dim != batch else 1 for dim in port["shape"]] for name, port in inputs.items()}
        self._values: dict[str, list[Any]] = {}
        self._fixtures = 0

    def gather(self, cases: Iterable[Expected]) -> None:
        for case in cases:
            self._fixtures += 1
            for name, values in series(case.inputs, case.outputs, self._sizes):
                self._values.setdefault(name, []).append(values)

    def write(self, golden: Path) -> None:
        """Nothing where there are no values: then nothing is counted either."""
        found = {name: _described(np.concatenate(values)) for name, values in sorted(self._values.items())}
        if found:
            text = json.dumps({"fixtures": self._fixtures, "values": found}, indent=1, sort_keys=True)
            (golden / FILE).write_text(text + "\n", encoding="utf-8")


def _described(values: Any) -> dict[str, Any]:
    """{"edges": deciles, equal ones once; "expected": the share in each bucket, above the last, and not finite}."""
    numbers = values.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    deciles = np.quantile(finite, DECILES, method="inverted_cdf") if finite.size else np.zeros(1)
    edges = np.unique([float(f"{edge:.{DIGITS}g}") for edge in deciles])
    counts = bucketed(numbers, edges)
    return {"edges": edges.tolist(), "expected": [round(float(share), 6) for share in counts / max(1, numbers.size)]}
