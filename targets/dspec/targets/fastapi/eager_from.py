"""Whether the engine `eager` runs the user's module from its sources or the exported program, and why: told by the spec alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.metadata import PackageNotFoundError, distribution

from dspec.spec.errors import Diagnostic
from dspec.spec.models import Spec, Target
from dspec.spec.placement import at
from dspec.targets.fastapi.refusals import option

PROGRAM = "the exported program, not the module's sources"


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """`sources`: the user's module; else the exported program. `why`, in words; `obstacle`: why it can't be the sources."""

    sources: bool
    why: str
    obstacle: str = ""


def taken(spec: Spec, target: Target) -> Taken:
    """What the target gets. Sources that can't ship are the exported program, even where they are asked for: see `refused`."""
    asked = option(target, "eager_from")
    obstacle = _obstacle(spec)
    if obstacle:
        return Taken(sources=False, why=f"{PROGRAM}: {obstacle}", obstacle=obstacle)
    if asked == "program":
        return Taken(sources=False, why=f"{PROGRAM}, as `eager_from` asks: no class of the user's to import")
    factory = spec.model.factory
    origin = "the spec's folder" if _own(spec) else f"the pinned {_pinned_owner(spec)}"
    return Taken(
        sources=True,
        why=f"the module's own sources: {factory} is in {origin} and ships with what it was seen to load, its weights as safetensors",
    )


def refused(spec: Spec, target: Target) -> Iterator[Diagnostic]:
    """Sources asked for that can't ship, and the option where another engine runs."""
    asked, engine = option(target, "eager_from"), option(target, "engine")
    if asked != "auto" and engine != "eager":
        yield Diagnostic(
            code="E0521",
            message=f"option eager_from is PyTorch's and the engine is {engine}",
            key="options.eager_from",
            expected="`engine: eager` beside it",
            hint="leave eager_from out, or set `engine: eager`",
        )
    elif asked == "sources" and (obstacle := _obstacle(spec)):
        yield Diagnostic(
            code="E0522",
            message=f"the module's sources can't ship: {obstacle}",
            key="options.eager_from",
            expected="a factory in a file of the spec's folder or in a pinned package, and no step in the graph",
            hint="leave eager_from out, or set `eager_from: program`",
        )


def _obstacle(spec: Spec) -> str:
    """Why the sources can't ship, in words; empty where they can."""
    fused = at((*spec.preprocess, *spec.postprocess), "graph")
    if fused:
        several = len(fused) > 1
        names = ", ".join(f"`{step.id}`" for step in fused)
        return f"step{'s' * several} {names} {'run' if several else 'runs'} in the graph, which only the program has"
    if _own(spec) or _pinned_owner(spec):
        return ""
    package = spec.model.factory.partition(".")[0]
    return f"{package} is neither among model.code.sources nor in a package that model.code.requirements pins"


def _own(spec: Spec) -> bool:
    """Whether the factory is a file of the spec's folder: named as one, or a module that the declared sources cover."""
    source = spec.model.factory.partition(":")[0]
    if source.endswith(".py"):
        return True
    path = source.replace(".", "/")
    globs = [pattern.removeprefix("./").replace("**/", "*") for pattern in spec.model.code.sources]
    return any(fnmatchcase(name, glob) for glob in globs for name in (f"{path}.py", f"{path}/__init__.py"))


def _pinned_owner(spec: Spec) -> str:
    """The requirement whose package the factory is a module of, or an empty text."""
    top = spec.model.factory.partition(":")[0].partition(".")[0]
    return next((line for line in spec.model.code.requirements if top in _modules(line.partition("==")[0])), "")


def _modules(name: str) -> set[str]:
    """Top-level modules of a distribution: as it is installed, or the one that its name suggests."""
    try:
        files: Iterable[str] = (path.as_posix() for path in distribution(name.strip()).files or ())
    except PackageNotFoundError:
        files = ()
    tops = {file.partition("/")[0].removesuffix(".py") for file in files}
    return tops | {name.strip().lower().replace("-", "_").replace(".", "_")}
