"""What pydantic found wrong, in the spec's own words and places."""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from dspec.spec.errors import Diagnostic
from dspec.spec.nearest import did_you_mean, listed
from dspec.spec.nodes import KeyPath, child
from dspec.spec.sources import SourceMap, dotted
from dspec.spec.words import EXPECTED, advice, found_words, pattern_words

MAX_TOLD = 256  # more than `load` shows, so that it can say that there are more


def explain_errors(error: ValidationError, sources: SourceMap, base: KeyPath, model: Any) -> list[Diagnostic]:
    """One diagnostic per place; the alternatives of a union are told together.

    `base` is the key path of what was validated, `model` its type, for the names of valid keys.
    """
    grouped: dict[tuple[KeyPath, str], list[Any]] = {}
    for found in error.errors(include_url=False):
        path, on_key = _place(sources, base, found)
        if _is_echo(found, sources.node(path)):
            continue
        kind = found["type"] if found["type"] in ("extra_forbidden", "missing") else "value"
        grouped.setdefault((path, f"{kind}{on_key}"), []).append(found)
    told = islice(grouped.items(), MAX_TOLD)  # a nearest name is dear to find, and people read no thousand findings
    return [_one(sources, base, path, group, model) for (path, _), group in told]


def _is_echo(found: Any, node: Any) -> bool:
    """A list is too short to pydantic once its faulty entries are left out."""
    return bool(found["type"] == "too_short" and len(getattr(node, "items", ())) >= found["ctx"]["min_length"])


def _place(sources: SourceMap, base: KeyPath, found: Any) -> tuple[KeyPath, bool]:
    """The key path of an error. Parts of `loc` that no key answers to are pydantic's (`int`, `Source`, `[key]`)."""
    node = sources.node(base)
    path = list(base)
    for part in found["loc"]:
        below = child(node, part)
        if below is not None:
            path.append(part)
            node = below
    if found["type"] == "missing":
        path.append(found["loc"][-1])
    return tuple(path), "[key]" in found["loc"]


def _one(sources: SourceMap, base: KeyPath, path: KeyPath, group: list[Any], model: Any) -> Diagnostic:
    first = group[0]
    match first["type"]:
        case "extra_forbidden":
            return _unknown_key(sources, path, keys_at(model, path[len(base) : -1]))
        case "missing":
            return _missing(sources, path)
        case "literal_error":
            return _not_among(sources, path, first)
    return _bad_value(sources, path, group)


def _unknown_key(sources: SourceMap, path: KeyPath, keys: Iterable[str]) -> Diagnostic:
    where = f" in `{dotted(path[:-1])}`" if path[:-1] else ""
    return sources.diagnostic(
        "E0201", path, f"unknown key `{path[-1]}`{where}", on="key", expected=listed(keys, limit=24),
        hint=did_you_mean(str(path[-1]), keys, "remove it, or see `dspec schema`"),
    )  # fmt: skip


def _missing(sources: SourceMap, path: KeyPath) -> Diagnostic:
    if isinstance(path[-1], int):
        return sources.diagnostic("E0206", path[:-1], f"`{dotted(path[:-1])}` has {path[-1]} entries",
                                  expected="more entries", hint="add what is missing")  # fmt: skip
    where = f"`{dotted(path[:-1])}`" if path[:-1] else "the spec"
    return sources.diagnostic(
        "E0202", path, f"{where} lacks `{path[-1]}`", on="key", expected=f"the key `{path[-1]}`",
        hint=f"add `{path[-1]}: …`; `dspec schema` says what it means",
    )  # fmt: skip


def _not_among(sources: SourceMap, path: KeyPath, found: Any) -> Diagnostic:
    choices = re.findall(r"'([^']*)'", found["ctx"]["expected"]) or [found["ctx"]["expected"]]
    value = str(found["input"])
    if value.startswith("complex") and path[-1] == "dtype":
        return _complex(sources, path, value, choices)
    node = sources.node(path)
    return sources.diagnostic(
        "E0205", path, f"`{dotted(path)}` is {found_words(node)}", expected=listed(choices),
        hint=did_you_mean(value, choices, f"write {listed(choices)}"),
    )  # fmt: skip


def _complex(sources: SourceMap, path: KeyPath, value: str, choices: list[str]) -> Diagnostic:
    side = {"inputs": "input", "outputs": "output"}.get(str(path[-3]) if len(path) > 2 else "", "tensor")
    return sources.diagnostic(
        "E0205", path, f"{side} `{path[-2]}` is {value}: no runtime passes complex tensors",
        expected=listed(choices),
        hint="pass real and imaginary parts as a last axis of 2 (torch.view_as_real, torch.view_as_complex)",
    )  # fmt: skip


def _bad_value(sources: SourceMap, path: KeyPath, group: list[Any]) -> Diagnostic:
    node = sources.node(path)
    expected = " or ".join(dict.fromkeys(_expected(found) for found in group))
    kinds = {found["type"] for found in group}
    on_key = any("[key]" in found["loc"] for found in group)
    name = dotted(path)
    if on_key:
        return sources.diagnostic("E0207", path, f"`{path[-1]}` can't be a key of `{dotted(path[:-1])}`", on="key",
                                  expected=expected, hint="rename it")  # fmt: skip
    return sources.diagnostic(
        _code(kinds, node), path, f"`{name}` is {found_words(node)}", expected=expected, hint=advice(node, kinds)
    )


def _code(kinds: set[str], node: Any) -> str:
    if kinds & {"string_pattern_mismatch", "value_error"}:
        return "E0207"
    if kinds == {"string_type"} and getattr(node, "value", None) is not None:
        return "E0204"
    return "E0203" if any(kind.endswith(("_type", "_parsing", "_from_float")) for kind in kinds) else "E0206"


def _expected(found: Any) -> str:
    if found["type"] == "string_pattern_mismatch":
        return pattern_words(found["ctx"]["pattern"])
    if found["type"] in ("value_error", "assertion_error"):
        return str(found["ctx"]["error"])
    return str(EXPECTED.get(found["type"], found["msg"])).format(**found.get("ctx", {}))


def keys_at(model: Any, path: KeyPath) -> tuple[str, ...]:
    """The keys that the mapping at `path` below `model` may have; () where any key may stand."""
    if get_origin(model) is Annotated:
        return keys_at(get_args(model)[0], path)
    if get_origin(model) in (Union, types.UnionType):
        found = [keys_at(arm, path) for arm in get_args(model)]
        return next((keys for keys in found if keys), ())
    if isinstance(model, type) and issubclass(model, BaseModel):
        fields = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
        return keys_at(fields.get(str(path[0])), path[1:]) if path else tuple(fields)
    if not path or model is None:
        return ()
    arguments = get_args(model)
    is_mapping = get_origin(model) in (dict, Mapping)
    return keys_at(arguments[-1 if is_mapping else 0], path[1:]) if arguments else ()
