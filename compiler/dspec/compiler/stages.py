"""The stages of a build, each as the value that `stage.run_stage` takes: what it reads decides what its key covers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dspec.compiler.lower import candidate_to_json
from dspec.compiler.machine import reference_environment, this_machine
from dspec.compiler.stage import Outcome, Stage
from dspec.compiler.store import Tree
from dspec.spec.files import locate, sha256_of
from dspec.spec.load import Loaded
from dspec.spec.models import Policy, Spec, Target
from dspec.spec.records import Manifest
from dspec.targets import runtime
from dspec.targets.protocol import Candidate, Environment, Wanted

Figures = dict[str, Any]
READ_LATER = (
    "slo",
    "tolerance",
    "quality",
    "load",
    "fleet",
    "waivers",
)  # by judge and measure; a change re-lowers nothing


def candidate_of(spec: Spec, target: Target) -> Candidate:
    """The candidate that the target's runtime puts first."""
    return runtime(target.runtime).candidates(spec, target)[0]


def _json(spec: Spec, targets: Mapping[str, Any], without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The spec as JSON, without the keys that the stage does not read."""
    body: dict[str, Any] = json.loads(spec.model_dump_json(by_alias=True))
    for key in (*READ_LATER, *without):
        body.pop(key)
    return body | {"targets": targets}


def capture_stage(loaded: Loaded, pipeline: Tree) -> Stage:
    """Reads the model, the request, the steps before it, the fixtures and the training-time code."""
    spec, folder = loaded.spec, loaded.folder
    weights = locate(spec.model.weights, folder) if spec.model.weights else None
    any_target = {"any": {"runtime": "any"}}  # capture is the same for every target
    body = _json(spec, any_target, ("name", "version", "owner", "postprocess", "response"))
    body |= {"name": "any", "fixtures": [{"file": fixtures.file} for fixtures in spec.fixtures]}
    return Stage(
        name="capture",
        function="dspec.compiler.captured:capture_stage",
        request={
            "spec": body,
            "weights": sha256_of(weights) if weights else None,
            "fixtures": [sha256_of(folder / fixtures.file) for fixtures in spec.fixtures],
            "files": [sha256_of(folder / name) for name in spec.model.files],  # native readers escape discovery
        },
        places={
            "weights": str(weights) if weights else None,
            "folder": str(folder),
            "spec_file": str(loaded.path),
        },
        inputs={"pipeline": pipeline},
        environment=reference_environment(),
        folder=folder,
    )


def artifact_stage(wanted: Wanted, program: Tree) -> Stage:
    return Stage(
        name="artifact",
        function="dspec.compiler.lower:build_artifact",
        request={"builder": wanted.builder, "options": dict(wanted.options)},
        inputs={"program": program},
    )


def lower_stage(
    spec: Spec,
    target_id: str,
    candidate: Candidate,
    program: Tree,
    pipeline: Tree,
    artifacts: tuple[Outcome, ...],
) -> Stage:
    """Reads everything that becomes files of this target's bundle, and of the other targets nothing."""
    target = json.loads(spec.targets[target_id].model_dump_json(exclude={"slo", "optional"}))
    trees = {f"artifact{number}": outcome.tree for number, outcome in enumerate(artifacts)}
    return Stage(
        name="lower",
        function="dspec.compiler.lower:lower_target",
        request={
            "spec": _json(spec, {target_id: target}),
            "target": target_id,
            "candidate": candidate_to_json(candidate),
            "artifacts": [outcome.value for outcome in artifacts],
        },
        inputs={"program": program, "pipeline": pipeline, **trees},
    )


def golden_stage(spec: Spec, reference: Tree, pipeline: Tree) -> Stage:
    """Reads how many fixtures of each source travel."""
    counts = [0 if fixtures.private else fixtures.golden for fixtures in spec.fixtures]
    return Stage(
        name="golden",
        function="dspec.compiler.golden:write_golden_vectors",
        request={"counts": counts},
        inputs={"reference": reference, "pipeline": pipeline},
    )


def proof_stage(figures: Figures, manifest: Manifest, bundle: Path, environment: Environment, reference: Tree) -> Stage:
    """Reads, of the tolerances, only which figures they are stated in. Without a reference: the golden vectors."""
    return Stage(
        name="proof",
        function="dspec.compiler.measure.stages:prove",
        request=_subject(manifest) | figures,
        places=_where(bundle, environment),
        inputs={"reference": reference} if reference else {},
    )


def vary_stage(
    variations: Mapping[str, Mapping[str, Any]],
    cases: frozenset[str],
    figures: Figures,
    manifest: Manifest,
    bundle: Path,
    environment: Environment,
    reference: Tree,
) -> Stage:
    """Reads the cases that failed, by id."""
    asked = {"variations": variations, "cases": sorted(cases)}
    return Stage(
        name="vary",
        function="dspec.compiler.measure.vary:vary",
        request=_subject(manifest) | figures | asked,
        places=_where(bundle, environment),
        inputs={"reference": reference} if reference else {},
    )


def figures(policies: Mapping[str, Policy]) -> Figures:
    """Which k, masks and sources of indices the policies name, per output."""
    return {
        "topk": {name: [p.min_topk_agreement.k] for name, p in policies.items() if p.min_topk_agreement},
        "mask": {name: policy.valid for name, policy in policies.items() if policy.valid},
        "selects": {name: policy.selects for name, policy in policies.items() if policy.selects},
    }


def load_stage(
    manifest: Manifest,
    rate_rps: float | None,
    duration_s: float,
    bundle: Path,
    environment: Environment,
    reference: Tree,
) -> Stage:
    return Stage(
        name="load",
        function="dspec.compiler.measure.stages:load",
        request=_subject(manifest) | {"rate_rps": rate_rps, "duration_s": duration_s},
        places=_where(bundle, environment),
        inputs={"reference": reference} if reference else {},
    )


def _subject(manifest: Manifest) -> dict[str, Any]:
    assert manifest.digests
    return {
        "artifact": manifest.digests.artifact,
        "reference": manifest.reference.source,
        "machine": this_machine(manifest.cores).model_dump(mode="json"),
    }


def _where(bundle: Path, environment: Environment) -> dict[str, Any]:
    return {
        "bundle": str(bundle.resolve()),
        "python": str(environment.python),
        "cpus": list(environment.cpus),
    }
