"""Files that a spec names: inside its folder, or of an installed package (found without importing it)."""

from __future__ import annotations

import hashlib
import os
from fnmatch import fnmatchcase
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

from dspec.spec.errors import DspecError, MachineError, SpecError
from dspec.spec.models import Source
from dspec.spec.nearest import nearest

# Which key of a source an error is about; the others are about its path.
KEY_OF = {"E0332": "sha256", "E0334": "package", "E0335": "package", "E0336": "package"}


MAX_PATH = 1024  # characters; systems end at 4096 bytes for all, folders above the spec's included


def sha256_of(path: Path) -> str:
    """The sha256 of a file's bytes, in small hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_bounded(path: Path, limit: int) -> bytes:
    """A file that may come from anywhere: OSError, or ValueError where it is longer than `limit` bytes or no file.

    A pipe or a device would have no end, and a size of 0 says nothing about either.
    """
    if path.exists() and not path.is_file():
        raise ValueError("it is no file")
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise ValueError(f"larger than {limit} bytes")
        return file.read(size)


def locate(source: Source, folder: Path, *, verify: bool = True) -> Path:
    """The file on this machine.

    `folder` is the spec's. With `verify`, a given sha256 is held against the bytes, and demanded for a package's file.

    Raises:
        SpecError: outside the folder, missing, another version, another or no sha256.
        MachineError: the package is not installed.
    """
    if source.package is None:
        path = inside(source.path, folder)
    else:
        path = _packaged(source.package, source.path)
        if verify and source.sha256 is None:
            raise SpecError.of(
                "E0333", f"`{source.path}` of {source.package} has no sha256", expected="sha256 beside package and path",
                hint=f"run `dspec pin`, which writes it ({sha256_of(path)})",
            )  # fmt: skip
    if verify and source.sha256 is not None:
        _verify(path, source)
    return path


def _verify(path: Path, source: Source) -> None:
    try:
        found = sha256_of(path)
    except OSError as error:
        raise SpecError.of("E0331", f"`{source.path}` can't be read: {error.strerror}", expected="a file that can be read",
                           hint="give yourself the right to read it") from error  # fmt: skip
    if found != source.sha256:
        raise SpecError.of(
            "E0332", f"the bytes of `{source.path}` are not those that the spec pins", expected=f"sha256 {source.sha256}",
            hint="restore the file, or accept the new one with `dspec pin`", notes=(f"found: sha256 {found}",),
        )  # fmt: skip


def inside(written: str, folder: Path, *, exists: bool = True) -> Path:
    """The file `written` (forward slashes, relative) of the spec's folder; with `exists`, a file that is there.

    Raises:
        SpecError: it is absolute, leads out of the folder (a link counts), or is not there.
    """
    root = folder.resolve()
    if len(written) > MAX_PATH:
        raise SpecError.of("E0331", f"there is no file `{written[:40]}…`: the path has {len(written)} characters",
                           expected=f"a path of at most {MAX_PATH} characters", hint="correct the path")  # fmt: skip
    pure = PurePosixPath(written)
    if pure.is_absolute() or "\\" in written or (len(written) > 1 and written[1] == ":"):
        raise _outside(written, "it is absolute" if "\\" not in written else "it has backslashes")
    if ".." in pure.parts:
        raise _outside(written, "it goes up with `..`")
    path = root / pure
    try:
        resolved = path.resolve()
        there = resolved.is_file()
    except (OSError, RuntimeError, ValueError) as error:  # a name too long, links in a circle, NUL
        raise _missing(written, root) from error
    if not resolved.is_relative_to(root):
        raise _outside(written, "a link leads out of it")
    if exists and not there:
        raise _missing(written, root)
    return path


def matching(pattern: str, root: Path, visits: int = 20_000) -> list[str]:
    """Files below `root` that a pattern with `*`, `?`, `[…]` and `**` names, as Path.glob does, within bounded work.

    Folders that are links are entered only where the pattern names them: ten links to the folder itself would otherwise
    make `*/*/*/*` go on without end.
    """
    parts = PurePosixPath(pattern).parts
    found: set[str] = set()
    seen: set[tuple[Path, int]] = set()
    left = [(root, 0)] if parts else []
    while left and len(seen) < visits:
        here = left.pop()
        if here not in seen:
            seen.add(here)
            left += _steps(*here, parts, root, found)
    return sorted(found)


def _steps(folder: Path, at: int, parts: tuple[str, ...], root: Path, found: set[str]) -> list[tuple[Path, int]]:
    """Where matching goes on from a folder for part `at`; files that match the last part go to `found`."""
    part, last = parts[at], at == len(parts) - 1
    if not any(mark in part for mark in "*?[") and not last:
        below = folder / part
        return [(below, at + 1)] if below.is_dir() else []
    onward = [(folder, at + 1)] if part == "**" and not last else []
    for entry in _entries(folder):
        is_folder = entry.is_dir(follow_symlinks=False)
        if part == "**":
            onward += [(folder / entry.name, at)] if is_folder else []
        elif not fnmatchcase(entry.name, part):
            continue
        elif last and (folder / entry.name).is_file():  # unlike DirEntry's, False for links in a circle
            found.add((folder / entry.name).relative_to(root).as_posix())
        elif not last and is_folder:
            onward.append((folder / entry.name, at + 1))
    return onward


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _outside(written: str, why: str) -> DspecError:
    return SpecError.of(
        "E0330", f"`{written}` does not stay in the spec's folder: {why}", expected="a path below the spec's own folder",
        hint="copy the file into the folder, or take it from a package: {package, path, sha256}",
    )  # fmt: skip


def _missing(written: str, root: Path) -> DspecError:
    files = _files(root)
    near = nearest(written, files)
    if not near:
        near = next((file for file in files if file.endswith("/" + PurePosixPath(written).name)), "")
    return SpecError.of(
        "E0331", f"there is no file `{written}`", expected="a file of the spec's folder",
        hint=f"did you mean `{near}`?" if near else "create it, or correct the path (it is relative to the spec file)",
    )  # fmt: skip


def _files(root: Path, limit: int = 2000) -> list[str]:
    """Files below a folder, for a hint; hidden folders and builds are left out."""
    found: list[str] = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")) and name != "bundles")
        below = Path(folder).relative_to(root)
        found += [(below / name).as_posix() for name in sorted(names)]
        if len(found) > limit:
            break
    return found[:limit]


def _packaged(requirement: str, written: str) -> Path:
    name, _, version = requirement.partition("==")
    try:
        found = distribution(name)
    except (PackageNotFoundError, ValueError) as error:  # ValueError: no name at all
        raise MachineError.of(
            "E0336", f"the package {name} is not installed here", expected=requirement,
            hint=f"pip install --no-deps {requirement}",
        ) from error  # fmt: skip
    if version != found.version:
        asked = f"{name} {version}" if version else f"{name} without a version"
        raise SpecError.of(
            "E0334" if version else "E0335", f"the spec asks for {asked}, installed is {found.version}",
            expected=requirement if version else f"{name}=={found.version}",
            hint=f"pip install --no-deps {requirement}, or write {name}=={found.version}" if version
            else f"write {name}=={found.version}",
        )  # fmt: skip
    return _file_of(found, requirement, written)


def _file_of(found: Distribution, requirement: str, written: str) -> Path:
    if PurePosixPath(written).is_absolute() or ".." in PurePosixPath(written).parts:
        raise _outside_package(requirement, written, "the path leaves the package")
    names = [str(PurePosixPath(file)) for file in found.files or ()]
    tops = sorted({name.partition("/")[0] for name in names if "/" in name and ".." not in name
                   and not name.partition("/")[0].endswith((".dist-info", ".data"))})  # fmt: skip
    asked = str(PurePosixPath(written))
    candidates = [name for name in (asked, *(f"{top}/{asked}" for top in tops)) if name in set(names)]
    if not candidates:
        raise _no_such_file(requirement, asked, names, tops)
    site = Path(str(found.locate_file(""))).resolve()
    top = site / candidates[0].partition("/")[0]
    path = site / candidates[0]
    if not path.resolve().is_relative_to(top.resolve()) or top.is_symlink():
        raise _outside_package(requirement, written, "a link leads out of the package's folder")
    if not path.is_file():
        raise MachineError.of("E0336", f"{requirement} is installed without its file `{candidates[0]}`",
                              expected=str(path), hint=f"pip install --force-reinstall --no-deps {requirement}")  # fmt: skip
    return path


def _outside_package(requirement: str, written: str, why: str) -> DspecError:
    return SpecError.of("E0330", f"`{written}` does not stay in {requirement}: {why}",
                        expected="a file that the package installs", hint="name a file of the package")  # fmt: skip


def _no_such_file(requirement: str, asked: str, names: list[str], tops: list[str]) -> DspecError:
    short = [name.removeprefix(f"{top}/") for name in names for top in tops if name.startswith(f"{top}/")]
    near = nearest(asked, short, cutoff=0.5) or nearest(asked, names, cutoff=0.5)
    shown = f"did you mean `{near}`?" if near else f"its files lie in {', '.join(tops) or 'no folder'}"
    return SpecError.of("E0337", f"{requirement} has no file `{asked}`", expected="a file that the package installs",
                        hint=shown)  # fmt: skip
