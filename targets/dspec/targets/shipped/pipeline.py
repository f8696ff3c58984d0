"""The pipeline of a bundle: from a request to the model's door, and on to the response."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import steps
from .arrays import Array, is_array
from .door import Door
from .errors import BundleError, MissingLibrary, RequestError, StepError
from .request import checker
from .step import Sound

Trace = list[tuple[str, str, Any]]  # (step id, value name, value), in the order they came about
Seconds = dict[str, float]  # step id → seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """One step, opened: what it reads and writes, and the request fields that derives from."""

    id: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    run: Callable[..., Any]
    fields: str

    def fill(self, values: dict[str, Any]) -> None:
        """Adds what the step gives to `values`, under each name it writes; RequestError or StepError name the step."""
        try:
            found = self.run(*[values[name] for name in self.reads])
        except RequestError as error:
            raise RequestError(error.field or self.fields, error.found, error.expected, self.id) from error
        except MemoryError:
            raise
        except Exception as error:
            raise StepError(self.id, f"{type(error).__name__}: {error}") from error
        if len(self.writes) == 1:
            values[self.writes[0]] = found
            return
        if not isinstance(found, (tuple, list)) or len(found) != len(self.writes):
            given = f"{len(found)} values" if isinstance(found, (tuple, list)) else f"one {type(found).__name__}"
            raise StepError(self.id, f"gave {given} where {', '.join(self.writes)} are expected")
        values.update(zip(self.writes, found, strict=True))


class Pipeline:
    """Everything around the model. Safe from several threads."""

    def __init__(self, declared: Mapping[str, Any], folder: Path) -> None:
        """`declared` is the content of pipeline.json; assets are found in `folder`."""
        self.declared = declared
        self.fields: Mapping[str, Any] = declared["request"]
        self._check = checker(self.fields)
        self.door = Door(declared["inputs"], declared["dims"], declared["batch"])
        roots = {name: {name} for name in self.fields}
        self._before = open_stages(declared["before"], folder, roots)
        self._fields = {name: ", ".join(sorted(roots.get(name, {name}))) for name in declared["inputs"]}
        self._after = open_stages(declared["after"], folder, {name: {name} for name in declared["outputs"]})
        self._response: Mapping[str, str] = declared["response"]

    @classmethod
    def load(cls, folder: Path) -> Pipeline:
        """The pipeline of a `pipeline/` folder; BundleError where it is malformed."""
        path = folder / "pipeline.json"
        try:
            return cls(json.loads(path.read_text("utf-8")), folder)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise BundleError(f"{path.name}: {type(error).__name__}: {error}") from error

    def before(
        self,
        request: Mapping[str, Any],
        trace: Trace | None = None,
        seconds: Seconds | None = None,
    ) -> dict[str, Array]:
        """The tensors at the model's door, batch axis included, for one request in Python form.

        `trace` receives what each step gave, `seconds` what each took. Raises RequestError and
        StepError.
        """
        values = run_stages(self._before, self._check(request), trace, seconds)
        for name in self.door.inputs:
            if name not in values:
                raise BundleError(f"pipeline.json: nothing gives the model's input {name}")
        return self.door.enter(values, self._fields)

    def after(
        self,
        outputs: Mapping[str, Array],
        trace: Trace | None = None,
        seconds: Seconds | None = None,
    ) -> dict[str, Any]:
        """The response for the model's outputs (batch axis of size 1 included)."""
        values = run_stages(self._after, self.items(outputs), trace, seconds)
        missing = [source for source in self._response.values() if source not in values]
        if missing:
            raise BundleError(f"the model gave no output {missing[0]}")
        return {field: values[source] for field, source in self._response.items()}

    def items(self, outputs: Mapping[str, Array]) -> dict[str, Array]:
        """The model's outputs for one item, without the batch axis."""
        return {name: self._item(name, array) for name, array in outputs.items()}

    def _item(self, name: str, array: Array) -> Array:
        shape = list(self.declared["outputs"].get(name, {}).get("shape", ()))
        batch = self.declared["batch"]
        if batch is None or batch not in shape or array.ndim != len(shape):
            return array
        axis = shape.index(batch)
        if array.shape[axis] != 1:
            raise BundleError(f"output {name} holds {array.shape[axis]} items along axis {axis} for one request")
        item: Array = array.take(0, axis)
        return item


def to_json(value: Any) -> Any:
    """A response as plain JSON: nested lists; the texts nan, inf and -inf where not finite.

    A float32 is written as the double of the same value, so reading it back gives the same
    float32.
    """
    if isinstance(value, np.ndarray):
        return to_json(value.tolist()) if _odd(value) else value.tolist()
    if isinstance(value, np.generic):
        return to_json(value.item())
    if isinstance(value, Mapping):
        return {str(key): to_json(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(inner) for inner in value]
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise BundleError(f"a response holds a {type(value).__name__}, which is no JSON")


def _odd(array: Array) -> bool:
    return array.dtype.kind not in "biu" and not (array.dtype.kind == "f" and bool(np.isfinite(array).all()))


def run_stages(
    stages: Sequence[Stage], given: Mapping[str, Any], trace: Trace | None = None, seconds: Seconds | None = None
) -> dict[str, Any]:
    """The values given and those that the steps give; `trace` and `seconds` as in `Pipeline.before`."""
    values = dict(given)
    for stage in stages:
        if seconds is None:
            stage.fill(values)
        else:
            start = time.perf_counter()
            stage.fill(values)
            seconds[stage.id] = time.perf_counter() - start
        if trace is not None:
            trace += [(stage.id, name, kept(values[name])) for name in stage.writes]
    return values


def kept(value: Any) -> Any:
    """What a trace holds: arrays as copies (a picture in Pillow's form as one), the samples of a sound."""
    array = value.samples if isinstance(value, Sound) else value
    return np.array(array, order="C") if is_array(array) else array


def open_stages(declared: Sequence[Mapping[str, Any]], folder: Path, roots: dict[str, set[str]]) -> tuple[Stage, ...]:
    """The steps, opened. `roots` (value → request fields it derives from) grows along the way."""
    stages = []
    for use in declared:
        unknown = [name for name in use["in"] if name not in roots]
        if unknown:
            raise ValueError(f"step {use['id']} reads {unknown[0]}, which nothing gives")
        found = set().union(*(roots[name] for name in use["in"]))
        roots |= dict.fromkeys(use["out"], found)
        stages.append(_stage(use, folder, ", ".join(sorted(found))))
    return tuple(stages)


def _stage(use: Mapping[str, Any], folder: Path, fields: str) -> Stage:
    try:
        step = open_step(use["use"], use["params"], folder)
    except ModuleNotFoundError as error:
        raise MissingLibrary(f"step {use['id']} needs {error.name}, which is not installed") from error
    except Exception as error:
        raise StepError(use["id"], f"{type(error).__name__}: {error}") from error
    return Stage(id=use["id"], reads=tuple(use["in"]), writes=tuple(use["out"]), run=step, fields=fields)


def open_step(name: str, params: Mapping[str, Any], folder: Path) -> Callable[..., Any]:
    """The function of a step with these parameters (JSON values; assets under `folder`)."""
    function: Callable[..., Any] = steps.load(name)(**filled(name, params, folder)).open()
    return function


def filled(name: str, params: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The parameters as the step's class takes them: assets as paths, lists as tuples."""
    files = {field.name for field in dataclasses.fields(steps.load(name)) if field.metadata.get("asset")}
    assets = {key for key in files if params.get(key) is not None}
    return {key: _asset(folder, value) if key in assets else _frozen(value) for key, value in params.items()}


def _asset(folder: Path, name: str) -> str:
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ValueError(f"the file {name} lies outside the pipeline's folder")
    return str(path)


def _frozen(value: Any) -> Any:
    return tuple(_frozen(inner) for inner in value) if isinstance(value, list) else value
