"""What a runner needs of an engine; `engine_<name>.py` holds one each, loaded by its name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from .arrays import Array
from .errors import EngineError, MissingLibrary


class Engine(Protocol):
    """A loaded model; safe from several threads."""

    facts: Mapping[str, str]

    def run(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """The model's outputs by name; inputs have been checked. Raises EngineError."""


def open_engine(folder: Path, manifest: Mapping[str, Any]) -> Engine:
    """The engine that bundle.json names, with the bundle's model loaded."""
    name = str(manifest["engine"])
    try:
        opened: Callable[[Path, Mapping[str, Any]], Engine] = importlib.import_module(
            f"{__package__}.engine_{name}"
        ).open_engine
        return opened(folder, manifest)
    except ModuleNotFoundError as error:
        if error.name == f"{__package__}.engine_{name}":
            raise EngineError(f"this bundle ships no engine {name!r}") from error
        raise MissingLibrary(f"engine {name} needs {error.name}, which is not installed") from error
