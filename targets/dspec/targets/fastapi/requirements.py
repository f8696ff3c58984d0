"""What a service bundle needs beside its pipeline: every distribution by name, since bundles are installed without resolving."""

from __future__ import annotations

from collections.abc import Iterable

from dspec.spec.errors import SpecError
from dspec.targets.pinned import ENGINES, installed, pinned

SERVER = ("fastapi", "uvicorn", "orjson", "prometheus-client", "python-multipart", "numpy")
# Faster event loop and parser, which uvicorn takes where they are there. The building machine need not have them.
FASTER = {"httptools": "0.9.0", "uvloop": "0.23.0"}


def requirements(engine: str) -> tuple[str, ...]:
    """Exact versions, those of this machine: the server's and the engine's."""
    return tuple(sorted({*server_requirements(), *pinned(ENGINES[engine])}))


def server_requirements() -> tuple[str, ...]:
    """Exact versions, those of this machine. Raises PackageNotFoundError where it lacks one."""
    return tuple(sorted({*pinned(SERVER), *(f"{name}=={installed(name) or pin}" for name, pin in FASTER.items())}))


def declared(lines: Iterable[str]) -> set[str]:
    """Pins of the user's, with all they require here. Raises SpecError E0523 where another version, or none, is installed."""
    found: set[str] = set()
    for line in lines:
        name, _, wanted = (part.strip() for part in line.partition("=="))
        here = installed(name)
        if here.partition("+")[0] != wanted.partition("+")[0]:
            raise SpecError.of(
                "E0523",
                f"model.code.requirements pins {name}=={wanted}, and "
                + (f"the module was captured with {here}" if here else "it is not installed here"),
                key="model.code.requirements",
                expected="the version that the module's answers were taken with",
                hint=f"pip install {name}=={wanted}, or pin what is installed",
            )
        found |= pinned((name,))
    return found
