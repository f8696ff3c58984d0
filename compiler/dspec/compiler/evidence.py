"""Evidence: what machines measured about a bundle, put together and written down."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dspec.spec.errors import SpecError
from dspec.spec.models import GATES, Spec
from dspec.spec.records import Evidence, GateVerdict, Machine, Manifest, Measurement

MAX_BYTES = 256 * 2**20


def measurement(
    manifest: Manifest,
    machine: Machine,
    proof: Mapping[str, Any],
    load: Mapping[str, Any],
    *,
    golden: bool,
) -> Measurement:
    """One machine's numbers, from the values of the stages `proof` and `load`."""
    assert manifest.digests
    peaks = [peak for part in (proof, load) if (peak := part.get("peak_memory_bytes"))]
    return Measurement.model_validate_json(
        json.dumps(
            {
                **{key: proof.get(key) for key in ("parity", "skew", "smoke")},
                **{key: load.get(key) for key in ("latency", "throughput")},
                "facts": proof.get("facts", {}),
                "cold_start_s": proof.get("cold_start_s", []),
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


def nothing_measured(manifest: Manifest, machine: Machine, reason: str) -> Measurement:
    """A measurement that says why there is none."""
    empty = measurement(manifest, machine, {}, {}, golden=False)
    return empty.model_copy(update={"missing": dict.fromkeys(GATES, reason)})


def read_measurement(path: Path) -> Measurement:
    """A measurement file that `dspec measure -o` wrote. Raises SpecError E0702 when it is none."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"larger than {MAX_BYTES} bytes")
        return Measurement.model_validate_json(path.read_bytes())
    except (OSError, ValueError, ValidationError) as error:
        raise SpecError.of(
            "E0702",
            f"{path} is not a measurement of dspec: {str(error).splitlines()[0]}",
            hint="make it with `dspec measure BUNDLE -o FILE`",
        ) from error


def belongs(found: Measurement, manifest: Manifest) -> bool:
    """Whether a measurement is about this very artifact and reference."""
    assert manifest.digests
    return (found.artifact, found.reference) == (
        manifest.digests.artifact,
        manifest.reference.source,
    )


def joined(own: Measurement, others: Sequence[Measurement]) -> Measurement:
    """This machine's numbers; where it took none for a gate, those of the first machine that did."""
    for other in others:
        filled = {
            key: value
            for key in ("parity", "skew", "latency", "throughput", "smoke", "peak_memory_bytes")
            if getattr(own, key) is None and (value := getattr(other, key)) is not None
        }
        if not own.cold_start_s and other.cold_start_s:
            filled["cold_start_s"] = other.cold_start_s
        missing = {gate: why for gate, why in own.missing.items() if gate in other.missing}
        own = own.model_copy(update=filled | {"missing": missing})
    return own


def evidence(
    spec: Spec,
    folder: Path,
    manifest: Manifest,
    measurements: Sequence[Measurement],
    verdicts: Sequence[GateVerdict],
) -> Evidence:
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
