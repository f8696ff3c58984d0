"""`<name>`: a request's fields in, the response's out; the model is called with a whole batch at once."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb  # type: ignore[import-not-found]  # the server brings it

from ..errors import EngineError
from ..pipeline import Pipeline
from ..serve.batch import Stacking
from ..serve.padding import padding_of
from . import bridge
from .rows import Asked, Tensors, answered, items_of, response, run_together, traced


class Calls:
    """`settings`: model, max_batch, outputs (field → type, dtype), flat (tensors of rank 1, which callers give an axis of 1)."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        bridge.install()
        self._pipeline = Pipeline.load(folder / "pipeline")
        declared = self._pipeline.declared
        padding = padding_of(declared, folder / "pipeline")
        self._stacking = Stacking(declared, padding, settings["max_batch"])
        self._settings, self._most = settings, max(1, int(settings["max_batch"]))
        self._flat = frozenset(settings["flat"])

    def execute(self, requests: list[Any]) -> list[Any]:
        """One response per request, in order; what one is refused for does not touch its neighbours."""
        asked = [self._taken(request) for request in requests]
        start = time.perf_counter()
        run_together(asked, self._stacking, True, self._call)
        ran = time.perf_counter() - start
        for one in asked:
            one.seconds[1] = ran
        return [response(one, partial(self._answer, one)) for one in asked]

    def _taken(self, request: Any) -> Asked:
        found, start = Asked(request=request), time.perf_counter()
        try:
            items = items_of(request, self._pipeline.fields, True, self._most)
            found.doors = [self._pipeline.before(item) for item in items]
        except Exception as error:
            found.error = error
        found.seconds[0] = time.perf_counter() - start
        return found

    def _call(self, tensors: Tensors) -> Tensors:
        given = [bridge.numbers(name, self._with_axis(name, array)) for name, array in tensors.items()]
        wanted = list(self._pipeline.declared["outputs"])
        found = pb.InferenceRequest(
            model_name=self._settings["model"], requested_output_names=wanted, inputs=given
        ).exec()
        if found.has_error():
            raise EngineError(found.error().message())
        arrays = {tensor.name(): bridge.array_of(tensor) for tensor in found.output_tensors()}
        missing = [name for name in wanted if name not in arrays]
        if missing:
            raise EngineError(f"the model gave no output {missing[0]}")
        return {name: np.array(self._without_axis(name, arrays[name])) for name in wanted}

    def _with_axis(self, name: str, array: Any) -> Any:
        return array[..., np.newaxis] if name in self._flat else array

    def _without_axis(self, name: str, array: Any) -> Any:
        return array[..., 0] if name in self._flat else array

    def _answer(self, asked: Asked) -> list[Any]:
        start = time.perf_counter()
        responses = [self._pipeline.after(outputs) for outputs in asked.outputs]
        wanted = asked.wanted
        declared = {name: found for name, found in self._settings["outputs"].items() if name in wanted}
        outputs = answered(declared, responses, True)
        asked.seconds[2] = time.perf_counter() - start
        return [*outputs, *traced(asked, bool(self._settings["max_batch"]))]


def open_model(folder: str, settings: Mapping[str, Any]) -> Calls:
    """The steps, opened; BundleError where they can't be."""
    return Calls(Path(folder), settings)
