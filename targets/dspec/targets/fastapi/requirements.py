"""What a service bundle needs beside its pipeline: every distribution by name, since bundles are installed without resolving."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, requires, version

SERVER = ("fastapi", "uvicorn", "orjson", "prometheus-client", "python-multipart", "numpy")
# Faster event loop and parser, which uvicorn takes where they are there. The building machine need not have them.
FASTER = {"httptools": "0.9.0", "uvloop": "0.23.0"}
ENGINES = {"onnxruntime": ("onnxruntime",), "eager": ("torch",)}
# onnxruntime declares more than its CPU sessions import.
ALONE = frozenset(("onnxruntime",))


def requirements(engine: str) -> tuple[str, ...]:
    """Exact versions, those of this machine: the server's and the engine's."""
    return tuple(sorted({*server_requirements(), *_pinned(ENGINES[engine])}))


def server_requirements() -> tuple[str, ...]:
    """Exact versions, those of this machine. Raises PackageNotFoundError where it lacks one."""
    return tuple(sorted({*_pinned(SERVER), *(f"{name}=={_installed(name) or pin}" for name, pin in FASTER.items())}))


def _pinned(names: tuple[str, ...]) -> set[str]:
    return {f"{name}=={version(name).partition('+')[0]}" for name in closure(names)}


def closure(names: tuple[str, ...]) -> set[str]:
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


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
