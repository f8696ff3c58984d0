"""`<name>.after`, the last part of an ensemble: the model's outputs in, the response's fields out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BundleError
from ..pipeline import Pipeline
from . import bridge
from .rows import Asked, answered, response


class After:
    """`settings`: max_batch, outputs (field → type, dtype)."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        bridge.install()
        self._pipeline = Pipeline.load(folder / "pipeline")
        self._outputs = settings["outputs"]
        self._batched = bool(settings["max_batch"])

    def execute(self, requests: list[Any]) -> list[Any]:
        """One response per request, in order."""
        return [response(one, partial(self._answer, one)) for one in map(self._taken, requests)]

    def _taken(self, request: Any) -> Asked:
        found = Asked(request=request)
        try:
            tensors = {tensor.name(): np.array(bridge.array_of(tensor)) for tensor in request.inputs()}
            found.outputs = self._items(tensors)
        except Exception as error:
            found.error = error
        return found

    def _items(self, tensors: dict[str, Any]) -> list[dict[str, Any]]:
        if not self._batched:
            return [tensors]
        counts = {len(array) for array in tensors.values()}
        if len(counts) != 1:
            raise BundleError(f"the model's outputs hold {sorted(counts)} items")
        return [{name: array[row : row + 1] for name, array in tensors.items()} for row in range(counts.pop())]

    def _answer(self, asked: Asked) -> list[Any]:
        responses = [self._pipeline.after(outputs) for outputs in asked.outputs]
        wanted = asked.wanted
        return answered(
            {name: found for name, found in self._outputs.items() if name in wanted}, responses, self._batched
        )


def open_model(folder: str, settings: Mapping[str, Any]) -> After:
    """The steps, opened; BundleError where they can't be."""
    return After(Path(folder), settings)
