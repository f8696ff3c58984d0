"""What a spec leaves unsaid, and what stands there instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from dspec.spec.load import Loaded
from dspec.spec.nodes import KeyPath, Scalar
from dspec.spec.sources import SourceMap, dotted

_BESIDE_USE = ("params", "assets")  # of the typed step; in the file they stand beside `use`
_ABSENT = "absent: "  # begins the description of a key whose absence means something


@dataclass(frozen=True, kw_only=True, slots=True)
class Default:
    """One key that the file does not say. `value` is plain JSON; `means` says in words what its absence stands for."""

    key: str
    value: Any
    means: str = ""

    @property
    def empty(self) -> bool:
        """Nothing stands there, and that means nothing either."""
        return not self.means and self.value in (None, "", [], {})


def defaults(loaded: Loaded) -> tuple[Default, ...]:
    """Every key of the language that the file leaves out, in the language's order."""
    return tuple(_fields(loaded.spec, (), loaded.sources))


def _fields(model: BaseModel, path: KeyPath, sources: SourceMap) -> Iterator[Default]:
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        key = field.alias or name
        if key in _BESIDE_USE and isinstance(value, dict):
            yield from _entries(value, path, sources)
        else:
            yield from _said_or_default(value, (*path, key), sources, field)


def _said_or_default(
    value: Any, path: KeyPath, sources: SourceMap, field: FieldInfo | None = None
) -> Iterator[Default]:
    node = sources.node(path)
    if isinstance(value, BaseModel) and not isinstance(node, Scalar):  # `tokenizer: file.json` says it all
        yield from _fields(value, path, sources)
    elif node is None and not _plain_mapping(value):
        yield _default(value, path, field)
    elif isinstance(value, Mapping):
        yield from _entries(value, path, sources)
    elif isinstance(value, tuple):
        for number, item in enumerate(value):
            if isinstance(item, BaseModel):
                yield from _said_or_default(item, (*path, number), sources)


def _plain_mapping(value: Any) -> bool:
    """Such as a runtime's options: each is a default of its own."""
    return bool(value) and isinstance(value, Mapping) and not any(isinstance(one, BaseModel) for one in value.values())


def _entries(values: Mapping[str, Any], path: KeyPath, sources: SourceMap) -> Iterator[Default]:
    for name, value in values.items():
        yield from _said_or_default(value, (*path, name), sources)


def _default(value: Any, path: KeyPath, field: FieldInfo | None) -> Default:
    described = (field.description if field else None) or ""
    nothing = value is None or value in ((), {}, "")
    means = described.removeprefix(_ABSENT) if nothing and described.startswith(_ABSENT) else ""
    # A field of a record that is whole inside a default (`request`) is shown with what it holds, not with what it lacks.
    plain = to_jsonable_python(value, by_alias=True, exclude_none=isinstance(value, Mapping))
    return Default(key=dotted(path), value=plain, means=means)
