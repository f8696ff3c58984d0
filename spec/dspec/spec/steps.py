"""Steps as written → steps checked against the catalogue, each with its parameters; wiring comes after."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from dspec.spec.catalogue import Catalogue, Step, StepEntry
from dspec.spec.errors import Diagnostic
from dspec.spec.models import Source
from dspec.spec.nearest import did_you_mean, listed
from dspec.spec.nodes import KeyPath, Node, Scalar, Sequence, plain
from dspec.spec.nodes import Mapping as MappingNode
from dspec.spec.sources import SourceMap, dotted
from dspec.spec.structure import explain_errors
from dspec.spec.words import found_words
from dspec.spec.written import PYTHON, WrittenStep, is_asset, parameters, step_model


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedStep:
    """One step before wiring. `entry` and `step` are None where its parameters are at fault; it then gives anything."""

    path: KeyPath
    use: str
    written: WrittenStep
    entry: StepEntry | None = None
    step: Step | None = None
    python: str | None = None
    params: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    assets: Mapping[str, Source] = dataclasses.field(default_factory=dict)


def read_steps(
    sources: SourceMap, section: str, catalogue: Catalogue
) -> tuple[tuple[CheckedStep, ...], list[Diagnostic]]:
    """The steps of `preprocess` or `postprocess`, and what is wrong with them."""
    node = sources.root.get(section)
    if node is None:
        return (), []
    if not isinstance(node, Sequence):
        return (), [sources.diagnostic("E0203", (section,), f"`{section}` is {found_words(node)}",
                                       expected="a list of steps", hint="write `- {use: …}` per step")]  # fmt: skip
    steps, found = [], []
    for number, item in enumerate(node.items):
        step, problems = _read_step(sources, (section, number), item, catalogue)
        steps += [step] if step else []
        found += problems
    return tuple(steps), found


def _read_step(
    sources: SourceMap, path: KeyPath, node: Node, catalogue: Catalogue
) -> tuple[CheckedStep | None, list[Diagnostic]]:
    if not isinstance(node, MappingNode):
        return None, [sources.diagnostic("E0203", path, f"`{dotted(path)}` is {found_words(node)}",
                                         expected="a step: keys with values", hint="write {use: …}")]  # fmt: skip
    name, problem = _name(sources, path, node, catalogue)
    entry = catalogue.steps.get(name)
    if problem or entry is None:
        return _opaque(path, node, name), [problem] if problem else []
    model = step_model(entry)
    try:
        written = model.model_validate_json(json.dumps(plain(node)), by_alias=True, by_name=False)
    except ValidationError as error:
        return _opaque(path, node, name), explain_errors(error, sources, path, model)
    return _checked(sources, path, entry, written)


def _name(sources: SourceMap, path: KeyPath, node: MappingNode, catalogue: Catalogue) -> tuple[str, Diagnostic | None]:
    """The step's name, and why it can't be used."""
    use = node.get("use")
    if use is None and node.get("python") is not None:
        return PYTHON, None
    if use is None:
        keys = "use", "python"
        near = next((key for key in node.items if did_you_mean(key, keys)), "")
        return "", sources.diagnostic(
            "E0202", path, f"`{dotted(path)}` says no step", expected="`use: <step>` or `python: file.py:callable`",
            hint=did_you_mean(near, keys, f"add `use`: {listed(sorted(catalogue.steps))}"),
        )  # fmt: skip
    name = use.value if isinstance(use, Scalar) else None
    if isinstance(name, str) and name in catalogue.steps:
        if name != PYTHON and node.get("python") is not None:
            return name, sources.diagnostic("E0215", (*path, "python"), "`use` and `python` stand in one step",
                                            on="key", expected="one of them", hint="make two steps of it")  # fmt: skip
        return name, None
    return str(name), sources.diagnostic(
        "E0208", (*path, "use"), f"unknown step `{name}`", expected=listed(sorted(catalogue.steps)),
        hint=did_you_mean(str(name), catalogue.steps, "write it yourself: `python: file.py:callable`"),
    )  # fmt: skip


def asset_names(node: Node, catalogue: Catalogue) -> tuple[str, ...]:
    """The parameters of a written step that are files."""
    use = node.get("use") if isinstance(node, MappingNode) else None
    entry = catalogue.steps.get(str(use.value)) if isinstance(use, Scalar) else None
    return tuple(field.name for field in dataclasses.fields(entry.params) if is_asset(field)) if entry else ()


def _opaque(path: KeyPath, node: MappingNode, name: str) -> CheckedStep:
    """A step whose names still count for the wiring of the others, so that one fault is told once."""
    names = {key: plain(node.get(key)) for key in ("id", "in", "out") if node.get(key) is not None}
    try:
        written = WrittenStep.model_validate_json(json.dumps(names), by_alias=True, by_name=False)
    except ValidationError:
        written = WrittenStep()
    return CheckedStep(path=path, use=name, written=written)


def _checked(
    sources: SourceMap, path: KeyPath, entry: StepEntry, written: WrittenStep
) -> tuple[CheckedStep, list[Diagnostic]]:
    if entry.name == PYTHON:
        callee = str(getattr(written, PYTHON))
        return CheckedStep(path=path, use=PYTHON, written=written, entry=entry, python=callee), []
    values = parameters(written)
    assets = {name: value for name, value in values.items() if isinstance(value, Source)}
    problems = []
    step = None
    try:
        step = entry.params(**values | {name: source.path for name, source in assets.items()})
    except (ValueError, TypeError) as error:
        problems = [sources.diagnostic("E0212", path, f"step `{entry.name}`: {error}", expected="parameters that fit",
                                       hint=entry.summary)]  # fmt: skip
    dumped = written.model_dump(mode="json", by_alias=True, include={f"param_{name}" for name in values})
    params = {name: value for name, value in dumped.items() if name not in assets}
    checked = CheckedStep(path=path, use=entry.name, written=written, entry=entry if step else None, step=step,
                          params=params, assets=assets)  # fmt: skip
    return checked, problems
