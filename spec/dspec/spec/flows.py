"""The types of a valid spec's values, followed once more from the request to the response."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dspec.spec.catalogue import Catalogue, Size, Step, Value
from dspec.spec.fit import ANY, item_shape
from dspec.spec.models import Spec, StepUse

KINDS = {"text": "text", "image": "image bytes", "audio": "audio bytes", "tensor": "tensor", "number": "number",
         "json": "json"}  # fmt: skip
Values = dict[str, Value]


def before(spec: Spec, catalogue: Catalogue) -> Values:
    """Every value up to the model's door by name, of one item; kind `any` where a step does not tell."""
    given = {name: catalogue.value(KINDS[field.type], field.dtype, field.shape) for name, field in spec.request.items()}
    return follow(spec.preprocess, given, catalogue)


def after(spec: Spec, catalogue: Catalogue) -> Values:
    """Every value after the model by name, of one item. Outputs that the spec leaves to capture are not known."""
    dims = spec.model.dims
    given = {
        name: catalogue.value("tensor", tensor.dtype, known(item_shape(tensor.shape, dims)))
        for name, tensor in spec.model.outputs.items()
    }
    return follow(spec.postprocess, given, catalogue)


def follow(steps: Iterable[StepUse], given: Mapping[str, Value], catalogue: Catalogue) -> Values:
    """`given` and what the steps make of it. Raises the ValueError of a step that does not take what it reads."""
    values = dict(given)
    unknown = catalogue.value(ANY, None, None)
    for step in steps:
        gives = _gives(step, [values.get(name, unknown) for name in step.inputs], catalogue)
        if len(gives) != len(step.outputs):
            gives = (unknown,) * len(step.outputs)
        values.update(zip(step.outputs, gives, strict=True))
    return values


def _gives(step: StepUse, taken: list[Value], catalogue: Catalogue) -> tuple[Value, ...]:
    if step.python:
        return ()
    return instance(step, catalogue).flow(*taken)


def instance(step: StepUse, catalogue: Catalogue) -> Step:
    """The step with its parameters; those that are files hold the path that the spec gives."""
    params = {name: _frozen(value) for name, value in step.params.items()}
    made: Step = catalogue.steps[step.use].params(**params | {name: file.path for name, file in step.assets.items()})
    return made


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def known(shape: tuple[int | str, ...]) -> tuple[Size, ...]:
    """Names of dims stay, expressions are not known before running."""
    return tuple(size if isinstance(size, int) or size.isidentifier() else None for size in shape)
