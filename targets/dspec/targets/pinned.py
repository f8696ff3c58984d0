"""Requirements of bundles: every distribution by name and version, since bundles are installed without resolving."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, requires, version

ENGINES = {"onnxruntime": ("onnxruntime",), "eager": ("torch",)}
# onnxruntime declares more than its CPU sessions import.
ALONE = frozenset(("onnxruntime",))


def pinned(names: Iterable[str]) -> set[str]:
    """The distributions and all they require, as lines with this machine's versions. Raises PackageNotFoundError."""
    return {f"{name}=={version(name).partition('+')[0]}" for name in closure(names)}


def closure(names: Iterable[str]) -> set[str]:
    """The distributions and everything they require here, extras left out."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    found: set[str] = set()
    waiting = {canonicalize_name(name) for name in names}
    while waiting:
        name = waiting.pop()
        found.add(name)
        if name in ALONE:
            continue
        needed = (Requirement(line) for line in requires(name) or ())
        wanted = {
            canonicalize_name(one.name) for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})
        }
        waiting |= wanted - found
    return {str(name) for name in found}


def installed(name: str) -> str:
    """Its version here, or an empty text."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
