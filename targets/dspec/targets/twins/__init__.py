"""Twins: a pipeline step as a torch module of the same name and parameters, so that it can be fused with the model.

A twin is made from the step's dataclass. It takes and gives tensors with a batch axis in front, of the dtypes that the
step's arrays have. `tests/targets/twins` holds each equal to its step: to the last bit, or within the tolerance that the
twin's `atol` and `rtol` state. What a host refuses while it runs (a NaN, a picture too small) a graph can't refuse: the
twin's docstring says what happens instead.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

NAMES = tuple(sorted(found.name for found in pkgutil.iter_modules(__path__) if not found.name.startswith("_")))


def load(name: str) -> type[Any]:
    """The twin of the step of that name: a torch.nn.Module, made from an instance of the step."""
    found: type[Any] = importlib.import_module(f"{__name__}.{name}").TWIN
    return found
