"""The capture stage as the stage runner calls it: JSON in, program, module and reference folders out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dspec.compiler.capture import CaptureRequest, capture
from dspec.compiler.stage import Report
from dspec.spec.files import sha256_of
from dspec.spec.models import Spec
from dspec.spec.records import digest


def capture_stage(request: Any, places: Any, inputs: Mapping[str, Path], out: Path, report: Report) -> dict[str, Any]:
    """Stage `capture`: `program/`, `module/` and `reference/` below `out`. Value: where the answers come from, and how they vary."""
    result = capture(
        CaptureRequest(
            spec=Spec.model_validate_json(json.dumps(request["spec"])),
            folder=Path(places["folder"]),
            spec_file=places["spec_file"],
            weights=Path(places["weights"]) if places["weights"] else None,
            pipeline=inputs["pipeline"],
            program_out=out / "program",
            reference_out=out / "reference",
            module_out=out / "module",
        ),
        report,
    )
    return {
        "value": {"interface": result.interface.model_dump(mode="json"), **described(out / "reference")},
        "warnings": result.warnings,
        "read": result.read,
        "distributions": result.distributions,
    }


def described(folder: Path) -> dict[str, Any]:
    """What the manifest says of a reference folder, and how its answers vary."""
    index = json.loads((folder / "index.json").read_text())
    shards = sorted({case["shard"] for case in index["cases"]})
    answers = [[name, sha256_of(folder / name)] for name in shards]
    reference = {
        **{key: index[key] for key in ("torch", "cpu", "threads")},
        "fixtures": len(index["fixtures"]),
        "source": digest([index["fixtures"], index["cases"], answers]),
    }
    return {"reference": reference, "spread": index["spread"]}
