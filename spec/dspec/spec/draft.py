"""The typed spec of a file that may be wrong in places: what is faulty is told and left out, so that the rest is checked."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from dspec.spec.errors import Diagnostic
from dspec.spec.models import API_VERSION, Spec
from dspec.spec.nodes import KeyPath, plain
from dspec.spec.sources import SourceMap
from dspec.spec.structure import explain_errors

STEPS = ("preprocess", "postprocess")  # checked against the catalogue, elsewhere

_TENSOR = {"dtype": "float32", "shape": [1]}
# What stands in for a part that a spec can't do without; `*` is any key.
_STAND_INS: dict[KeyPath, Any] = {
    ("apiVersion",): API_VERSION,
    ("name",): "stand-in",
    ("model",): {"factory": "a.py:b", "inputs": {"a": _TENSOR}},
    ("model", "factory"): "a.py:b",
    ("model", "inputs"): {"a": _TENSOR},
    ("model", "inputs", "*", "dtype"): "float32",
    ("model", "inputs", "*", "shape"): [1],
    ("model", "outputs", "*", "dtype"): "float32",
    ("model", "outputs", "*", "shape"): [1],
    ("request", "*", "type"): "json",
    ("fixtures",): [{"file": "a"}],
    ("targets",): {"a": {"runtime": "a"}},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A spec without its steps. `faulty`: the key paths that were left out or hold a stand-in."""

    spec: Spec
    faulty: tuple[KeyPath, ...]
    problems: tuple[Diagnostic, ...]

    def sound(self, *sections: str) -> bool:
        """Whether none of the sections is faulty, lies in a faulty part or holds one.

        `model.inputs.*.shape` looks at every input's shape; `model.dims/` at the keys only, not at what they hold.
        """
        return not any(_touches(section, bad) for section in sections for bad in self.faulty)


def _touches(section: str, bad: KeyPath) -> bool:
    path = tuple(section.rstrip("/").split("."))
    if section.endswith("/") and len(bad) > len(path):
        return False
    return all(want in ("*", part) for want, part in zip(path, bad, strict=False))


def draft(sources: SourceMap) -> Draft:
    """Validate everything but the steps; every part is judged even where another is faulty."""
    raw = {key: value for key, value in plain(sources.root).items() if key not in STEPS}
    faulty: list[KeyPath] = []
    problems: list[Diagnostic] | None = None
    while True:
        try:
            spec = Spec.model_validate_json(json.dumps(raw), by_alias=True, by_name=False)
            return Draft(spec=spec, faulty=tuple(faulty), problems=tuple(problems or ()))
        except ValidationError as error:
            if problems is None:
                problems = explain_errors(error, sources, (), Spec)
            # Each round leaves something out or puts a stand-in where one was missing, so the rounds end.
            faulty += [_mend(raw, found) for found in error.errors(include_url=False)]


def _mend(raw: dict[str, Any], found: Any) -> KeyPath:
    """Leave out what an error is about, up to the nearest mapping; or fill what is missing. Gives the place."""
    path = _existing(raw, found["loc"])
    if found["type"] != "missing":
        return _leave_out(raw, path)
    wanted = (*path, found["loc"][-1])
    stand_in = next((value for pattern, value in _STAND_INS.items() if _matches(pattern, wanted)), None)
    holder = _at(raw, path)
    if stand_in is None or not isinstance(holder, dict):
        return _leave_out(raw, path)
    holder[str(wanted[-1])] = copy.deepcopy(stand_in)
    return wanted


def _existing(raw: Any, loc: tuple[str | int, ...]) -> KeyPath:
    """The parts of an error's place that stand in the file; the others are pydantic's own."""
    path: list[str | int] = []
    for part in loc:
        keys: Any = raw if isinstance(raw, dict) else range(len(raw)) if isinstance(raw, list) else ()
        if part in keys:
            raw = raw[part]
            path.append(part)
    return tuple(path)


def _matches(pattern: KeyPath, path: KeyPath) -> bool:
    return len(pattern) == len(path) and all(want in ("*", part) for want, part in zip(pattern, path, strict=True))


def _at(raw: Any, path: KeyPath) -> Any:
    for part in path:
        raw = raw[part]
    return raw


def _leave_out(raw: dict[str, Any], path: KeyPath) -> KeyPath:
    while path:
        holder = _at(raw, path[:-1])
        if isinstance(holder, dict):
            holder.pop(path[-1], None)
            return path
        path = path[:-1]
    raw.clear()
    return path
