"""`dspec build`: from a spec to a publication, or to a refusal that says why. `build` is the table of contents."""

from __future__ import annotations

import datetime
import fcntl
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from dspec.compiler import stages
from dspec.compiler.environment import clean_environment
from dspec.compiler.evidence import belongs, evidence, joined, measurement, nothing_measured
from dspec.compiler.judge import judge, publishable, slo_of
from dspec.compiler.machine import cpu_facts, granted_cpus, this_machine
from dspec.compiler.pipeline import write_pipeline
from dspec.compiler.placed import placed, placed_all
from dspec.compiler.policy import policies
from dspec.compiler.publish import publish, withhold
from dspec.compiler.seal import seal
from dspec.compiler.stage import Outcome, Report, run_stage, work_folder
from dspec.compiler.store import Store, Tree
from dspec.spec.errors import Diagnostic, DspecError, GateError, MachineError
from dspec.spec.hardware import matches, profile
from dspec.spec.load import Loaded
from dspec.spec.models import Spec, Target
from dspec.spec.records import GateVerdict, Manifest, Measurement, Reference
from dspec.targets import catalogue, runtime

EXIT_ORDER = (
    3,
    1,
    4,
    5,
)  # what a build with several troubles answers: the one nearest to its cause


@dataclass(frozen=True, kw_only=True, slots=True)
class TargetResult:
    """What became of one target: its bundle and verdicts, or the error that stopped it."""

    target: str
    optional: bool
    manifest: Manifest | None = None
    measurement: Measurement | None = None
    verdicts: tuple[GateVerdict, ...] = ()
    error: DspecError | None = None
    warnings: tuple[Diagnostic, ...] = ()
    fresh: bool = True

    @property
    def proved(self) -> bool:
        return self.error is None and publishable(self.verdicts)

    @property
    def exit_code(self) -> int:
        if self.error is not None:
            return self.error.exit_code
        unproved = [found.verdict for found in self.verdicts if not found.waived_by]
        return 1 if "fail" in unproved else 5 if {"inconclusive", "unmeasured"} & set(unproved) else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildResult:
    """Every target's fate, and where the whole publication lies."""

    name: str
    targets: tuple[TargetResult, ...]
    published: bool
    changed: bool
    place: Path
    warnings: tuple[Diagnostic, ...] = ()

    @property
    def exit_code(self) -> int:
        codes = {result.exit_code for result in self.targets if not result.optional}
        codes |= set() if self.published else {5}
        return next((code for code in EXIT_ORDER if code in codes), 0) if not self.published else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Builder:
    """What every step of one build needs."""

    loaded: Loaded
    store: Store
    report: Report
    today: datetime.date
    evidence: tuple[Measurement, ...] = ()


def build(loaded: Loaded, store: Store, bundles: Path, others: Sequence[Measurement], report: Report) -> BuildResult:
    """Capture once, then lower, measure and judge each target; publish all or withhold all.

    Raises the DspecError of a capture that failed; a failed target is part of the result.
    """
    builder = Builder(
        loaded=loaded,
        store=store,
        report=report,
        today=datetime.date.today(),
        evidence=tuple(others),
    )
    lacking = {name: lacks(loaded.spec, target) for name, target in loaded.spec.targets.items()}
    if all(lacking.values()):
        raise next(error for error in lacking.values() if error)
    with locked(store):
        pipeline = _pipeline(builder)
        captured = _capture(builder, pipeline)
        program, reference = _part(captured.tree, "program"), _part(captured.tree, "reference")
        with work_folder(store, "staging") as staging:
            golden = run_stage(store, stages.golden_stage(loaded.spec, reference, pipeline), report)
            results = tuple(
                _target(
                    builder,
                    target_id,
                    staging,
                    Parts(program, reference, pipeline, golden.tree, captured, golden),
                )
                for target_id in loaded.spec.targets
            )
            return _publish(builder, results, staging, bundles, captured.warnings)


def lacks(spec: Spec, target: Target) -> MachineError | None:
    """What this machine lacks for building a target, as the error that names the command to install it."""
    steps = (catalogue().steps[step.use] for step in (*spec.preprocess, *spec.postprocess))
    needed = {name for step in steps for name in step.requires}
    absent = sorted({*runtime(target.runtime).missing(), *(name for name in needed if not _installed(name))})
    if not absent:
        return None
    hint = f"pip install 'dspec[{target.runtime}]'"
    return MachineError(
        Diagnostic(code="E0605", message=f"this machine lacks {', '.join(absent)} for {target.runtime}", hint=hint)
    )


def _installed(name: str) -> bool:
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False


@dataclass(frozen=True, slots=True)
class Parts:
    """What all targets of a build share."""

    program: Tree
    reference: Tree
    pipeline: Tree
    golden: Tree
    captured: Outcome
    golden_outcome: Outcome


@contextmanager
def locked(store: Store) -> Iterator[None]:
    """One build at a time per store; whatever a killed one left behind is removed."""
    store.root.mkdir(parents=True, exist_ok=True)
    with (store.root / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise MachineError.of(
                "E0604",
                f"another dspec is building with {store.root}",
                hint="wait for it, or give --store",
            ) from None
        shutil.rmtree(store.root / "work", ignore_errors=True)
        yield


def _pipeline(builder: Builder) -> Tree:
    with work_folder(builder.store, "pipeline") as work:
        write_pipeline(builder.loaded.spec, builder.loaded.folder, work)
        return builder.store.keep(work)


def _capture(builder: Builder, pipeline: Tree) -> Outcome:
    stage = stages.capture_stage(builder.loaded, pipeline)
    try:
        return run_stage(builder.store, stage, builder.report)
    except DspecError as error:
        raise placed(error, builder.loaded) from error


def _part(tree: Tree, folder: str) -> Tree:
    prefix = folder + "/"
    return tuple(
        entry.model_copy(update={"path": entry.path.removeprefix(prefix)})
        for entry in tree
        if entry.path.startswith(prefix)
    )


def _target(builder: Builder, target_id: str, staging: Path, parts: Parts) -> TargetResult:
    spec = builder.loaded.spec
    optional = spec.targets[target_id].optional
    try:
        if lacking := lacks(spec, spec.targets[target_id]):
            raise lacking
        return _proved_target(builder, target_id, staging, parts)
    except DspecError as error:
        shutil.rmtree(staging / target_id, ignore_errors=True)
        return TargetResult(target=target_id, optional=optional, error=placed(error, builder.loaded, target_id))


def _proved_target(builder: Builder, target_id: str, staging: Path, parts: Parts) -> TargetResult:
    spec, store = builder.loaded.spec, builder.store
    candidate = stages.candidate_of(spec, spec.targets[target_id])
    artifacts = tuple(
        run_stage(store, stages.artifact_stage(wanted, parts.program), builder.report) for wanted in candidate.artifacts
    )
    lowering = stages.lower_stage(spec, target_id, candidate, parts.program, parts.pipeline, artifacts)
    lowered = run_stage(store, lowering, builder.report)
    tree = (*lowered.tree, *parts.golden)
    bundle = store.checkout(tree, staging / target_id)
    manifest = seal(bundle, tree, spec, target_id, candidate, lowered.value, reference_of(parts.captured))
    own, fresh = _measure(builder, target_id, manifest, bundle, parts.reference)
    others = _matching(builder, manifest)
    verdicts = judge(spec, target_id, manifest.interface, joined(own, others), builder.today)
    record = evidence(spec, builder.loaded.folder, manifest, (own, *others), verdicts)
    (staging / "evidence").mkdir(exist_ok=True)
    text = record.model_dump_json(by_alias=True, indent=1)
    (staging / "evidence" / f"{target_id}.json").write_text(text + "\n")
    return TargetResult(
        target=target_id,
        optional=spec.targets[target_id].optional,
        manifest=manifest,
        measurement=joined(own, others),
        verdicts=verdicts,
        warnings=tuple(warning for outcome in (*artifacts, lowered) for warning in outcome.warnings),
        fresh=fresh or not lowered.hit,
    )


def reference_of(captured: Outcome) -> Reference:
    """Where the golden answers come from, as the manifest states it."""
    return Reference.model_validate_json(json.dumps(captured.value["reference"]))


def _matching(builder: Builder, manifest: Manifest) -> tuple[Measurement, ...]:
    about = [found for found in builder.evidence if found.target == manifest.target]
    for found in about:
        if not belongs(found, manifest):
            raise GateError.of(
                "E0701",
                f"the evidence given for target {manifest.target} is about another bundle",
                expected=f"artifact {manifest.digests.artifact[:12] if manifest.digests else ''}",
                hint=f"it is about artifact {found.artifact[:12]}: measure the bundle that this build withholds or publishes",
            )
    return tuple(about)


def _measure(
    builder: Builder, target_id: str, manifest: Manifest, bundle: Path, reference: Tree
) -> tuple[Measurement, bool]:
    """This machine's numbers, and whether any was taken now."""
    spec = builder.loaded.spec
    target = spec.targets[target_id]
    machine = this_machine(target.resources.cores)
    if reason := why_not_here(builder.loaded, target):
        return nothing_measured(manifest, machine, reason), False
    cores = target.resources.cores
    environment = clean_environment(bundle / "requirements.txt", cores, builder.report)
    figures = stages.figures(policies(spec, manifest.interface))
    proof = run_stage(
        builder.store,
        stages.proof_stage(figures, manifest, bundle, environment, reference),
        builder.report,
    )

    def under_load(duration_s: float) -> Outcome:
        rate = spec.load.rate_rps
        stage = stages.load_stage(manifest, rate, duration_s, bundle, environment, reference)
        return run_stage(builder.store, stage, builder.report)

    load = under_load(spec.load.duration_s)
    found = measurement(manifest, machine, proof.value, load.value, golden=False)
    if _undecided(builder, target_id, manifest, found):
        load = under_load(spec.load.max_duration_s)
        found = measurement(manifest, machine, proof.value, load.value, golden=False)
    return found, not (proof.hit and load.hit)


def _undecided(builder: Builder, target_id: str, manifest: Manifest, found: Measurement) -> bool:
    spec = builder.loaded.spec
    if spec.load.max_duration_s <= spec.load.duration_s or not slo_of(spec, target_id).latency_ms:
        return False
    verdicts = judge(spec, target_id, manifest.interface, found, builder.today)
    return any(verdict.gate == "latency" and verdict.verdict == "inconclusive" for verdict in verdicts)


def why_not_here(loaded: Loaded, target: Target) -> str:
    """Why this machine can't measure the target; empty where it can."""
    if target.resources.cores > len(granted_cpus()):
        return f"the target is granted {target.resources.cores} cores and this machine grants {len(granted_cpus())}"
    machine, (cpu, flags) = this_machine(target.resources.cores), cpu_facts()
    return matches(profile(target.hardware, loaded.folder), machine.os, machine.arch, (), flags, cpu)


def _publish(
    builder: Builder,
    results: tuple[TargetResult, ...],
    staging: Path,
    bundles: Path,
    warnings: tuple[Diagnostic, ...],
) -> BuildResult:
    name = builder.loaded.spec.name
    holds_back = [result for result in results if not result.proved and not result.optional]
    proved = [result for result in results if result.proved]
    published = bool(proved) and not holds_back
    place, changed = bundles / name, False
    if published:
        _drop_unproved(staging, results)
    staged = _stage_dir(staging, name)
    try:
        if published:
            changed = publish(staged, place)
        elif any(staged.iterdir()):
            place = builder.store.root / "withheld" / name
            withhold(staged, place)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    found = (*builder.loaded.warnings, *placed_all(warnings, builder.loaded))
    return BuildResult(
        name=name,
        targets=results,
        published=published,
        changed=changed,
        place=place,
        warnings=found,
    )


def _drop_unproved(staging: Path, results: tuple[TargetResult, ...]) -> None:
    for result in results:
        if not result.proved:
            shutil.rmtree(staging / result.target, ignore_errors=True)
            (staging / "evidence" / f"{result.target}.json").unlink(missing_ok=True)


def _stage_dir(staging: Path, name: str) -> Path:
    """The staged files in a folder that can be renamed away (the work folder itself is removed at the end)."""
    whole = Path(tempfile.mkdtemp(prefix="publication-", dir=staging.parent))
    whole.rmdir()
    inner = staging.rename(whole)
    staging.mkdir()
    inner.chmod(0o755)
    return inner
