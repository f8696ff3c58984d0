"""`dspec drift BUNDLE METRICS…`: what a service saw, against the fixtures of its bundle."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from dspec.compiler.bundle import read_manifest
from dspec.compiler.drift import MAJOR, MODERATE, drift, read_metrics
from dspec.spec.errors import GateError


def run(options: argparse.Namespace) -> int:
    """0: no major shift; 1 (GateError.exit_code): one or more."""
    manifest = read_manifest(options.bundle)
    digest = (manifest.digests or manifest.with_digests().digests).bundle[:12]  # type: ignore[union-attr]
    found = drift(options.bundle, [read_metrics(place) for place in options.metrics], digest)
    shifted = any(one.verdict == "major shift" for one in found)
    if options.format == "json":
        print(json.dumps({"bundle": digest, "series": [asdict(one) for one in found], "shifted": shifted}))
    else:
        width = max((len(one.series) for one in found), default=0)
        for one in sorted(found, key=lambda one: -(one.psi or 0)):
            index = "—" if one.psi is None else f"{one.psi:.3f}"
            print(f"{one.series:{width}}  PSI {index:>7}  {one.verdict} ({one.values} values)")
        print(f"against the fixtures of {digest}; a shift is moderate above {MODERATE:g}, major above {MAJOR:g}")
    return GateError.exit_code if shifted else 0
