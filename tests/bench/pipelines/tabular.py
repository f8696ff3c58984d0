"""Rows of a table: as for examples/tabular, and a wide one; by hand with numpy and a dictionary per column."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dspec.targets.shipped.pipeline import Pipeline

COLOURS = ["red", "blue", "green"]
Tensors = Mapping[str, Any]
Row = Mapping[str, Any]


def cases() -> Iterator[tuple[str, Callable[[], Tensors], Callable[[], Tensors]]]:
    for count in (12, 100):
        names = [f"column_{number}" for number in range(count)]
        row: dict[str, Any] = {name: number + 0.5 for number, name in enumerate(names)} | {"colour": "blue"}
        gaps = row | {names[1]: None, names[5]: None, "colour": "grey"}
        pipeline = _pipeline(names)
        for kind, request in (("whole", row), ("two gaps", gaps)):
            by_hand = functools.partial(_checked(names), {"row": request})
            yield f"{count} columns, {kind}", functools.partial(pipeline.before, {"row": request}), by_hand


def _checked(names: list[str]) -> Callable[[Mapping[str, Row]], Tensors]:
    """A careful hand: it refuses what a service must refuse (size, unknown columns, texts, NaN), as the pipeline does."""
    mean, std = np.arange(len(names), dtype=np.float64), np.full(len(names), 2.0)
    fill = {names[1]: 7.5, names[5]: 2.5}
    known = {*names, "colour"}

    def run(request: Mapping[str, Row]) -> Tensors:
        row = request["row"]
        if len(json.dumps(row, ensure_ascii=False, allow_nan=False).encode()) > 10_000:
            raise ValueError("too large")
        if not row.keys() <= known:
            raise ValueError("an unknown column")
        cells = [_number(row.get(name), name, fill) for name in names]
        scaled = (np.array(cells, np.float64) - mean) / std
        hot = np.zeros(len(COLOURS) + 1)
        colour = row.get("colour")
        hot[COLOURS.index(colour) if colour in COLOURS else len(COLOURS)] = 1
        features = np.concatenate([scaled, hot]).astype(np.float32)[np.newaxis]
        if not np.isfinite(features).all():
            raise ValueError("beyond float32")
        return {"features": features}

    return run


def _number(cell: Any, name: str, fill: Mapping[str, float]) -> float:
    if cell is None:
        return fill[name]
    if isinstance(cell, bool) or not isinstance(cell, (int, float)) or not math.isfinite(cell):
        raise ValueError(f"column {name} is no number")
    return cell


def _pipeline(names: list[str]) -> Pipeline:
    size = len(names) + len(COLOURS) + 1
    columns = {"names": names, "fill": {names[1]: 7.5, names[5]: 2.5}, "others": ["colour"]}
    scaling = {"mean": list(range(len(names))), "std": [2.0] * len(names)}
    listed = {"values": {"colour": COLOURS}, "unknown": "other", "missing": "unknown"}
    declared = {
        "request": {"row": {"type": "json", "max_bytes": 10_000}},
        "before": [
            {"id": "n", "use": "columns", "params": columns, "in": ["row"], "out": ["n"]},
            {"id": "s", "use": "standardize", "params": scaling, "in": ["n"], "out": ["s"]},
            {"id": "c", "use": "categories", "params": listed, "in": ["row"], "out": ["c"]},
            {"id": "f", "use": "concat", "params": {}, "in": ["s", "c"], "out": ["features"]},
        ],
        "inputs": {"features": {"dtype": "float32", "shape": ["batch", size], "range": None}},
        "outputs": {}, "dims": {"batch": {"min": 1, "max": 8, "multiple_of": 1}}, "batch": "batch",
        "after": [], "response": {},
    }  # fmt: skip
    return Pipeline(declared, Path(__file__).parent)
