"""`dspec measure BUNDLE -o FILE`: numbers from this machine, to join a build elsewhere with `--evidence`."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dspec.compiler import stages
from dspec.compiler.bundle import check_digests, read_policy
from dspec.compiler.console import progress
from dspec.compiler.environment import clean_environment
from dspec.compiler.evidence import measurement
from dspec.compiler.fitness import unserved
from dspec.compiler.machine import granted_cpus, this_machine
from dspec.compiler.stage import Report, run_stage
from dspec.compiler.store import Store, write_whole
from dspec.spec.errors import NotProvedError, SpecError
from dspec.spec.models import Load, Quality
from dspec.spec.records import Manifest, Measurement


def run(options: argparse.Namespace) -> int:
    manifest = check_digests(options.bundle)
    with progress() as report:
        found = _measure(manifest, options.bundle, options.machine, report)
    write_whole(options.output, found.model_dump_json(indent=1) + "\n")
    if options.format == "json":
        print(found.model_dump_json())
    else:
        print(f"wrote {options.output}: join it with `dspec build SPEC --evidence {options.output}`")
    return 0


def _measure(manifest: Manifest, bundle: Path, name: str, report: Report) -> Measurement:
    policy = read_policy(bundle)
    if not any(file.path.startswith("golden/0") for file in manifest.files):
        raise SpecError.of(
            "E0703",
            f"{bundle} carries no golden vectors to measure with",
            hint="set `golden` above 0 for a fixture file",
        )
    if manifest.cores > len(granted_cpus()):
        raise NotProvedError.of(
            "E0709", f"the bundle is to be granted {manifest.cores} cores and this machine grants {len(granted_cpus())}"
        )
    if lacking := unserved(manifest):
        raise NotProvedError.of("E1013", lacking, hint="dspec triton install")
    load = Load.model_validate(policy["load"], strict=False)
    environment = clean_environment(bundle / "requirements.txt", manifest.cores, report)
    with tempfile.TemporaryDirectory(prefix="dspec-") as folder:  # numbers asked for now are taken now
        store = Store(root=Path(folder))
        figures = _figures(policy["tolerance"])
        asked = _asked(policy)
        proof = run_stage(store, stages.proof_stage(figures, asked, manifest, bundle, environment, ()), report)
        loaded = run_stage(
            store,
            stages.load_stage(manifest, load.rate_rps, load.duration_s, bundle, environment, ()),
            report,
        )
    machine = this_machine(manifest.cores, name)
    return measurement(manifest, machine, proof.value, loaded.value, golden=True)


def _asked(policy: Mapping[str, Any]) -> stages.Asked:
    """Which metrics the bundle is to be measured by; bundles of dspec 0.1 name none."""
    try:
        return stages.asked(Quality.model_validate(entry) for entry in policy.get("quality", ()))
    except (TypeError, ValueError) as error:
        message = f"golden/policy.json names a quality that is none: {str(error).splitlines()[0]}"
        raise SpecError.of("E0717", message, hint="build the bundle again") from error


def _figures(tolerance: dict[str, dict[str, object]]) -> stages.Figures:
    from dspec.spec.models import Policy

    return stages.figures({name: Policy.model_validate(found) for name, found in tolerance.items()})
