"""The stages of a build, each as the value that `stage.run_stage` takes: what it reads decides what its key covers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dspec.compiler.lower import candidate_to_json
from dspec.compiler.machine import reference_environment, this_machine
from dspec.compiler.stage import Outcome, Stage
from dspec.compiler.store import Tree
from dspec.spec.files import locate, sha256_of
from dspec.spec.load import Loaded
from dspec.spec.models import Policy, Quality, Spec, Target
from dspec.spec.records import Manifest
from dspec.targets import runtime
from dspec.targets.protocol import Candidate, Environment, Wanted

Figures = dict[str, Any]
Asked = list[dict[str, Any]]  # metric, of and k of each entry of `quality:`
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
    """Reads the model, the request, the steps before it and the fixtures."""
    spec, folder = loaded.spec, loaded.folder
    weights = locate(spec.model.weights, folder) if spec.model.weights else None
    any_target = {"any": {"runtime": "any"}}  # capture is the same for every target
    body = _json(spec, any_target, ("name", "version", "owner", "postprocess", "response", "training"))
    body |= {"name": "any", "fixtures": [{"file": fixtures.file} for fixtures in spec.fixtures]}
    body["preprocess"] = [step | {"place": "host"} for step in body["preprocess"]]  # as every step is captured
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


def fuse_stage(loaded: Loaded, program: Tree) -> Stage:
    """Reads the types of the request, the steps, and what of them is asked for."""
    return Stage(
        name="fuse",
        function="dspec.compiler.fuse.program:fuse_program",
        request={"spec": _wiring(loaded.spec)},
        places={"spec_file": str(loaded.path)},
        inputs={"program": program},
        environment=reference_environment(),
    )


def refer_stage(spec: Spec, program: Tree, fused: Tree, reference: Tree, whole: Tree, served: Tree) -> Stage:
    """`whole` is the pipeline with every step on the host, `served` that of the steps which stay there."""
    trees = {"program": program, "fused": fused, "reference": reference, "whole": whole, "served": served}
    return Stage(
        name="refer",
        function="dspec.compiler.fuse.reference:fuse_reference",
        request={"spec": _wiring(spec)},
        inputs=trees,
        environment=reference_environment(),
    )


def _wiring(spec: Spec) -> dict[str, Any]:
    """What fusing reads of a spec: the way of a request, and the model's door."""
    unread = ("version", "owner", "training")
    body = _json(spec, {"any": {"runtime": "any"}}, unread)
    door = {key: body["model"][key] for key in ("factory", "inputs", "outputs", "dims")} | {"factory": "any:any"}
    return body | {"name": "any", "model": door, "fixtures": [{"file": "any"}]}


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
    module: Tree = (),
) -> Stage:
    """Reads everything that becomes files of this target's bundle, and of the other targets nothing.

    `module`: what capture left of the user's own, for a candidate that asks for it.
    """
    target = json.loads(spec.targets[target_id].model_dump_json(exclude={"slo", "optional"}))
    trees = {f"artifact{number}": outcome.tree for number, outcome in enumerate(artifacts)}
    trees |= {"module": module} if module else {}
    return Stage(
        name="lower",
        function="dspec.compiler.lower:lower_target",
        request={
            "spec": _json(spec, {target_id: target}, ("training",)),
            "target": target_id,
            "candidate": candidate_to_json(candidate),
            "artifacts": [outcome.value for outcome in artifacts],
        },
        inputs={"program": program, "pipeline": pipeline, **trees},
    )


def skew_stage(loaded: Loaded, program: Tree, reference: Tree, pipeline: Tree) -> Stage | None:
    """Reads the training-time code and everything it is held against; None where there is nothing to hold.

    Not its tolerances: how far both are apart does not depend on what is let pass.
    """
    spec = loaded.spec
    if not (spec.training.preprocess or spec.training.postprocess or any(s.use == "tokenize" for s in spec.preprocess)):
        return None
    body = _json(spec, {"any": {"runtime": "any"}}, ("name", "version", "owner"))
    training = {"preprocess": spec.training.preprocess, "postprocess": spec.training.postprocess}
    body |= {"name": "any", "training": training, "fixtures": [{"file": fixtures.file} for fixtures in spec.fixtures]}
    return Stage(
        name="skew",
        function="dspec.compiler.skew.stage:skew_stage",
        request={"spec": body, "files": [sha256_of(loaded.folder / name) for name in spec.model.files]},
        places={"folder": str(loaded.folder), "spec_file": str(loaded.path)},
        inputs={"program": program, "reference": reference, "pipeline": pipeline},
        environment=reference_environment(),
        folder=loaded.folder,
    )


def golden_stage(spec: Spec, reference: Tree, pipeline: Tree, *, unfused: Tree, whole: Tree) -> Stage:
    """Reads how many fixtures of each source travel. `unfused` and `whole`: reference and pipeline with every step on the host."""
    counts = [0 if fixtures.private else fixtures.golden for fixtures in spec.fixtures]
    return Stage(
        name="golden",
        function="dspec.compiler.golden:write_golden_vectors",
        request={"counts": counts, "private": [fixtures.private for fixtures in spec.fixtures]},
        inputs={"reference": reference, "pipeline": pipeline, "unfused": unfused, "whole": whole},
    )


def quality_stage(asked: Asked, reference: Tree, pipeline: Tree) -> Stage:
    """Reads, of `quality:`, what is measured: limits are judged by."""
    return Stage(
        name="quality",
        function="dspec.compiler.quality.reference:answer_labelled",
        request={"asked": asked},
        inputs={"reference": reference, "pipeline": pipeline},
    )


def asked(quality: Iterable[Quality]) -> Asked:
    """The part of `quality:` that decides what is measured."""
    return [{"metric": entry.metric, "of": entry.of, "k": entry.k} for entry in quality]


def proof_stage(
    figures: Figures,
    asked: Asked,
    manifest: Manifest,
    bundle: Path,
    environment: Environment,
    reference: Tree,
    answers: Tree = (),
) -> Stage:
    """Reads, of the tolerances, only which figures they are stated in. Without a reference: the golden vectors.

    `asked`: the metrics of `quality:`; `answers`: PyTorch's to the labelled fixtures.
    """
    trees = {"reference": reference, "answers": answers}
    return Stage(
        name="proof",
        function="dspec.compiler.measure.stages:prove",
        request=_subject(manifest) | figures | {"quality": asked},
        places=_where(bundle, environment),
        inputs={name: tree for name, tree in trees.items() if tree},
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
