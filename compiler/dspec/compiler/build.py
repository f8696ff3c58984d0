"""`dspec build`: from a spec to a publication, or to a refusal that says why. `build` is the table of contents."""

from __future__ import annotations

import datetime
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dspec.compiler import stages
from dspec.compiler.bundle import check_digests
from dspec.compiler.environment import clean_environment
from dspec.compiler.evidence import (
    counted,
    evidence,
    measurement,
    nothing_measured,
    on_host_kernels,
    read_variations,
)
from dspec.compiler.fitness import lacks, unserved, why_not_here
from dspec.compiler.judge import judge, slo_of, unlike_pytorch
from dspec.compiler.machine import this_machine
from dspec.compiler.placed import placed, placed_all
from dspec.compiler.policy import policies
from dspec.compiler.publish import publish, withhold
from dspec.compiler.results import BuildResult, TargetResult, telling_what_stays_open
from dspec.compiler.seal import seal
from dspec.compiler.served import Served, fused, pipeline_of
from dspec.compiler.stage import Outcome, Report, run_stage, work_folder
from dspec.compiler.store import DamagedBlobError, Store, Tree, locked, part
from dspec.spec.errors import Diagnostic, DspecError, SpecError
from dspec.spec.load import Loaded
from dspec.spec.models import Spec
from dspec.spec.placement import to_the_door
from dspec.spec.records import Interface, Manifest, Measurement, Skew
from dspec.targets import runtime
from dspec.targets.protocol import Candidate

GLANCE_S = 3.0  # seconds of load where no latency limit is asked for: figures to look at, not to judge by


@dataclass(frozen=True, kw_only=True, slots=True)
class Builder:
    """What every step of one build needs."""

    loaded: Loaded
    store: Store
    report: Report
    today: datetime.date
    others: tuple[Measurement, ...]
    remeasure: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Captured:
    """The truth of one build, shared by its targets: program, reference and pipeline as served, golden vectors.

    `module`: the user's own files and how their module is called.
    """

    served: Served
    module: Tree
    golden: Tree
    answers: Tree
    skew: Skew | None
    warnings: tuple[Diagnostic, ...]


def build(
    loaded: Loaded,
    store: Store,
    bundles: Path,
    report: Report,
    *,
    others: Sequence[Measurement] = (),
    remeasure: bool = False,
) -> BuildResult:
    """Capture once, then lower, measure and judge each target; publish all or withhold all.

    `others` are measurements taken elsewhere; `remeasure` takes this machine's numbers anew. Raises the DspecError of a capture that failed; a failed target is part of the result.
    """
    today = datetime.date.today()
    builder = Builder(loaded=loaded, store=store, report=report, today=today, others=tuple(others), remeasure=remeasure)
    candidates = _candidates(builder)
    with locked(store):
        try:
            return _build(builder, candidates, bundles)
        except DamagedBlobError as damaged:  # it was dropped: the stage that made it runs again
            report(f"a file in the store was damaged ({damaged}); its stage runs again")
            return _build(builder, candidates, bundles)


def _candidates(builder: Builder) -> dict[str, Candidate]:
    """Every target's candidate, before anything runs. Raises what a target can't have, at its line."""
    loaded, spec = builder.loaded, builder.loaded.spec
    stray = sorted({found.target for found in builder.others} - set(spec.targets))
    if stray:
        raise SpecError.of("E0707", f"evidence for {', '.join(stray)}, which is no target of {loaded.path}")
    lacking = [lacks(spec, target) for target in spec.targets.values()]
    if all(lacking):
        raise next(error for error in lacking if error)
    found: dict[str, Candidate] = {}
    refused: list[Diagnostic] = []
    for target_id, target in spec.targets.items():
        try:
            found[target_id] = stages.candidate_of(spec, target)
        except SpecError as error:
            refused += placed_all(error.diagnostics, loaded, target_id)
    if refused:
        raise SpecError(refused)
    return found


def _build(builder: Builder, candidates: dict[str, Candidate], bundles: Path) -> BuildResult:
    captured = _capture(builder)
    with work_folder(builder.store, "staging") as staging:
        results = tuple(
            _target(builder, target_id, candidate, captured, staging) for target_id, candidate in candidates.items()
        )
        results = telling_what_stays_open(results, builder.loaded.spec)
        return _publish(builder, results, staging, bundles, captured.warnings)


def _capture(builder: Builder) -> Captured:
    spec, store = builder.loaded.spec, builder.store
    try:
        pipeline = pipeline_of(to_the_door(spec), builder.loaded.folder, store)
        outcome = run_stage(store, stages.capture_stage(builder.loaded, pipeline), builder.report)
    except DspecError as error:
        raise placed(_naming_targets(error, spec), builder.loaded) from error
    program, reference = part(outcome.tree, "program"), part(outcome.tree, "reference")
    interface = Interface.model_validate_json(json.dumps(outcome.value["interface"]))
    pipeline = pipeline_of(spec, builder.loaded.folder, store, interface)
    served = fused(builder.loaded, Served.of(spec, program, reference, pipeline, outcome.value), store, builder.report)
    golden = stages.golden_stage(spec, served.reference, served.pipeline, unfused=reference, whole=pipeline)
    skew, noticed = _skew(builder, program, reference, pipeline)
    return Captured(
        served=served,
        module=part(outcome.tree, "module"),
        golden=run_stage(store, golden, builder.report).tree,
        answers=_answers(builder, reference, pipeline),
        skew=skew,
        warnings=(*outcome.warnings, *noticed),
    )


def _skew(
    builder: Builder, program: Tree, reference: Tree, pipeline: Tree
) -> tuple[Skew | None, tuple[Diagnostic, ...]]:
    """How far the pipeline is from the training-time code, and from itself padded; None where the spec has nothing to hold."""
    stage = stages.skew_stage(builder.loaded, program, reference, pipeline)
    if stage is None:
        return None, ()
    try:
        outcome = run_stage(builder.store, stage, builder.report)
    except DspecError as error:
        raise placed(error, builder.loaded) from error
    return Skew.model_validate_json(json.dumps(outcome.value)), outcome.warnings


def _answers(builder: Builder, reference: Tree, pipeline: Tree) -> Tree:
    """PyTorch's answers to the labelled fixtures, through the whole pipeline; none where `quality` asks for none."""
    asked = stages.asked(builder.loaded.spec.quality)
    if not asked:
        return ()
    try:
        return run_stage(builder.store, stages.quality_stage(asked, reference, pipeline), builder.report).tree
    except DspecError as error:
        raise placed(error, builder.loaded) from error


def _naming_targets(error: DspecError, spec: Spec) -> DspecError:
    """An export blocker with the targets it blocks: every runtime of this version lowers the exported program."""
    if error.exit_code != 3:
        return error
    blocked = ", ".join(f"{name} ({target.runtime})" for name, target in spec.targets.items())
    first, *rest = error.diagnostics
    named = Diagnostic(**(first.to_json() | {"notes": (*first.notes, f"blocked targets: {blocked}; none stays open")}))
    return type(error)((named, *rest))


def _target(builder: Builder, target_id: str, candidate: Candidate, captured: Captured, staging: Path) -> TargetResult:
    spec = builder.loaded.spec
    optional = spec.targets[target_id].optional
    try:
        if lacking := lacks(spec, spec.targets[target_id]):
            raise lacking
        return _proved_target(builder, target_id, candidate, captured, staging)
    except DspecError as error:  # a sealed bundle stays for a look
        return TargetResult(target=target_id, optional=optional, error=placed(error, builder.loaded, target_id))


def _proved_target(
    builder: Builder, target_id: str, candidate: Candidate, captured: Captured, staging: Path
) -> TargetResult:
    spec, store, served = builder.loaded.spec, builder.store, captured.served
    artifacts = tuple(
        run_stage(store, stages.artifact_stage(wanted, served.program), builder.report)
        for wanted in candidate.artifacts
    )
    module = captured.module if candidate.module else ()
    lowering = stages.lower_stage(served.spec, target_id, candidate, served.program, served.pipeline, artifacts, module)
    lowered = run_stage(store, lowering, builder.report)
    tree = (*lowered.tree, *captured.golden)
    bundle = store.checkout(tree, staging / target_id)
    manifest = seal(bundle, tree, served.spec, target_id, candidate, lowered.value, served.source)
    own, fresh = _measure(builder, target_id, candidate, manifest, bundle, captured)
    measurements = counted(own, builder.others, manifest, spec.targets[target_id], builder.loaded.folder, served.spread)
    verdicts = judge(spec, target_id, manifest.interface, measurements, builder.today)
    record = evidence(spec, builder.loaded.folder, manifest, measurements, verdicts)
    (staging / "evidence").mkdir(exist_ok=True)
    (staging / "evidence" / f"{target_id}.json").write_text(record.model_dump_json(by_alias=True, indent=1) + "\n")
    return TargetResult(
        target=target_id,
        optional=spec.targets[target_id].optional,
        manifest=manifest,
        measurement=own,
        joined=tuple(found.machine.name or found.machine.cpu for found in measurements[1:]),
        verdicts=verdicts,
        warnings=tuple(warning for outcome in (*artifacts, lowered) for warning in outcome.warnings),
        fresh=fresh or not lowered.hit,
    )


def _measure(
    builder: Builder, target_id: str, candidate: Candidate, manifest: Manifest, bundle: Path, captured: Captured
) -> tuple[Measurement, bool]:
    """This machine's numbers, and whether any was taken now: of a target's that is elsewhere, those that speak for it."""
    spec = builder.loaded.spec
    target = spec.targets[target_id]
    machine = this_machine(target.resources.cores)
    elsewhere = why_not_here(target, builder.loaded.folder) or unserved(manifest)
    if elsewhere and not candidate.on_host_kernels:
        return nothing_measured(manifest, machine, elsewhere, captured.skew), False
    environment = clean_environment(bundle / "requirements.txt", target.resources.cores, builder.report)
    figures = stages.figures(policies(spec, manifest.interface))
    asked = stages.asked(spec.quality)
    stage = stages.proof_stage(
        figures, asked, manifest, bundle, environment, captured.served.reference, answers=captured.answers
    )
    proof = run_stage(builder.store, stage, builder.report, anew=builder.remeasure)
    if elsewhere:
        return on_host_kernels(manifest, machine, proof.value, elsewhere, captured.skew), not proof.hit

    def under_load(duration_s: float) -> tuple[Outcome, Measurement]:
        reference = captured.served.reference
        stage = stages.load_stage(manifest, spec.load.rate_rps, duration_s, bundle, environment, reference)
        load = run_stage(builder.store, stage, builder.report, anew=builder.remeasure)
        return load, measurement(manifest, machine, proof.value, load.value, golden=False, skew=captured.skew)

    limited = bool(slo_of(spec, target_id).latency_ms)
    load, found = under_load(spec.load.duration_s if limited else min(spec.load.duration_s, GLANCE_S))
    if _undecided(builder, target_id, manifest, found):
        load, found = under_load(spec.load.max_duration_s)
    fresh = not (proof.hit and load.hit)
    variations = runtime(manifest.runtime).variations(manifest.options)
    if variations and (off := unlike_pytorch(spec, target_id, manifest.interface, found)):
        stage = stages.vary_stage(variations, off, figures, manifest, bundle, environment, captured.served.reference)
        tried = run_stage(builder.store, stage, builder.report).value
        found = found.model_copy(update={"variations": read_variations(tried)})
    if fresh:
        check_digests(bundle)  # the bundle's own code ran in its folder: what is published is what was sealed
    return found, fresh


def _undecided(builder: Builder, target_id: str, manifest: Manifest, found: Measurement) -> bool:
    spec = builder.loaded.spec
    if spec.load.max_duration_s <= spec.load.duration_s or not slo_of(spec, target_id).latency_ms:
        return False
    verdicts = judge(spec, target_id, manifest.interface, (found,), builder.today)
    return any(verdict.gate == "latency" and verdict.verdict == "inconclusive" for verdict in verdicts)


def _publish(
    builder: Builder, results: tuple[TargetResult, ...], staging: Path, bundles: Path, warnings: tuple[Diagnostic, ...]
) -> BuildResult:
    name = builder.loaded.spec.name
    holds_back = [result for result in results if not result.proved and not result.optional]
    published = any(result.proved for result in results) and not holds_back
    place, changed, kept = bundles / name, False, False
    if published:
        _drop_unproved(staging, results)
    staged = _moved(staging)
    try:
        if published:
            changed = publish(staged, place)
        elif any(staged.iterdir()):
            place, kept = builder.store.root / "withheld" / name, True
            withhold(staged, place)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    told = (*warnings, *(warning for result in results for warning in result.warnings))
    found = (*builder.loaded.warnings, *placed_all(told, builder.loaded))
    return BuildResult(
        name=name, targets=results, published=published, changed=changed, kept=kept, place=place, warnings=found
    )


def _drop_unproved(staging: Path, results: tuple[TargetResult, ...]) -> None:
    for result in results:
        if not result.proved:
            shutil.rmtree(staging / result.target, ignore_errors=True)
            (staging / "evidence" / f"{result.target}.json").unlink(missing_ok=True)


def _moved(staging: Path) -> Path:
    """The staged files in a folder that can be renamed away (the work folder itself is removed at the end)."""
    whole = Path(tempfile.mkdtemp(prefix="publication-", dir=staging.parent))
    whole.rmdir()
    moved = staging.rename(whole)
    staging.mkdir()
    moved.chmod(0o755)
    return moved
