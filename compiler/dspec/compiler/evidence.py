"""Evidence: what machines measured about a bundle, put together and written down."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dspec.compiler.fitness import why_not
from dspec.spec.errors import SpecError
from dspec.spec.files import read_bounded
from dspec.spec.models import GATES, Spec, Target
from dspec.spec.records import Case, Evidence, GateVerdict, Machine, Manifest, Measurement, Skew, Spread

MAX_BYTES = 256 * 2**20


def measurement(
    manifest: Manifest,
    machine: Machine,
    proof: Mapping[str, Any],
    load: Mapping[str, Any],
    *,
    golden: bool,
    skew: Skew | None = None,
) -> Measurement:
    """One machine's numbers, from the values of the stages `proof` and `load`.

    `golden`: held against the golden vectors alone. `skew` was found at capture and holds on every machine.
    """
    assert manifest.digests
    peaks = [peak for part in (proof, load) if (peak := part.get("peak_memory_bytes"))]
    return Measurement.model_validate_json(
        json.dumps(
            {
                **{key: proof.get(key) for key in ("parity", "quality", "smoke")},
                "skew": skew and skew.model_dump(mode="json"),
                **{key: load.get(key) for key in ("latency", "throughput")},
                "facts": proof.get("facts", {}),
                "cold_start_s": proof.get("cold_start_s", []),
                "soak_bytes": proof.get("soak_bytes", []),
                "artifact": manifest.digests.artifact,
                "reference": manifest.reference.source,
                "target": manifest.target,
                "candidate": f"{manifest.runtime}/{manifest.engine}/{manifest.variant}",
                "machine": machine.model_dump(mode="json"),
                "versions": manifest.toolchain,
                "source": "golden" if golden else "reference",
                "peak_memory_bytes": max(peaks, default=None),
            }
        )
    )


def read_variations(value: Mapping[str, Any]) -> dict[str, tuple[Case, ...]]:
    """The value of the stage `vary`, typed."""
    return {
        words: tuple(Case.model_validate_json(json.dumps(case)) for case in cases) for words, cases in value.items()
    }


def nothing_measured(manifest: Manifest, machine: Machine, reason: str, skew: Skew | None) -> Measurement:
    """A measurement that says why there is none; the skew needs no machine."""
    empty = measurement(manifest, machine, {}, {}, golden=False, skew=skew)
    return empty.model_copy(update={"missing": {gate: reason for gate in GATES if gate != "skew"}})


def on_host_kernels(
    manifest: Manifest, machine: Machine, proof: Mapping[str, Any], reason: str, skew: Skew | None
) -> Measurement:
    """What this machine's kernels tell of a target that is elsewhere (`reason`): what it answers, not how fast or from what."""
    told = {key: proof[key] for key in ("parity", "quality", "facts")}
    found = measurement(manifest, machine, told, {}, golden=False, skew=skew)
    assert found.parity
    where = f"host kernels ({found.parity.on}) and not on the device: {reason}"
    missing = {gate: reason for gate in GATES if gate not in ("parity", "skew", "quality")}
    return found.model_copy(update={"parity": found.parity.model_copy(update={"on": where}), "missing": missing})


def read_measurement(path: Path) -> Measurement:
    """A measurement file that `dspec measure -o` wrote. Raises SpecError E0702 when it is none."""
    try:
        return Measurement.model_validate_json(read_bounded(path, MAX_BYTES))
    except (OSError, ValueError, ValidationError) as error:
        raise SpecError.of(
            "E0702",
            f"{path} is not a measurement of dspec: {str(error).splitlines()[0]}",
            hint="make it with `dspec measure BUNDLE -o FILE`",
        ) from error


def counted(
    own: Measurement,
    others: Sequence[Measurement],
    manifest: Manifest,
    target: Target,
    folder: Path,
    spread: Mapping[str, Spread],
) -> tuple[Measurement, ...]:
    """This machine's numbers, and those taken elsewhere that are about this artifact and fit the target's hardware.

    What golden vectors prove depends on how the whole reference varies, so theirs is filled in. Raises SpecError E0701
    for numbers of another bundle, E0708 for those of a machine that the target does not mean.
    """
    about = [found for found in others if found.target == manifest.target]
    for found in about:
        _check_subject(found, manifest)
        if reason := why_not(found.machine, target, folder):
            raise SpecError.of(
                "E0708",
                f"the evidence given for target {manifest.target} was taken on another kind of machine: {reason}",
                hint="measure on a machine that the target's hardware and resources describe",
            )
    return (own, *(_with_spread(found, spread) for found in about))


def _check_subject(found: Measurement, manifest: Manifest) -> None:
    assert manifest.digests
    if (found.artifact, found.reference) != (manifest.digests.artifact, manifest.reference.source):
        raise SpecError.of(
            "E0701",
            f"the evidence given for target {manifest.target} is about another bundle",
            expected=f"artifact {manifest.digests.artifact[:12]}, reference {manifest.reference.source[:12]}",
            hint=f"it is about artifact {found.artifact[:12]}, reference {found.reference[:12]}: measure this build's bundle",
        )


def _with_spread(found: Measurement, spread: Mapping[str, Spread]) -> Measurement:
    if found.parity is None:
        return found
    return found.model_copy(update={"parity": found.parity.model_copy(update={"spread": dict(spread)})})


def evidence(
    spec: Spec,
    folder: Path,
    manifest: Manifest,
    measurements: Sequence[Measurement],
    verdicts: Sequence[GateVerdict],
) -> Evidence:
    """The record of one target: `folder` is the spec's, whose last commit is named where its tree is clean."""
    assert manifest.digests
    return Evidence(
        schema_version="dspec/evidence/v1alpha1",
        target=manifest.target,
        digest=manifest.digests.bundle,
        spec=spec,
        commit=_commit(folder),
        measurements=tuple(measurements),
        verdicts=tuple(verdicts),
    )


def _commit(folder: Path) -> str:
    """The last commit that touched the spec's folder, when nothing in it has changed since."""
    if _git(folder, "status", "--porcelain", "--", ".") != "":
        return ""
    return (_git(folder, "log", "-1", "--format=%H", "--", ".") or "").strip()


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None
