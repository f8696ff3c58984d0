"""Outputs found by name in whatever forward returns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from dspec.spec.errors import DspecError, ExportError, SpecError
from dspec.targets.shipped.forward import Answers, fields, is_tensor, leaves

_NAME = re.compile(r"^[A-Za-z][A-Za-z0-9_.]*$")


def structure_changed(what: str, when: str) -> DspecError:
    """The error for a StructureError."""
    hint = "return the same names, and the same number of tensors, whatever the sizes"
    return ExportError.of("E0421", f"forward returns {what} {when}", hint=hint)


def bind_outputs(result: Any, declared: Sequence[str], spec_file: str, where: Mapping[str, Any]) -> Answers:
    """Match what forward returned with the declared names: by key or field, or by position in tuples and lists.

    Without declared names all of it is taken, under its own names. Raises SpecError for names and counts that do not
    fit, ExportError for values that are no tensors.
    """
    found = dict(leaves(result))
    named = not isinstance(result, torch.Tensor) and (isinstance(result, Mapping) or bool(fields(result)))
    by_field = named and (not declared or bool(set(declared) & set(found)) or not _is_torch_tuple(result))
    if by_field:
        return _by_name(result, found, declared, spec_file, where)
    _check_tensors(found, where)
    if declared and len(declared) != len(found):
        raise SpecError.of(
            "E0421",
            f"forward returns {len(found)} tensor{'s' * (len(found) != 1)}, model.outputs names {len(declared)}",
            file=spec_file,
            key="model.outputs",
            hint="name every position of the tuple, in order",
        )
    single = list(found) == [""]
    names = tuple(declared) or (("output",) if single else tuple(f"output_{path.replace('.', '_')}" for path in found))
    return Answers(names=names, paths=tuple(found), count=len(found))


def _by_name(
    result: Any, found: Mapping[str, Any], declared: Sequence[str], spec_file: str, where: Mapping[str, Any]
) -> Answers:
    present = {path: value for path, value in found.items() if value is not None}
    unknown = [name for name in declared if name not in present]
    if unknown:
        raise SpecError.of(
            "E0421",
            f"forward returns no {', '.join(unknown)}",
            file=spec_file,
            key="model.outputs",
            expected=f"names of what {type(result).__name__} holds: {', '.join(present)}",
            hint="outputs are matched by name",
        )
    chosen = tuple(declared) or tuple(present)
    _check_tensors({path: present[path] for path in chosen}, where)
    odd = [path for path in chosen if not _NAME.match(path)]
    if odd:
        message = f"forward returns {', '.join(odd)}, which can't be a name in a spec"
        raise ExportError.of("E0421", message, key="model.outputs", hint="return a dict with plain keys", **where)
    return Answers(names=chosen, paths=chosen, count=None)


def _check_tensors(found: Mapping[str, Any], where: Mapping[str, Any]) -> None:
    if not found:
        raise ExportError.of("E0422", "forward returns nothing", hint="return tensors", **where)
    if list(found) == [""] and not is_tensor(found[""]):
        message = f"forward returns a {type(found['']).__name__}"
        expected = "a tensor, or a dict, tuple, NamedTuple or dataclass of tensors"
        raise ExportError.of("E0422", message, expected=expected, hint="return tensors", **where)
    odd = [f"{path} is {_words(value)}" for path, value in found.items() if not is_tensor(value)]
    if odd:
        message = f"forward returns values that are no tensors: {', '.join(odd)}"
        hint = "leave them out, or return a dict and name in model.outputs only what is a tensor"
        raise ExportError.of("E0422", message, expected="tensors only", hint=hint, **where)


def _words(value: Any) -> str:
    plain = value is None or isinstance(value, bool | int | float | str)
    return repr(value) if plain else f"a {type(value).__name__}"


def _is_torch_tuple(value: Any) -> bool:
    return type(value).__module__ == "torch.return_types"
