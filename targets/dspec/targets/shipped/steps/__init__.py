"""The steps: one file each, found by its name."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

NAMES = tuple(sorted(found.name for found in pkgutil.iter_modules(__path__)))


def load(name: str) -> type[Any]:
    """The step class of that name."""
    found: type[Any] = importlib.import_module(f"{__name__}.{name}").STEP
    return found
