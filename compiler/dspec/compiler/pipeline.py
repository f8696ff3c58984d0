"""Writes a pipeline folder: the steps as data, with their assets and sources, as it ships."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dspec.compiler.store import link_or_copy, walk
from dspec.spec.files import locate
from dspec.spec.models import BATCH, Spec, StepUse
from dspec.spec.placement import at
from dspec.spec.records import Interface

NAME = "pipeline.json"


def write_pipeline(spec: Spec, folder: Path, out: Path, interface: Interface | None = None) -> None:
    """Copy assets and python steps of `spec` (which lies in `folder`) below `out`, and write pipeline.json.

    `interface`: the model's, where capture knows it already.
    """
    for step in (*spec.preprocess, *spec.postprocess):
        for name, source in step.assets.items():
            _copy(locate(source, folder), out / _asset(step, name))
        if step.python:
            _copy(folder / step.python.partition(":")[0], out / code_path(step))
    write_pipeline_json(spec, interface or declared_interface(spec), out)


def lay_pipeline(
    spec: Spec, interface: Interface, source: Path, target: Path, contract: Mapping[str, Any] | None = None
) -> None:
    """The files of the pipeline in `source` below `target`, with a pipeline.json of their own.

    `contract`: what the caller owes; absent: what `source` says of that.
    """
    for name in walk(source):
        if name != NAME:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            link_or_copy(source / name, target / name)
    if contract is None:
        contract = json.loads((source / NAME).read_text()).get("contract")
    write_pipeline_json(spec, interface, target, contract)


def lay_contract(spec: Spec, interface: Interface, source: Path, target: Path) -> dict[str, Any] | None:
    """What the caller owes a bundle of `spec`, as data: the steps before and after, the raw request, the whole response.

    Their files in `source`, the pipeline with every step, go below `target`. None where the caller owes nothing.
    """
    sides = [at(steps, "contract") for steps in (spec.preprocess, spec.postprocess)]
    if not any(sides):
        return None
    for step in (*sides[0], *sides[1]):
        for name in [_asset(step, name) for name in step.assets] + ([code_path(step)] if step.python else []):
            if not (target / name).exists():  # a file of the user's that the host runs as well
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                link_or_copy(source / name, target / name)
    return {
        "request": _request(spec),
        "before": [_step(step) for step in sides[0]],
        "after": [_step(step) for step in sides[1]],
        "response": _response(spec, interface),
    }


def write_pipeline_json(spec: Spec, interface: Interface, out: Path, contract: Mapping[str, Any] | None = None) -> None:
    """pipeline.json alone: capture may know more outputs than the spec declared."""
    body = {
        "request": _request(spec),
        "before": [_step(step) for step in spec.preprocess],
        **interface.model_dump(mode="json"),
        "after": [_step(step) for step in spec.postprocess],
        "response": _response(spec, interface),
        **({"contract": contract} if contract else {}),
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / NAME).write_text(json.dumps(body, indent=1) + "\n")


def _request(spec: Spec) -> dict[str, Any]:
    return {name: field.model_dump(mode="json") for name, field in spec.request.items()}


def _response(spec: Spec, interface: Interface) -> dict[str, str]:
    return {name: answer.source for name, answer in spec.response.items()} or {name: name for name in interface.outputs}


def declared_interface(spec: Spec) -> Interface:
    """The interface as far as the spec tells it."""
    model = spec.model
    port = {"dtype", "shape", "range"}
    return Interface.model_validate(
        {
            "inputs": {name: tensor.model_dump(include=port) for name, tensor in model.inputs.items()},
            "outputs": {name: tensor.model_dump(include=port) for name, tensor in model.outputs.items()},
            "dims": {name: dim.model_dump() for name, dim in model.dims.items()},
            "batch": BATCH if BATCH in model.dims else None,
        }
    )


def _step(step: StepUse) -> dict[str, Any]:
    params = dict(step.params) | {name: _asset(step, name) for name in step.assets}
    if step.python:
        params |= {"file": code_path(step), "callable": step.python.partition(":")[2]}
    return {
        "id": step.id,
        "use": step.use,
        "params": params,
        "in": step.inputs,
        "out": step.outputs,
    }


def _asset(step: StepUse, name: str) -> str:
    return f"assets/{step.id}/{Path(step.assets[name].path).name}"


def code_path(step: StepUse) -> str:
    """Where the source of a python step lies in the pipeline folder."""
    assert step.python
    return f"code/{step.python.partition(':')[0]}"


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
