"""Sizes: numbers, declared dims, and in outputs expressions over them (`seq//2`, `2*batch`, `(h+1)//2`)."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache

MAX_LENGTH = 200
_LARGEST = 2**63 - 1


class ExpressionError(ValueError):
    """What is wrong with an expression, in words."""


def evaluate(expression: str | int, sizes: Mapping[str, int]) -> int:
    """The value of an expression for given sizes.

    Raises:
        ExpressionError: malformed; a name without a size; division by zero; a result beyond 64 bits.
    """
    if isinstance(expression, int):
        return expression
    if is_name(expression) and expression in sizes:
        return sizes[expression]  # a dim may have dots in its name
    return _value(_parsed(expression), sizes)


def names(expression: str | int) -> tuple[str, ...]:
    """The dims an expression refers to, each once, in order. Raises ExpressionError where it is malformed."""
    if isinstance(expression, int):
        return ()
    if is_name(expression):
        return (expression,)
    nodes = ast.walk(_parsed(expression))
    found = sorted((node for node in nodes if isinstance(node, ast.Name)), key=lambda name: name.col_offset)
    return tuple(dict.fromkeys(name.id for name in found))


def is_name(size: str | int) -> bool:
    """Whether a size is a dim's name and no expression."""
    return isinstance(size, str) and size.replace(".", "_").isidentifier()


@lru_cache(maxsize=256)
def _parsed(text: str) -> ast.expr:
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"an expression of {len(text)} characters; at most {MAX_LENGTH}")
    try:
        body = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ExpressionError("no expression over dims") from error
    _check(body)
    return body


def _check(node: ast.expr) -> None:
    match node:
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() | ast.Mod()):
            _check(node.left)
            _check(node.right)
        case ast.Name():
            return
        case ast.Constant(value=int()) if not isinstance(node.value, bool):
            return
        case ast.BinOp(op=ast.Div()):
            raise ExpressionError("`/` gives no whole number; write `//`")
        case _:
            raise ExpressionError("only dims, whole numbers, + - * // % and brackets may stand in it")


def _value(node: ast.expr, sizes: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int() as number):
            return number
        case ast.Name(id=name):
            if name not in sizes:
                raise ExpressionError(f"no size for {name}")
            return sizes[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _combined(op, _value(left, sizes), _value(right, sizes))
    raise ExpressionError("no expression over dims")


def _combined(op: ast.operator, left: int, right: int) -> int:
    if isinstance(op, ast.FloorDiv | ast.Mod) and right == 0:
        raise ExpressionError("division by zero")
    match op:
        case ast.Add():
            result = left + right
        case ast.Sub():
            result = left - right
        case ast.Mult():
            result = left * right
        case ast.FloorDiv():
            result = left // right
        case _:
            result = left % right
    if abs(result) > _LARGEST:
        raise ExpressionError("a size beyond 64 bits")
    return result
