"""Reading a bundle that may come from anywhere: the manifest, and whether the files are what it says."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dspec.compiler.store import describe, walk
from dspec.spec.errors import Diagnostic, GateError, SpecError
from dspec.spec.files import read_bounded
from dspec.spec.records import UNSTAMPED, FileEntry, Manifest

MANIFEST = "bundle.json"
MAX_MANIFEST_BYTES = 64 * 2**20
SHOWN = 10
AGAIN = "build the bundle again, or fetch it anew"


def read_manifest(bundle: Path) -> Manifest:
    """The manifest of a bundle's folder. Raises SpecError E0711 where there is none that can be read."""
    path = bundle / MANIFEST
    try:
        if path.is_symlink():
            raise ValueError("it is a link, and a bundle holds none")
        manifest = Manifest.model_validate_json(read_bounded(path, MAX_MANIFEST_BYTES))
        manifest.with_digests()  # NaN, or a number of thousands of digits, has no canonical text
        return manifest
    except FileNotFoundError:
        raise SpecError.of(
            "E0711",
            f"{bundle} holds no {MANIFEST}",
            hint="name the folder of one target: bundles/<name>/<target>",
        ) from None
    except (OSError, ValueError, ValidationError, RecursionError) as error:
        raise SpecError.of(
            "E0711",
            f"{path} is not a manifest of dspec: {str(error).splitlines()[0]}",
            hint="build the bundle again",
        ) from error


def check_digests(bundle: Path) -> Manifest:
    """The manifest, once every file and both digests agree with it. Raises GateError E0712 naming what does not."""
    manifest = read_manifest(bundle)
    found = [*_odd(bundle), *_twice(manifest)] or _differences(bundle, manifest)
    if not found and manifest.with_digests().digests != manifest.digests:
        found = ["the digests in bundle.json are not those of its content"]
    if found:
        more = (f"and {len(found) - SHOWN} more",) if len(found) > SHOWN else ()
        raise GateError(
            Diagnostic(
                code="E0712",
                message=f"{bundle} is not the bundle that its manifest describes",
                hint="do not deploy it; build it again or fetch it anew",
                notes=(*found[:SHOWN], *more),
            )
        )
    return manifest


def _odd(bundle: Path) -> list[str]:
    """What can't be hashed, or should not be: links, pipes, devices, names that are no text."""
    try:
        kinds = {name: _kind(bundle / name) for name in walk(bundle)}
    except (OSError, UnicodeError) as error:
        return [f"a file whose name can't be read: {error}"]
    return [f"{name}: {kind}, and a bundle holds none" for name, kind in kinds.items() if kind]


def _kind(path: Path) -> str:
    if path.is_symlink():
        return "a link"
    return "" if path.is_file() else "a pipe, socket or device"


def _twice(manifest: Manifest) -> list[str]:
    counts = Counter(entry.path for entry in manifest.files)
    return [f"{path}: listed {count} times" for path, count in counts.items() if count > 1]


def _differences(bundle: Path, manifest: Manifest) -> list[str]:
    try:
        return _compared(bundle, manifest)
    except OSError as error:
        return [f"{error.filename}: can't be read: {error.strerror}"]


def _compared(bundle: Path, manifest: Manifest) -> list[str]:
    here = {entry.path: entry for entry in describe(bundle) if entry.path != MANIFEST}
    listed = {entry.path: entry for entry in manifest.files}
    gone = [f"{path}: missing" for path in sorted(listed.keys() - here.keys())]
    extra = [f"{path}: not listed{_why(path)}" for path in sorted(here.keys() - listed.keys())]
    here |= {
        path: _unstamped(bundle, here[path], manifest) for path in here.keys() & listed.keys() if listed[path].stamp
    }
    changed = [_change(here[path], listed[path]) for path in sorted(here.keys() & listed.keys())]
    return gone + extra + [line for line in changed if line]


def _unstamped(bundle: Path, here: FileEntry, manifest: Manifest) -> FileEntry:
    """What the file is with zeros in place of the digest's first digits; as it is where it does not hold them just once."""
    content, stamp = (bundle / here.path).read_bytes(), manifest.stamp.encode()
    if content.count(stamp) != 1:
        return here
    plain = content.replace(stamp, UNSTAMPED.encode())
    return here.model_copy(update={"sha256": hashlib.sha256(plain).hexdigest(), "stamp": True})


def _why(path: str) -> str:
    return " (Python wrote it: delete the folder, and run with `python -B`)" if "__pycache__/" in path else ""


def _change(here: FileEntry, listed: FileEntry) -> str:
    if here.sha256 != listed.sha256:
        return f"{here.path}: sha256 {here.sha256[:12]}…, listed {listed.sha256[:12]}…"
    if listed.stamp and not here.stamp:
        return f"{here.path}: does not hold the first digits of the bundle's digest"
    return "" if here == listed else f"{here.path}: the run bit differs"


def read_policy(bundle: Path) -> dict[str, Any]:
    """golden/policy.json: tolerance, load. Raises SpecError E0717 where it is missing or malformed."""
    try:
        found = json.loads((bundle / "golden" / "policy.json").read_bytes())
        if isinstance(found["tolerance"], dict) and isinstance(found["load"], dict):
            return dict(found)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise SpecError.of("E0717", f"{bundle}: golden/policy.json can't be read: {error}", hint=AGAIN) from error
    raise SpecError.of("E0717", f"{bundle}: golden/policy.json holds no tolerance and load", hint=AGAIN)
