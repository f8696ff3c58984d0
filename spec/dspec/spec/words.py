"""Words for values: what was found, what was expected, and the likely slip."""

from __future__ import annotations

import math
import re
from typing import Any

from dspec.spec.nodes import Mapping, Node, Scalar, Sequence

EXPECTED = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a whole number of at most 64 bits",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "keys with values",
    "model_type": "keys with values",
    "model_attributes_type": "keys with values",
    "tuple_type": "a list",
    "list_type": "a list",
    "none_required": "nothing",
    "finite_number": "a finite number",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "string_too_short": "a text that is not empty",
    "string_too_long": "at most {max_length} characters",
    "too_short": "at least {min_length} of them",
    "too_long": "at most {max_length} of them",
}

_PATTERNS = {
    r"^[A-Za-z][A-Za-z0-9_.]*$": "a name: a letter, then letters, digits, `_` or `.`",
    r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$": "a name of small letters, digits and `-`, such as minilm-embedder",
    r"^[0-9a-f]{64}$": "a sha256: 64 hexadecimal digits, small letters (`dspec pin` writes it)",
    r"^[\w./-]+:[A-Za-z_]\w*$": "file.py:callable or package.module:callable",
    r"^[\w.-]+(==[\w.+!-]+)?$": "a distribution with its exact version: name==1.2.3",
    r"^[0-9]+$": 'a quoted whole number, such as "3"',
}

_BASE_60 = re.compile(r"[-+]?\d+(:\d+)+(\.\d*)?")
_BOOLEAN_WORDS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
_NUMBERS = frozenset(("int_type", "float_type", "int_from_float"))


def pattern_words(pattern: str) -> str:
    """A pattern of the models in words."""
    return _PATTERNS.get(pattern, f"a text that matches {pattern}")


def found_words(node: Node | None) -> str:
    """`the text "a"`, `the number 1.1 (written 1.10)`, `a list`, `nothing`."""
    match node:
        case Scalar():
            return _scalar_words(node)
        case Sequence(items=items):
            return f"a list of {len(items)}" if items else "an empty list"
        case Mapping(items=items):
            return "a mapping" if items else "an empty mapping"
    return "nothing"


def _scalar_words(node: Scalar) -> str:
    value = node.value
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        shown = value if len(value) <= 60 else value[:57] + "…"
        return f'the text "{shown}"'
    written = "" if str(value) == node.written else f" (written {node.written})"
    return f"the number {value}{written}"


def advice(node: Node | None, kinds: set[str]) -> str:
    """What to do about a value of the wrong kind, by the slip that is likeliest."""
    if not isinstance(node, Scalar):
        return "see `dspec schema` for the form"
    if node.value is None:
        return "give a value, or remove the key"
    if kinds & {"int_type", "int_from_float"} and isinstance(node.value, float) and node.value.is_integer():
        return f"write {int(node.value)}"
    if kinds == {"string_type"} and not isinstance(node.value, str):
        return f'quote it: "{node.written}"'
    if isinstance(node.value, str):
        return _advice_for_text(node, kinds)
    if isinstance(node.value, float) and (math.isnan(node.value) or math.isinf(node.value)):
        return "write a finite number"
    return "correct the value"


def _advice_for_text(node: Scalar, kinds: set[str]) -> str:
    text: str = node.value
    if kinds & _NUMBERS and _BASE_60.fullmatch(text):
        return f"`{text}` is a text (base 60 ended with YAML 1.1): write one plain number"
    if "bool_type" in kinds and text.lower() in _BOOLEAN_WORDS:
        return f"`{text}` is a text in YAML 1.2: write {_BOOLEAN_WORDS[text.lower()]}"
    if kinds & _NUMBERS and not node.plain and _is_number(text):
        return f"remove the quotes: {text}"
    if kinds & _NUMBERS and _is_number(text.replace("_", "").replace(",", ".")):
        return "write the number with digits and a point only"
    if kinds & {"tuple_type", "list_type"}:
        return f"write a list: [{text}]"
    return "correct the value"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_finite(value: Any) -> bool:
    """Whether a value is no NaN and no infinity."""
    return not isinstance(value, float) or math.isfinite(value)
