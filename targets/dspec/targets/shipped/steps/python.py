"""python: a function of the user's own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from ..step import ANY, MANY, RequestError, Value


@dataclass(frozen=True, kw_only=True)
class Python:
    """Call a function of your own.

    It takes the values that `in` names, as copies it may change, and returns one value, or a tuple
    where `out` names several. Its file ships in the bundle, alone: it may import the standard
    library, numpy and `requirements`. To refuse a request it raises ValueError with a message for
    the caller.

    Attributes:
        file: the source file.
        callable: the function's name in that file.
    """

    takes: ClassVar[int] = MANY
    gives: ClassVar[int] = MANY
    places: ClassVar[tuple[str, ...]] = ("host",)
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    file: str = field(metadata={"asset": True})
    callable: str

    def flow(self, *inputs: Value) -> tuple[Value, ...]:
        return (Value(ANY),)

    def open(self) -> Callable[..., Any]:
        import numpy as np

        from ..arrays import is_array

        function = getattr(_load(Path(self.file)), self.callable, None)
        if not callable(function):
            raise ValueError(f"{Path(self.file).name} has no function {self.callable!r}")

        def call(*values: Any) -> Any:
            # In-place arithmetic is common in training code and must not reach the caller's
            # arrays.
            copies = (np.array(value, order="C") if is_array(value) else deepcopy(value) for value in values)
            try:
                return function(*copies)
            except ValueError as error:
                raise RequestError("", str(error), "a request that this step accepts") from error

        return call


def _load(path: Path) -> ModuleType:
    # Neither sys.path nor a bytecode file: a bundle's folder stays as it was shipped.
    module = ModuleType(f"dspec_step_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    return module


STEP = Python
