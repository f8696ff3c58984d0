"""The steps: one file each. `NAMES` is the one list of them."""

from __future__ import annotations

import importlib
from typing import Any

NAMES = ("center_crop", "decode", "layout", "normalize", "python", "resize", "scale", "tokenize")


def load(name: str) -> type[Any]:
    """The step class of that name."""
    found: type[Any] = importlib.import_module(f"{__name__}.{name}").STEP
    return found
