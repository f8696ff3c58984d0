"""The stage `vary`: cases that failed, again with other options of the same bundle, to tell where a mismatch comes from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dspec.compiler.measure.parity import Responses, Wanted, parity_cases
from dspec.compiler.measure.stages import cases_of, environment_of, open_session
from dspec.compiler.stage import Report
from dspec.compiler.store import link_or_copy, walk
from dspec.targets.shipped.pipeline import Pipeline

FAILED = 8  # cases that are tried again

Options = Mapping[str, Mapping[str, Any]]


def vary(request: Any, places: Any, inputs: Mapping[str, Path], out: Path, report: Report) -> dict[str, Any]:
    """Value: variation in words → its cases."""
    bundle, ids = Path(places["bundle"]), frozenset(request["cases"])
    wanted, environment = Wanted.read(request), environment_of(places)
    responses = Responses(Pipeline.load(bundle / "pipeline"))
    found = {}
    for words, folder in varied(bundle, request["variations"]):
        report(f"the cases that failed, with {words}")
        chosen = (case for case in cases_of(bundle, inputs) if case.id in ids)
        manifest = json.loads((folder / "bundle.json").read_text())
        with open_session(manifest, folder, environment) as session:
            cases = parity_cases(session, islice(chosen, FAILED), wanted, report, responses=responses)
            found[words] = [case.model_dump(mode="json") for case in cases]
    return {"value": found}


def varied(bundle: Path, variations: Options) -> Iterator[tuple[str, Path]]:
    """For each variation a copy of the bundle, its options in bundle.json exchanged (digests no longer fit).

    A copy lies beside the bundle, so that links do; it is gone when the next one is asked for.
    """
    for words, options in variations.items():
        with TemporaryDirectory(prefix="variation-", dir=bundle.parent) as made:
            folder = Path(made)
            for name in walk(bundle):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                link_or_copy(bundle / name, folder / name)
            manifest = json.loads((bundle / "bundle.json").read_text())
            (folder / "bundle.json").unlink()
            (folder / "bundle.json").write_text(json.dumps(manifest | {"options": dict(options)}))
            yield words, folder
