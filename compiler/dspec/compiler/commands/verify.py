"""`dspec verify BUNDLE`: needs no spec."""

from __future__ import annotations

import argparse
import json

from dspec.compiler.bundle import check_digests
from dspec.compiler.console import progress
from dspec.compiler.stage import Report
from dspec.compiler.verify import Verified, verify
from dspec.spec.records import Manifest


def run(options: argparse.Namespace) -> int:
    if options.answers:
        from dspec.compiler.commands.answers import judge_answers

        return judge_answers(options)
    if options.digests:
        _show(check_digests(options.bundle), (), 0, options.format)
        return 0
    with progress() as report:
        found = _verified(options, report)
    _show(found.manifest, found.lines, found.vectors, options.format)
    return 0


def _verified(options: argparse.Namespace, report: Report) -> Verified:
    if not options.server:
        return verify(options.bundle, report)
    from dspec.compiler.elsewhere import verify_at

    return verify_at(options.bundle, options.server)


def _show(manifest: Manifest, lines: tuple[str, ...], vectors: int, format: str) -> None:
    assert manifest.digests
    if format == "json":
        digests = manifest.digests.model_dump()
        print(json.dumps({"ok": True, "digests": digests, "files": len(manifest.files), "vectors": vectors}))
        return
    print(f"{manifest.name} / {manifest.target}, version {manifest.version}")
    print(f"artifact digest {manifest.digests.artifact}")
    print(f"bundle digest   {manifest.digests.bundle}")
    print(f"{len(manifest.files)} files as listed")
    print("\n".join(f"  {line}" for line in lines))
    if vectors:
        print(f"{vectors} golden vectors replayed: within tolerance")
