"""Holds what user code loaded against what the spec declares: so the bundle is complete and the cache key whole."""

from __future__ import annotations

import ast
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import dspec
from dspec.compiler.capture.usercode import UserCode
from dspec.compiler.installed import owners_of_modules
from dspec.spec.errors import Diagnostic, SpecError
from dspec.spec.models import Spec

_SYSTEM = (
    "/usr",
    "/lib",
    "/lib64",
    "/bin",
    "/etc",
    "/proc",
    "/sys",
    "/dev",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Closure:
    """Files that user code read, and the distributions it imported."""

    read: tuple[Path, ...]
    distributions: tuple[str, ...]


def closure(spec: Spec, code: UserCode) -> Closure:
    """What user code loaded so far; raises SpecError like `check_declared`."""
    check_declared(spec, code)
    modules, files = code.watch.modules(), code.watch.files()
    # The version of an editable install does not move when its sources do, so those count by their bytes. Ours are in
    # every stage's key already.
    ours = [Path(folder).resolve() for folder in dspec.__path__]
    roots = [Path(root).resolve() for root in _editable_roots()]

    def by_bytes(path: Path) -> bool:
        if any(path.is_relative_to(folder) for folder in ours):
            return False
        return bool(code.places.own(str(path))) or any(path.is_relative_to(root) for root in roots)

    sources = [path for path in modules if by_bytes(path)]
    data = [path for path in files if by_bytes(path)]
    return Closure(read=tuple(sorted({*sources, *data})), distributions=_distributions(code, sources))


def check_declared(spec: Spec, code: UserCode) -> None:
    """Raise SpecError naming every file that user code loaded and the spec does not declare."""
    modules, files = code.watch.modules(), code.watch.files()
    found = [*_undeclared_modules(spec, code, modules), *_undeclared_files(spec, code, files, modules)]
    if found:
        raise SpecError(found)


def _undeclared_modules(spec: Spec, code: UserCode, modules: Iterable[Path]) -> Iterator[Diagnostic]:
    declared = _declared_sources(spec, code.folder)
    for path in modules:
        own = code.places.own(str(path))
        if own and path not in declared:
            yield Diagnostic(
                code="E0405",
                message=f"{own} was loaded and the spec does not declare it",
                file=code.spec_file,
                key="model.code.sources",
                hint=f'add "{own}" (or a glob that covers it) to model.code.sources',
            )
        elif not own and not _is_installed(path):
            yield _outside(code, path, "model.code.sources")


def _undeclared_files(
    spec: Spec, code: UserCode, files: Iterable[Path], modules: Iterable[Path]
) -> Iterator[Diagnostic]:
    known = {*_declared_files(spec, code.folder), *_declared_sources(spec, code.folder), *modules}
    for path in files:
        own = code.places.own(str(path))
        if own and path not in known:
            yield Diagnostic(
                code="E0406",
                message=f"{own} was read and the spec does not declare it",
                file=code.spec_file,
                key="model.files",
                hint=f'add "{own}" to model.files',
            )
        elif not own and path not in known and not _is_installed(path):
            yield _outside(code, path, "model.files")


def _outside(code: UserCode, path: Path, key: str) -> Diagnostic:
    return Diagnostic(
        code="E0407",
        message=f"{path} was read; it is neither in the spec's folder nor part of an installed package",
        file=code.spec_file,
        key=key,
        expected="everything the model needs in the spec's folder or in a package of a pinned version",
        hint=f"move {path.name} into the spec's folder and add it to {key}",
    )


def _declared_sources(spec: Spec, folder: Path) -> set[Path]:
    steps = (*spec.preprocess, *spec.postprocess)
    callees = [
        spec.model.factory,
        spec.training.preprocess,
        spec.training.postprocess,
        *(step.python for step in steps),
    ]
    named = [callee.partition(":")[0] for callee in callees if callee]
    named = [name if name.endswith(".py") else f"{name.replace('.', '/')}.py" for name in named]
    return _expand(folder, (*spec.model.code.sources, *named))


def _declared_files(spec: Spec, folder: Path) -> set[Path]:
    assets = [asset for step in (*spec.preprocess, *spec.postprocess) for asset in step.assets.values()]
    sources = [asset.path for asset in assets if not asset.package]
    weights = spec.model.weights
    kept = [weights.path] if weights and not weights.package else []
    return _expand(
        folder,
        (*spec.model.files, *sources, *kept, *(fixtures.file for fixtures in spec.fixtures)),
    )


def _expand(folder: Path, patterns: Iterable[str]) -> set[Path]:
    named = {(folder / pattern).resolve() for pattern in patterns}
    return named | {path.resolve() for pattern in patterns for path in folder.glob(pattern.removeprefix("./"))}


def _is_installed(path: Path) -> bool:
    """The standard library, an installed package, the system, or dspec itself.

    Temporary folders are none of these: what a model reads there is on no other machine.
    """
    return any(path.is_relative_to(root) for root in _installed_roots(tuple(sys.path)))


@cache
def _installed_roots(import_path: tuple[str, ...]) -> tuple[Path, ...]:
    """`import_path`: sys.path, which user code may have added to."""
    roots = {*sysconfig.get_paths().values(), *site.getsitepackages(), sys.prefix, sys.base_prefix}
    roots |= {*_SYSTEM, *dspec.__path__, *_editable_roots(), *_more_sites(import_path)}
    return tuple(sorted(Path(root).resolve() for root in roots if root))


def _more_sites(import_path: tuple[str, ...]) -> set[str]:
    """Folders of the import path (PYTHONPATH, `pip install --target`) that distributions were installed into."""
    return {entry for entry in import_path if entry and any(Path(entry).glob("*.dist-info"))}


def _editable_roots() -> set[str]:
    """Folders that installed packages add to the import path (`*.pth` of editable installs)."""
    inside = [Path(folder) for folder in site.getsitepackages()]
    lines = [line.strip() for folder in inside for pth in folder.glob("*.pth") for line in pth.read_text().splitlines()]
    return {line for line in lines if line.startswith("/") and Path(line).is_dir()}


def _distributions(code: UserCode, sources: Iterable[Path]) -> tuple[str, ...]:
    owners = owners_of_modules()
    top = {name.partition(".")[0] for name in code.watch.imported} | {"torch"}
    top |= {name for path in sources for name in _imports(path)}
    return tuple(sorted({owner for name in top for owner in owners.get(name, ())} - {"dspec"}))


def _imports(path: Path) -> set[str]:
    """Top-level names that a source imports: modules loaded before user code ran show up nowhere else."""
    nodes = list(ast.walk(ast.parse(path.read_bytes()))) if path.suffix == ".py" else []
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    origin = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level}
    return {name.partition(".")[0] for name in plain | origin}
