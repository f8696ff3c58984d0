"""Python sources of the user's, parsed and never run."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path

_MAX_BYTES = 500_000


def parsed(file: Path) -> ast.Module | None:
    """The syntax tree of a source; None where it is missing, too large or no Python."""
    try:
        if file.stat().st_size > _MAX_BYTES:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # escapes such as "\\d" are the author's business
            return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def bound_names(file: Path) -> set[str] | None:
    """The names that a source binds, at any depth; None where reading can't tell (star imports, `globals()`)."""
    tree = parsed(file)
    if tree is None:
        return None
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.alias(name="*") | ast.Name(id="globals" | "exec"):
                return None
            case ast.alias():
                found.add((node.asname or node.name).partition(".")[0])
    return None if "__getattr__" in found else found


def forward_parameters(file: Path) -> tuple[str, ...]:
    """The parameters without default of the last `forward` in a source; () where there is none."""
    found: tuple[str, ...] = ()
    for node in ast.walk(parsed(file) or ast.Module(body=[], type_ignores=[])):
        if isinstance(node, ast.FunctionDef) and node.name == "forward":
            every = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)][1:]
            found = tuple(every[: len(every) - len(node.args.defaults)])
    return tuple(name for name in found if not name.startswith("_"))
