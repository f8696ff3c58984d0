"""What a plain (unquoted) YAML scalar stands for: the core rules of YAML 1.2, section 10.3.2, and no others.

`no`, `on` and `y` are texts, a date is a text, `22:22` is a text.
"""

from __future__ import annotations

import math
import re
from typing import Any

_CONSTANTS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_INT = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]")
_MAX_DIGITS = 24  # more can't be a 64-bit integer, and int() of very long texts is slow


class ScalarError(ValueError):
    """A number that no one should have to guess about: code, message, expected, hint."""

    def __init__(self, code: str, message: str, expected: str, hint: str) -> None:
        super().__init__(message)
        self.code, self.message, self.expected, self.hint = code, message, expected, hint


def resolve(written: str) -> Any:
    """None, bool, int, float or str; raises ScalarError for leading zeros and numbers beyond 64 bits."""
    if written in _CONSTANTS:
        return _CONSTANTS[written]
    if not written[0].isascii() or written[0] not in "+-.0123456789":
        return written
    return _number(written)


def _number(written: str) -> Any:
    if _HEX.fullmatch(written) or _OCTAL.fullmatch(written):
        return _integer(written, 16 if written[1] == "x" else 8)
    if not _FLOAT.fullmatch(written):
        return written
    if _LEADING_ZERO.match(written):
        raise _leading_zero(written)
    return _integer(written, 10) if _INT.fullmatch(written) else _float(written)


def _integer(written: str, base: int) -> int:
    value = int(written, base) if len(written) <= _MAX_DIGITS else 2**64
    if not -(2**63) <= value < 2**64:
        raise _too_large(written, "an integer of at most 64 bits")
    return value


def _float(written: str) -> float:
    value = float(written)
    if math.isinf(value):
        raise _too_large(written, "a number that a 64-bit float can hold")
    return value


def _leading_zero(written: str) -> ScalarError:
    return ScalarError(
        "E0112",
        f"`{written}` starts with 0: some readers take it for octal, others for decimal",
        "a number without a leading zero, or a quoted text",
        f'write {float(written):g} for the number, "{written}" for the text, 0o… for octal',
    )


def _too_large(written: str, expected: str) -> ScalarError:
    shown = written if len(written) <= 40 else f"{written[:20]}… ({len(written)} characters)"
    return ScalarError("E0113", f"`{shown}` is too large", expected, "write a smaller number, or quote it as a text")
