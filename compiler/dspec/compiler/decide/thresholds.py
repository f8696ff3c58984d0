"""The numbers a decision turns on: `thresholds.toml`, read once."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Threshold:
    """`why` is a whole sentence, for people."""

    value: float
    unit: str
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Thresholds:
    """Fields as the file has them: none may be missing, none be more."""

    utilisation: Threshold
    outside_model: Threshold
    moving_upkeep: Threshold
    general_server_replicas: Threshold


@cache
def thresholds() -> Thresholds:
    found = tomllib.loads(Path(__file__).with_name("thresholds.toml").read_text("utf-8"))
    return Thresholds(**{name: Threshold(**entry) for name, entry in found.items()})
