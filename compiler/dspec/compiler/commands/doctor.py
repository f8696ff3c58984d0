"""`dspec doctor`: what this machine has, which profiles it matches, what each runtime lacks."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from dspec.compiler.console import table
from dspec.compiler.doctor import Findings, Package, RuntimeState, TargetState, examine
from dspec.spec.load import load
from dspec.targets import catalogue


def run(options: argparse.Namespace) -> int:
    """0; 2 for a spec that is wrong; 4 when a target of it that is not optional can't be built on this machine."""
    found = examine(load(options.file, catalogue()) if options.file else None)
    print(json.dumps(findings_json(found), indent=1, ensure_ascii=False) if options.format == "json" else _text(found))
    return 4 if found.lacking else 0


def findings_json(found: Findings) -> dict[str, Any]:
    """The findings as plain JSON values; `profiles` maps a name to null where this machine matches, else to the reason."""
    return asdict(found) | {
        "cpu": asdict(found.cpu) | {"granted": found.cpu.granted},
        "packages": [asdict(one) | {"fits": one.fits} for one in found.packages],
        "profiles": {name: reason or None for name, reason in found.profiles.items()},
    }


def _text(found: Findings) -> str:
    sections = (
        ("machine", _machine(found)),
        ("hardware profiles", _profiles(found)),
        ("runtimes", _runtimes(found)),
        ("packages", _indented(table(("package", "installed", "wanted", "for"), list(map(_package, found.packages))))),
        ("programs", _programs(found)),
        ("disk", _disks(found)),
        ("targets", _targets(found)),
    )
    return "\n\n".join("\n".join((title, *lines)) for title, made in sections if (lines := list(made)))


def _machine(found: Findings) -> Iterator[str]:
    for name, value in found.versions.items():
        yield f"  {name:<12}  {value}"
    cpu, memory = found.cpu, found.memory
    quota = f", cgroup quota {cpu.quota:g}" if cpu.quota else ", no cgroup quota"
    yield f"  {'CPU':<12}  {cpu.model}"
    yield f"  {'cores':<12}  {cpu.granted} granted: {cpu.present} present, affinity {cpu.affinity}{quota}"
    yield f"  {'sets':<12}  {' '.join(cpu.instruction_sets) or 'this system does not tell'}"
    limit = f", cgroup limit {_size(memory.limit)}" if memory.limit else ", no cgroup limit"
    yield f"  {'memory':<12}  {_size(memory.total) if memory.total else 'unknown'}{limit}"
    gpus = [f"{one.kind}: {one.name}{f', driver {one.driver}' if one.driver else ''}" for one in found.accelerators]
    yield f"  {'accelerators':<12}  {'; '.join(gpus) or 'none'}"


def _profiles(found: Findings) -> Iterator[str]:
    for name, reason in found.profiles.items():
        yield f"  {'matches' if not reason else 'no':<7}  {reason or name}"


def _runtimes(found: Findings) -> Iterator[str]:
    for one in found.runtimes:
        yield f"  {one.name}: {_state(one)}"
        if one.install:
            yield f"    {one.install}"


def _state(one: RuntimeState) -> str:
    if one.missing:
        return f"lacks {', '.join(one.missing)}"
    return f"builds; to measure: {one.measure}" if one.measure else "everything is here"


def _package(one: Package) -> tuple[str, str, str, str]:
    installed = one.installed or "no"
    mark = " (out of range)" if one.installed and not one.fits else ""
    return one.name, installed + mark, one.wanted, ", ".join(one.extras)


def _programs(found: Findings) -> Iterator[str]:
    for one in found.programs:
        note = f" ({one.note})" if one.note else ""
        yield f"  {one.name:<12}  {one.path or 'not installed'}{note}"


def _disks(found: Findings) -> Iterator[str]:
    for one in found.disks:
        yield f"  {one.use:<12}  {_size(one.free)} free at {one.path}"


def _targets(found: Findings) -> Iterator[str]:
    if found.targets:
        rows = [_target(one) for one in found.targets]
        yield from _indented(table(("target", "built here", "measured here"), rows))


def _target(one: TargetState) -> tuple[str, str, str]:
    build = "\n".join(line for line in (one.build, one.to_do) if line)
    name = f"{one.target} (optional)" if one.optional else one.target
    return name, f"no: {build}" if build else "yes", f"no: {one.measure}" if one.measure else "yes"


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.split("\n")]
