"""Completes a bundle's folder: README, golden policy, and the manifest with its digests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dspec.compiler.owed import owed
from dspec.compiler.policy import policies
from dspec.compiler.stages import asked
from dspec.compiler.store import Tree
from dspec.spec.files import sha256_of
from dspec.spec.models import Spec
from dspec.spec.records import UNSTAMPED, FileEntry, Interface, Manifest, Reference
from dspec.targets.protocol import Candidate

README = """# {name} / {target}

A bundle of dspec: `{runtime}` with engine `{engine}` ({variant}) for `{hardware}`, version {version}.

    python3 -m venv ../env && ../env/bin/pip install --no-deps -r requirements.txt
    ../env/bin/python -B -m dspec_bundle selftest              # replays the golden vectors on this machine
    ../env/bin/python -B -m dspec_bundle run {example}
{serve}
The environment lies outside this folder, whose every file is listed. requirements.txt is complete: the bundle was proved with just these packages (`--no-deps`).
`-B` keeps Python from writing into the bundle.
A request is one item with the fields {fields}; the answer has {answers}.
`bundle.json` lists every file with its sha256; `dspec verify` checks them and replays `golden/`.
`model/graph.txt` is the graph as text, `pipeline/pipeline.json` the steps around it.
"""
SERVE = """    ../env/bin/python -B -m dspec_bundle serve --port 8000     # POST /predict, /v2/…, /metrics; /openapi.json describes them
"""
REPOSITORY = """    cp -r model_repository ../repository                       # a server's Python writes beside what it runs
    PATH="$PWD/../env/bin:$PATH" {command}     # HTTP and gRPC, or: dspec serve .
"""
EXAMPLES = {
    "text": '{name}="some text"',
    "image": "{name}=@photo.jpg",
    "audio": "{name}=@sound.wav",
}


def seal(
    folder: Path,
    tree: Tree,
    spec: Spec,
    target_id: str,
    candidate: Candidate,
    facts: Mapping[str, Any],
    reference: Reference,
) -> Manifest:
    """Write what is missing into `folder` (which holds `tree`), and return the manifest written as bundle.json."""
    interface = Interface.model_validate_json(json.dumps(facts["interface"]))
    written = [
        _write(folder, "README.md", _readme(spec, target_id, candidate, interface, facts)),
        _write(folder, "golden/policy.json", _policy(spec, interface)),
    ]
    target = spec.targets[target_id]
    manifest = Manifest.model_validate_json(
        json.dumps(
            {
                "schema": "dspec/bundle/v1alpha1",
                "name": spec.name,
                "version": spec.version,
                "target": target_id,
                "owner": spec.owner,
                "hardware": target.hardware,
                "runtime": candidate.runtime,
                "engine": candidate.engine,
                "variant": candidate.variant,
                "cores": target.resources.cores,
                **{
                    key: facts[key]
                    for key in (
                        "interface",
                        "weights",
                        "command",
                        "model",
                        "options",
                        "toolchain",
                        "metrics",
                    )
                },
                "contract": facts.get("contract", {}),
                "reference": reference.model_dump(mode="json"),
                "files": [
                    entry.model_dump(mode="json")
                    for entry in sorted((*_stamped(tree, facts), *written), key=lambda entry: entry.path.encode())
                ],
            }
        )
    ).with_digests()
    (folder / "bundle.json").write_text(manifest.model_dump_json(by_alias=True, indent=1) + "\n")
    _stamp(folder, manifest)
    return manifest


def _stamped(tree: Tree, facts: Mapping[str, Any]) -> Tree:
    """The same files, those noted that are to hold the digest's first digits."""
    names = frozenset(facts.get("stamped", ()))
    return tuple(entry.model_copy(update={"stamp": True}) if entry.path in names else entry for entry in tree)


def _stamp(folder: Path, manifest: Manifest) -> None:
    """Write the digest's first digits in place of the zeros: the digest is of what stood there before."""
    for entry in manifest.files:
        if entry.stamp:
            path = folder / entry.path
            text = path.read_bytes().replace(UNSTAMPED.encode(), manifest.stamp.encode())
            path.unlink()  # a link to the store's own
            path.write_bytes(text)


def _write(folder: Path, name: str, text: str) -> FileEntry:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return FileEntry(path=name, size=path.stat().st_size, sha256=sha256_of(path))


def _readme(spec: Spec, target_id: str, candidate: Candidate, interface: Interface, facts: Mapping[str, Any]) -> str:
    contract = facts.get("contract", {})
    examples = [
        "--input " + EXAMPLES.get(field.type, "{name}=@{name}.json").format(name=name)
        for name, field in spec.request.items()
    ]
    return README.format(
        name=spec.name,
        target=target_id,
        version=spec.version,
        runtime=candidate.runtime,
        engine=candidate.engine,
        variant=candidate.variant,
        hardware=spec.targets[target_id].hardware,
        example=" ".join(examples),
        serve=_serve(facts["command"]),
        fields=", ".join(f"`{name}` ({field.type})" for name, field in spec.request.items()),
        answers=", ".join(f"`{name}`" for name in spec.response or interface.outputs),
    ) + (owed(contract, {name: field.model_dump() for name, field in spec.request.items()}) if contract else "")


def _serve(command: Sequence[str]) -> str:
    """How to serve the bundle by hand, where it brings what serves it."""
    if "model_repository" in command:
        return REPOSITORY.format(command=" ".join(command).replace("model_repository", "../repository"))
    return SERVE if command[-1] == "serve" else ""


def _policy(spec: Spec, interface: Interface) -> str:
    body = {
        "tolerance": {name: policy.model_dump(mode="json") for name, policy in policies(spec, interface).items()},
        "max_failing": spec.tolerance.max_failing_fixtures,
        "quality": asked(spec.quality),
        "load": spec.load.model_dump(mode="json"),
    }
    return json.dumps(body, indent=1) + "\n"
