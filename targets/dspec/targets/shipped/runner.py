"""A bundle, ready to answer: pipeline, engine, pipeline."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .arrays import Array
from .door import Door
from .engine import open_engine
from .errors import BundleError, EngineError
from .manifest import read_manifest as read_manifest
from .pipeline import Pipeline, Trace


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """One answer.

    Attributes:
        response: response fields, arrays without batch axis.
        door: tensors at the model's door; `outputs`: what the model gave; both with batch axis.
        seconds: per stage: preprocess, model, postprocess.
    """

    response: dict[str, Any]
    door: dict[str, Array]
    outputs: dict[str, Array]
    seconds: dict[str, float]


class Bundle:
    """A bundle with its model loaded; safe from several threads; BundleError if malformed."""

    def __init__(self, folder: Path, cores: int | None = None) -> None:
        """`cores`: fewer than bundle.json grants, for one of several workers."""
        self.folder = folder
        self.manifest: Mapping[str, Any] = read_manifest(folder)
        if cores is not None:
            self.manifest = {**self.manifest, "cores": cores}
        interface = self.manifest["interface"]
        self.pipeline = Pipeline.load(folder / "pipeline")
        try:
            self._door = Door(interface["inputs"], interface["dims"], interface.get("batch"))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise BundleError(f"bundle.json: a malformed interface ({type(error).__name__}: {error})") from error
        self._outputs: Mapping[str, Any] = interface["outputs"]
        self._engine = open_engine(folder, self.manifest)
        versions = {"python": platform.python_version(), "numpy": np.__version__}
        self.facts: Mapping[str, str] = {**versions, **self._engine.facts}

    def ask(self, request: Mapping[str, Any], trace: Trace | None = None) -> Outcome:
        """One request in Python form through the whole bundle; RequestError and BundleError."""
        start = time.perf_counter()
        door = self.pipeline.before(request, trace)
        ready = time.perf_counter()
        outputs = self.infer(door)
        ran = time.perf_counter()
        response = self.pipeline.after(outputs, trace)
        seconds = {
            "preprocess": ready - start,
            "model": ran - ready,
            "postprocess": time.perf_counter() - ran,
        }
        return Outcome(response=response, door=door, outputs=outputs, seconds=seconds)

    def run(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """The model alone, batch axis included; RequestError where a tensor may not enter."""
        self.check(tensors)
        return self.infer({name: np.ascontiguousarray(array).reshape(array.shape) for name, array in tensors.items()})

    def check(self, tensors: Mapping[str, Array]) -> None:
        """Nothing if the tensors may enter; RequestError otherwise."""
        self._door.check(tensors)

    def infer(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """As `run`, for tensors that have been at the door."""
        outputs = self._engine.run(tensors)
        missing = [name for name in self._outputs if name not in outputs]
        if missing:
            raise EngineError(f"the model gave no output {missing[0]}")
        return outputs
