"""Steps and runtime options as they are written: pydantic models made from the catalogue's plain dataclasses."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import typing
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from dspec.spec.catalogue import RuntimeEntry, StepEntry
from dspec.spec.models import Callee, Frozen, Name, Place, Source

PYTHON = "python"  # the step that is a function of the user's own
FIXED = ("id", "use", "python", "in", "out", "place")

_STRICT = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, protected_namespaces=())


def _short_source(value: object) -> object:
    return {"path": value} if isinstance(value, str) else value


Asset = Annotated[Source, BeforeValidator(_short_source, json_schema_input_type=str | Source)]


class WrittenStep(Frozen):
    """What every step may say beside its parameters."""

    id: Name | None = Field(None, description="the step's name in traces and reports; absent: as `use`")
    inputs: Name | tuple[Name, ...] | None = Field(
        None, alias="in", description="the values it reads; absent: the values in flight"
    )
    outputs: Name | tuple[Name, ...] | None = Field(
        None, alias="out", description="the values it writes; absent in the last step: the model's inputs"
    )
    place: Place = Field("host", description="where it runs")


class PythonStep(WrittenStep):
    """A step of your own."""

    python: Callee = Field(description="file.py:callable; its file ships")
    use: Literal["python"] | None = None


@cache
def step_model(entry: StepEntry) -> type[WrittenStep]:
    """The model of one step as written: its parameters stand beside `use`."""
    if entry.name == PYTHON:
        return PythonStep
    fields: dict[str, Any] = {"use": (Literal[entry.name], Field(description=entry.summary))}
    fields |= _fields(entry.params, skip=FIXED)
    return create_model(f"{entry.name}_step", __base__=WrittenStep, __doc__=entry.summary, **fields)


@cache
def options_model(entry: RuntimeEntry) -> type[BaseModel]:
    """The model of `targets.<id>.options` for one runtime."""
    return create_model(f"{entry.name}_options", __config__=_STRICT, **_fields(entry.options))


def _fields(owner: type[Any], skip: tuple[str, ...] = ()) -> dict[str, Any]:
    """Pydantic fields of a dataclass. Internal names differ, so that no parameter can shadow a pydantic method."""
    hints = typing.get_type_hints(owner, include_extras=True)
    found = {}
    for field in dataclasses.fields(owner):
        if not field.init or field.name in skip:
            continue
        hint = _asset_hint(hints[field.name]) if is_asset(field) else hints[field.name]
        described = Field(**_default(field), alias=field.name, description=described_in(owner, field.name))
        found[f"param_{field.name}"] = (hint, described)
    return found


def is_asset(field: dataclasses.Field[Any]) -> bool:
    """Whether a parameter is a file."""
    return bool(field.metadata.get("asset"))


def _asset_hint(hint: Any) -> Any:
    return Asset | None if type(None) in typing.get_args(hint) else Asset


def _default(field: dataclasses.Field[Any]) -> dict[str, Any]:
    if field.default is not dataclasses.MISSING:
        return {"default": field.default}
    if field.default_factory is not dataclasses.MISSING:
        return {"default_factory": field.default_factory}
    return {}


def described_in(owner: type[Any], name: str) -> str | None:
    """What the `Attributes:` section of a docstring says about one field: its line and the deeper lines below it."""
    lines = inspect.cleandoc(owner.__doc__ or "").partition("Attributes:")[2].splitlines()
    starts = [at for at, line in enumerate(lines) if line.strip().startswith(f"{name}: ")]
    if not starts:
        return None
    first, *rest = lines[starts[0] :]
    deeper = itertools.takewhile(lambda line: _depth(line) > _depth(first), rest)
    return " ".join([first.strip().removeprefix(f"{name}: "), *(line.strip() for line in deeper)])


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def parameters(written: WrittenStep) -> dict[str, Any]:
    """Every parameter with its value, defaults included, as Python values; assets as Source."""
    prefix = "param_"
    return {name.removeprefix(prefix): getattr(written, name) for name in type(written).model_fields
            if name.startswith(prefix)}  # fmt: skip


def plain_options(options: BaseModel) -> dict[str, Any]:
    """Validated options, defaults included, as plain JSON values."""
    return options.model_dump(mode="json", by_alias=True)
