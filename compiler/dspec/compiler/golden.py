"""The golden stage: the fixtures that travel, with the value after every step and PyTorch's answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dspec.compiler.stage import Report


def write_golden_vectors(
    request: Any, places: Any, inputs: Mapping[str, Path], out: Path, report: Report
) -> dict[str, Any]:
    """Stage `golden`: `golden/` below `out`, the first `counts[n]` fixtures of source n."""
    raise NotImplementedError
