"""`<name>.model`: tensors in, tensors out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..door import Door
from ..engine import open_engine
from ..errors import EngineError
from ..serve.batch import Stacking
from . import bridge
from .rows import Asked, Tensors, response, run_together


class Alone:
    """`settings` hold what a bundle.json does for an engine: engine, model, options, cores, interface; and `max_batch`."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        bridge.install()
        interface = settings["interface"]
        self._door = Door(interface["inputs"], interface["dims"], interface.get("batch"))
        self._stacking = Stacking(interface, None, settings["max_batch"])
        self._outputs: tuple[str, ...] = tuple(interface["outputs"])
        self._engine = open_engine(folder, settings)

    def execute(self, requests: list[Any]) -> list[Any]:
        """One response per request, in order."""
        asked = [self._taken(request) for request in requests]
        run_together(asked, self._stacking, False, self._run)
        return [response(one, partial(self._answer, one)) for one in asked]

    def _taken(self, request: Any) -> Asked:
        found = Asked(request=request)
        try:
            tensors = {tensor.name(): bridge.array_of(tensor) for tensor in request.inputs()}
            tensors = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in tensors.items()}
            self._door.check(tensors)
            found.doors = [{name: tensors[name] for name in self._door.inputs}]
        except Exception as error:
            found.error = error
        return found

    def _run(self, tensors: Tensors) -> Tensors:
        outputs = self._engine.run(tensors)
        missing = [name for name in self._outputs if name not in outputs]
        if missing:
            raise EngineError(f"the model gave no output {missing[0]}")
        return outputs

    def _answer(self, asked: Asked) -> list[Any]:
        wanted = asked.wanted
        return [bridge.numbers(name, array) for name, array in asked.outputs[0].items() if name in wanted]


def open_model(folder: str, settings: Mapping[str, Any]) -> Alone:
    """The model, its weights loaded; EngineError where it can't be."""
    return Alone(Path(folder), settings)
