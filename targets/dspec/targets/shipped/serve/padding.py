"""The pipeline's own rule for stacking texts of different lengths; without one, only equal shapes are stacked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import steps
from ..pipeline import filled

TOKENIZE = "tokenize"


@dataclass(frozen=True, kw_only=True, slots=True)
class Padding:
    """`dim` may be filled up: `fills` for each input that has it, on the `left` or at the end."""

    dim: str
    fills: Mapping[str, int]
    left: bool


def padding_of(declared: Mapping[str, Any], folder: Path) -> Padding | None:
    """The rule of pipeline.json `declared`, whose assets lie in `folder`.

    A tokenize step gives one where the model takes its mask, the length is a dim of no other input, and no output's
    size follows that length in another way than being it.
    """
    for use in declared["before"]:
        if use["use"] == TOKENIZE:
            step = steps.load(TOKENIZE)(**filled(TOKENIZE, use["params"], folder))
            found = _of_step(step, use["out"], declared) if step.padding == "longest" else None
            if found:
                return found
    return None


def _of_step(step: Any, writes: list[str], declared: Mapping[str, Any]) -> Padding | None:
    inputs, batch = declared["inputs"], declared["batch"]
    roles = dict(zip(step.outputs, writes, strict=True))
    if not {roles.get("ids"), roles.get("mask")} <= set(inputs):
        return None
    dims = {size for size in inputs[roles["ids"]]["shape"] if isinstance(size, str) and size != batch}
    if len(dims) != 1:
        return None
    (dim,) = dims
    sharing = {name for name, port in inputs.items() if _uses(dim, port["shape"])}
    plain = all(
        size == dim for port in (*inputs.values(), *declared["outputs"].values()) for size in _using(dim, port["shape"])
    )
    if not plain or not sharing <= set(writes):
        return None
    try:
        fills = step.fills()
    except ValueError:  # the tokenizer's file names no padding token
        return None
    found = {name: fill for name, (fill, _) in zip(writes, fills, strict=True) if name in sharing}
    return Padding(dim=dim, fills=found, left=fills[0][1] == "left")


def _using(dim: str, shape: list[Any]) -> list[str]:
    return [size for size in shape if isinstance(size, str) and dim in size]


def _uses(dim: str, shape: list[Any]) -> bool:
    return bool(_using(dim, shape))
