"""The stages that turn a program into a bundle's files: build an artifact once, then let each target lay out its own.

These functions run in a child (`child.py`) and may import what is heavy.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

import dspec.targets.shipped as shipped
from dspec.compiler.installed import owners_of_modules
from dspec.compiler.pipeline import code_path, lay_pipeline
from dspec.compiler.stage import Report
from dspec.compiler.store import link_or_copy
from dspec.spec.models import Spec
from dspec.spec.records import Interface, TensorDigest
from dspec.targets import builder, catalogue, runtime
from dspec.targets.protocol import Artifact, Candidate, Job, Lowered, Module, Program, Wanted
from dspec.targets.shipped.parts import parts

Inputs = Mapping[str, Path]


def read_program(folder: Path) -> Program:
    """The program that capture left in `folder`."""
    found = json.loads((folder / "program.json").read_text())
    return Program(
        path=folder / "model.pt2",
        interface=Interface.model_validate_json(json.dumps(found["interface"])),
        symbols=found["symbols"],
        sources=found["sources"],
        tensors=TypeAdapter(tuple[TensorDigest, ...]).validate_json(json.dumps(found["tensors"])),
    )


def read_module(folder: Path) -> Module:
    """The module that capture left in `folder`."""
    found = json.loads((folder / "module.json").read_text())
    lists = {name: tuple(value) for name, value in found.items() if isinstance(value, list)}
    return Module(**(found | lists | {"folder": folder / "sources"}))


def build_artifact(request: Any, places: Any, inputs: Inputs, out: Path, report: Report) -> dict[str, Any]:
    """Stage `artifact`: one builder over one program. Value: the artifact without its folder."""
    report(f"building {request['builder']}")
    made = builder(request["builder"]).build(read_program(inputs["program"]), request["options"], out)
    return {
        "value": {
            "name": made.name,
            "file": made.file,
            "facts": dict(made.facts),
            "toolchain": dict(made.toolchain),
        },
        "warnings": made.warnings,
    }


def lower_target(request: Any, places: Any, inputs: Inputs, out: Path, report: Report) -> dict[str, Any]:
    """Stage `lower`: the bundle's files except README, golden policy and manifest. Value: what the manifest needs."""
    spec = Spec.model_validate_json(json.dumps(request["spec"]))
    program = read_program(inputs["program"])
    job = _job(request, spec, program, inputs)
    report(f"lowering for {job.target_id}")
    lowered = runtime(job.candidate.runtime).lower(job, out)
    lay_pipeline(spec, program.interface, inputs["pipeline"], out / "pipeline")
    requirements = _requirements(spec, lowered, out / "pipeline")
    (out / "requirements.txt").write_text("".join(f"{line}\n" for line in requirements))
    _ship_code(spec, lowered, out / "dspec_bundle")
    for source, target in lowered.copies:
        shutil.copytree(out / source, out / target, copy_function=_linked)
    pinned = tuple(name for line in requirements if _installed(name := line.partition("==")[0]))
    owed = json.loads((out / "pipeline" / "pipeline.json").read_text()).get("contract", {})
    return {"value": _manifest_facts(program, lowered) | {"contract": owed}, "distributions": pinned}


def _linked(source: str, target: str) -> None:
    link_or_copy(Path(source), Path(target))


def _job(request: Any, spec: Spec, program: Program, inputs: Inputs) -> Job:
    target = spec.targets[request["target"]]
    candidate = candidate_from_json(request["candidate"])
    artifacts = tuple(
        Artifact(folder=inputs[f"artifact{number}"], **found) for number, found in enumerate(request["artifacts"])
    )
    options = runtime(candidate.runtime).options(**target.options)
    return Job(
        spec=spec, target_id=request["target"], target=target, candidate=candidate,
        options=options, program=program, artifacts=artifacts,
        module=read_module(inputs["module"]) if "module" in inputs else None,
    )  # fmt: skip


def candidate_to_json(candidate: Candidate) -> dict[str, Any]:
    return {
        "runtime": candidate.runtime, "engine": candidate.engine, "variant": candidate.variant,
        "artifacts": [{"builder": wanted.builder, "options": dict(wanted.options)} for wanted in candidate.artifacts],
    }  # fmt: skip


def candidate_from_json(value: Any) -> Candidate:
    wanted = tuple(Wanted(**found) for found in value["artifacts"])
    return Candidate(
        runtime=value["runtime"],
        engine=value["engine"],
        variant=value["variant"],
        artifacts=wanted,
    )


def _requirements(spec: Spec, lowered: Lowered, pipeline: Path) -> list[str]:
    steps = (*spec.preprocess, *spec.postprocess)
    names = {name for step in steps for name in catalogue().steps[step.use].requires}
    names |= {name for step in steps if step.python for name in imported_by(pipeline / code_path(step))}
    lines = {f"{name}=={version(name)}" for name in names} | set(lowered.requirements)
    return sorted(_without_local_version(line) for line in lines)


def imported_by(source: Path) -> set[str]:
    """Distributions that a file imports from, anywhere in it, and those they need; the file is parsed, never run."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(source.read_bytes())):
        if isinstance(node, ast.Import):
            modules |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules.add(node.module.partition(".")[0])
    owners = owners_of_modules()
    return _with_needed({owners[module][0] for module in modules - sys.stdlib_module_names if module in owners})


def _with_needed(names: set[str]) -> set[str]:
    """The distributions and everything they require here, extras left out."""
    from packaging.requirements import Requirement

    found: set[str] = set()
    waiting = set(names)
    while waiting:
        name = waiting.pop()
        found.add(name)
        needed = (Requirement(line) for line in requires(name) or ())
        waiting |= {one.name for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})} - found
    return found


def _installed(name: str) -> bool:
    """Whether this machine has it: a runtime may pin what only the bundle needs."""
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False


def _without_local_version(line: str) -> str:
    return line.partition("+")[0]


def _ship_code(spec: Spec, lowered: Lowered, out: Path) -> None:
    root = Path(os.fspath(shipped.__path__[0]))
    used = tuple(sorted({step.use for step in (*spec.preprocess, *spec.postprocess)}))
    files = {name: root / name for name in parts(used)} | {_shipped_as(file, root): file for file in lowered.modules}
    for name, source in files.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, out / name)


def _shipped_as(module: Path, root: Path) -> str:
    """Below `dspec_bundle/` as below `shipped`; a runtime's own file beside them."""
    return module.relative_to(root).as_posix() if module.is_relative_to(root) else module.name


def _manifest_facts(program: Program, lowered: Lowered) -> dict[str, Any]:
    return {
        "interface": program.interface.model_dump(mode="json"),
        "weights": [tensor.model_dump(mode="json") for tensor in program.tensors],
        "command": list(lowered.command),
        "model": dict(lowered.model),
        "options": dict(lowered.options),
        "toolchain": dict(sorted(lowered.toolchain.items())),
        "metrics": [metric.model_dump(mode="json") for metric in lowered.metrics],
        "stamped": list(lowered.stamped),
    }
