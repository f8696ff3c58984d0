"""Hardware profiles: facts about machines (os, arch, accelerator, instruction sets), and which machine matches one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, ValidationError

from dspec.spec.errors import SpecError
from dspec.spec.files import read_bounded
from dspec.spec.models import Frozen, Text
from dspec.spec.nearest import did_you_mean, listed
from dspec.spec.nodes import plain
from dspec.spec.sources import SourceMap
from dspec.spec.structure import explain_errors
from dspec.spec.yamltext import MAX_BYTES, parse

FOLDER = "hardware"  # beside the spec: hardware/<name>.yaml adds a profile
HOST = "host"


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """What a machine must be. Empty fields do not matter; `flags` are CPU features as Linux names them (avx2)."""

    name: str
    os: str = ""
    arch: str = ""
    accelerator: str = ""
    cpu: str = ""
    flags: tuple[str, ...] = ()


class ProfileFile(Frozen):
    """`hardware/<name>.yaml`: a profile of your own."""

    os: Text = Field(description="linux, android, ios, darwin, windows or baremetal")
    arch: Text = Field(description="x86_64, arm64, cortex-m …")
    accelerator: str = Field("", description="cuda, or nothing")
    cpu: str = Field("", description="a part of the CPU's model name")
    flags: tuple[Text, ...] = Field((), description="CPU features that must be there, such as avx512f")


PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(name=HOST),
        Profile(name="linux-x86_64", os="linux", arch="x86_64"),
        Profile(name="linux-x86_64-cuda", os="linux", arch="x86_64", accelerator="cuda"),
        Profile(name="linux-arm64", os="linux", arch="arm64"),
        Profile(name="android-arm64", os="android", arch="arm64"),
        Profile(name="ios-arm64", os="ios", arch="arm64"),
        Profile(name="baremetal-cortex-m", os="baremetal", arch="cortex-m"),
    )
}
_ARCH = {"amd64": "x86_64", "x64": "x86_64", "aarch64": "arm64", "armv8l": "arm64"}


def matches(
    profile: Profile, os: str, arch: str, accelerators: Iterable[str], flags: Iterable[str], cpu: str = ""
) -> str:
    """'' where the machine matches, else the first reason why not.

    `os` and `arch` are as `platform.system()` and `platform.machine()` name them, in any case; `cpu` is the CPU's model
    name, `flags` its features as Linux names them.
    """
    arch = _ARCH.get(arch.lower(), arch.lower())
    if profile.os and profile.os != os.lower():
        return f"{profile.name} is {profile.os}, this machine is {os.lower()}"
    if profile.arch and profile.arch != arch:
        return f"{profile.name} is {profile.arch}, this machine is {arch}"
    if profile.accelerator and profile.accelerator not in set(accelerators):
        return f"{profile.name} has {profile.accelerator}, this machine has none"
    if profile.cpu and profile.cpu.lower() not in cpu.lower():
        return f"{profile.name} has a CPU named {profile.cpu}, this machine's is {cpu or 'unknown'}"
    lacking = sorted(set(profile.flags) - set(flags))
    return f"{profile.name} has {', '.join(lacking)}, this machine's CPU has not" if lacking else ""


def profiles(folder: Path) -> dict[str, Path]:
    """The profiles that files beside the spec add: name → file. Nothing is read yet."""
    found = sorted((folder / FOLDER).glob("*.yaml")) if (folder / FOLDER).is_dir() else []
    return {path.stem: path for path in found}


def profile(name: str, folder: Path) -> Profile:
    """The profile of that name: a file beside the spec, else a named one.

    Raises:
        SpecError: no such profile; a file that is wrong.
    """
    own = profiles(folder)
    if name in own and name in PROFILES:
        raise SpecError.of("E0214", f"`{FOLDER}/{name}.yaml` has the name of a profile that dspec knows",
                           file=str(own[name]), expected="a name of its own", hint="rename the file")  # fmt: skip
    if name in own:
        return _read(own[name], folder)
    if name in PROFILES:
        return PROFILES[name]
    every = sorted({*PROFILES, *own})
    raise SpecError.of("E0213", f"unknown hardware profile `{name}`", expected=listed(every),
                       hint=did_you_mean(name, every, f"choose one, or add a file to `{FOLDER}/` beside the spec"))  # fmt: skip


def _bytes(path: Path) -> bytes:
    try:
        return read_bounded(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        raise SpecError.of("E0101", f"can't read the profile: {error}", file=str(path),
                           expected=f"a YAML file of at most {MAX_BYTES} bytes",
                           hint="write os and arch into it, and what else matters") from error  # fmt: skip


def _read(path: Path, folder: Path) -> Profile:
    file = str(path)
    if not path.resolve().is_relative_to(folder.resolve()):
        raise SpecError.of("E0330", f"`{FOLDER}/{path.name}` leads out of the spec's folder", file=file,
                           expected="a file inside it", hint="copy the file")  # fmt: skip
    text, root = parse(_bytes(path), file)
    try:
        found = ProfileFile.model_validate_json(json.dumps(plain(root)))
    except ValidationError as error:
        raise SpecError(explain_errors(error, SourceMap(file, text, root), (), ProfileFile)) from error
    return Profile(name=path.stem, **found.model_dump())
