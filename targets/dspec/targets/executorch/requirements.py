"""What an ExecuTorch bundle needs beside its pipeline: every distribution by name, since bundles are installed without resolving."""

from __future__ import annotations

from importlib.metadata import requires, version

# Of executorch, the library that runs a program: it is linked against torch and needs nothing else of what the wheel declares.
ALONE = "executorch"


def requirements() -> tuple[str, ...]:
    """Exact versions, those of this machine."""
    return tuple(sorted(f"{name}=={version(name).partition('+')[0]}" for name in {ALONE, "numpy", *_closure("torch")}))


def _closure(name: str) -> set[str]:
    """The distribution and everything it requires here, extras left out."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    found: set[str] = set()
    waiting = {str(canonicalize_name(name))}
    while waiting:
        one = waiting.pop()
        found.add(one)
        needed = (Requirement(line) for line in requires(one) or ())
        wanted = (line.name for line in needed if line.marker is None or line.marker.evaluate({"extra": ""}))
        waiting |= {str(canonicalize_name(line)) for line in wanted} - found
    return found
