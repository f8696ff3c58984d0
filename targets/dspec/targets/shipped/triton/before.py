"""`<name>.before`, the first part of an ensemble: a request's fields in, tensors at the model's door out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import RequestError
from ..pipeline import Pipeline
from ..serve.batch import Stacking
from ..serve.padding import padding_of
from . import bridge
from .rows import Asked, items_of, response


class Before:
    """`settings`: max_batch (0: one item at a time, without an axis that counts them)."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        bridge.install()
        self._pipeline = Pipeline.load(folder / "pipeline")
        self._batched = bool(settings["max_batch"])
        self._most = max(1, int(settings["max_batch"]))
        padding = padding_of(self._pipeline.declared, folder / "pipeline")
        self._stacking = Stacking(self._pipeline.declared, padding, self._most)

    def execute(self, requests: list[Any]) -> list[Any]:
        """One response per request, in order."""
        asked = [self._taken(request) for request in requests]
        return [response(one, partial(self._answer, one)) for one in asked]

    def _taken(self, request: Any) -> Asked:
        found = Asked(request=request)
        try:
            items = items_of(request, self._pipeline.fields, self._batched, self._most)
            found.doors = [self._pipeline.before(item) for item in items]
        except Exception as error:
            found.error = error
        return found

    def _answer(self, asked: Asked) -> list[Any]:
        keys = {self._stacking.key(door, True) for door in asked.doors}
        if len(keys) > 1:
            raise RequestError("", "items of different sizes in one request", "items of one size: ask one by one")
        return [bridge.numbers(name, array) for name, array in self._stacking.joined(asked.doors).items()]


def open_model(folder: str, settings: Mapping[str, Any]) -> Before:
    """The steps, opened; BundleError where they can't be."""
    return Before(Path(folder), settings)
