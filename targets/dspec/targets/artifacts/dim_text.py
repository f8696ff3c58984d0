"""Sizes as texts: `batch`, `2*seq + 1`, `(s77//2)`."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dspec.spec.models import Dim

_SYMBOL = re.compile(r"(?<![\w.])[A-Za-z_][\w.]*")
_FAR = 10**4  # probe sizes of a dim without a maximum stay near its minimum; this only keeps the range finite
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_CALLS: dict[str, Callable[..., Any]] = {
    "max": max,
    "min": min,
    "Max": max,
    "Min": min,
    "floor": math.floor,
    "ceil": math.ceil,
    "ceiling": math.ceil,
    "FloorToInt": math.floor,
    "CeilToInt": math.ceil,
    "IntTrueDiv": operator.truediv,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "TruncToInt": math.trunc,
}


class NotComputable(ValueError):  # noqa: N818  (an answer, not a failure)
    """The text has a name or an operation whose value is not known."""


def renamed(text: str, names: Mapping[str, str]) -> str:
    """The text with exported symbols replaced by declared dims; a text that is a key as a whole goes first."""
    if text in names:
        return names[text]
    return _SYMBOL.sub(lambda found: names.get(found[0], found[0]), text)


def value(text: str | int, sizes: Mapping[str, int]) -> int:
    """The number a size comes to. Raises NotComputable."""
    if isinstance(text, int):
        return text
    if text in sizes:  # a dim's name may hold dots
        return sizes[text]
    try:
        return int(_evaluate(ast.parse(text, mode="eval").body, sizes))
    except (SyntaxError, ZeroDivisionError, OverflowError, TypeError) as error:
        raise NotComputable(text) from error


def settled(shape: Iterable[int | str], dims: Mapping[str, Dim]) -> tuple[int | str, ...]:
    """The shape with every size that can only be one number as that number: a dim whose range has one member is fixed."""
    fixed = {name: _first(dim) for name, dim in dims.items() if dim.max is not None and _first(dim) == _last(dim)}
    return tuple(_settled(size, fixed) for size in shape)


def _settled(size: int | str, fixed: Mapping[str, int]) -> int | str:
    try:
        return value(size, fixed)
    except NotComputable:
        return size


def same(declared: int | str, found: int | str, dims: Mapping[str, Dim]) -> bool:
    """Whether both come to the same size over the declared ranges; a size known only at run time fits any text."""
    if declared == found:
        return True
    if found == "":
        return isinstance(declared, str)
    try:
        return all(value(declared, sizes) == value(found, sizes) for sizes in _probes(dims))
    except NotComputable:
        return isinstance(declared, str) and isinstance(found, str)


def _probes(dims: Mapping[str, Dim]) -> list[dict[str, int]]:
    """Points of the declared range, no two dims alike where the range allows."""
    return [
        {name: _probe(dim, 3 * index + offset) for index, (name, dim) in enumerate(dims.items())}
        for offset in (0, 1, 2, 5)
    ]


def _probe(dim: Dim, steps: int) -> int:
    return min(_first(dim) + steps * dim.multiple_of, max(_first(dim), _last(dim)))


def _first(dim: Dim) -> int:
    return -(-max(dim.min, 1) // dim.multiple_of) * dim.multiple_of


def _last(dim: Dim) -> int:
    return (dim.max if dim.max is not None else _FAR) // dim.multiple_of * dim.multiple_of


def _evaluate(node: ast.expr, sizes: Mapping[str, int]) -> Any:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name) if name in sizes:
            return sizes[name]
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_evaluate(inner, sizes)
        case ast.BinOp(left=left, op=kind, right=right) if type(kind) in _BINARY:
            return _BINARY[type(kind)](_evaluate(left, sizes), _evaluate(right, sizes))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _CALLS:
            return _CALLS[name](*(_evaluate(argument, sizes) for argument in arguments))
    raise NotComputable(ast.unparse(node))
