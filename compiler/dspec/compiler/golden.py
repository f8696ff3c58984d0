"""The golden stage: the fixtures that travel, with the value after every step and PyTorch's answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dspec.compiler.buckets import Statistics
from dspec.compiler.measure.cases import Expected, reference_cases
from dspec.compiler.stage import Report
from dspec.spec.errors import GateError
from dspec.targets.shipped.errors import BundleError, RequestError
from dspec.targets.shipped.golden import Golden, write_golden
from dspec.targets.shipped.pipeline import Pipeline
from dspec.targets.shipped.request import LABEL


def write_golden_vectors(
    request: Any, places: Any, inputs: Mapping[str, Path], out: Path, report: Report
) -> dict[str, Any]:
    """Stage `golden`: `golden/` below `out`, the first `counts[n]` fixtures of source n; no policy yet.

    The value after each step and the response are those of the path on which every step runs on the host. Where steps
    are fused with the model, it comes as `whole` (pipeline) and `unfused` (reference) beside what is served.
    """
    served, reference = Pipeline.load(inputs["pipeline"]), inputs["reference"]
    whole = Pipeline.load(inputs["whole"]) if "whole" in inputs else served
    index = json.loads((reference / "index.json").read_text())
    chosen = _chosen(index["fixtures"], request["counts"])
    before = reference_cases(inputs.get("unfused", reference), whole.fields)
    statistics = Statistics(served.declared["inputs"])
    private = {fixture["id"] for fixture in index["fixtures"] if request["private"][fixture["source"]]}
    pairs = zip(reference_cases(reference, served.fields), before, strict=True)
    items = (
        _item(served, whole, reference, case, unfused, chosen[case.id]["request"] | _label(case))
        for case, unfused in pairs
        if case.kind == "fixture" and case.id in chosen
    )
    write_golden(out / "golden", items)
    told = (case for case in reference_cases(reference, served.fields) if case.kind == "fixture" and case.id not in private)
    statistics.gather(told)
    statistics.write(out / "golden")
    return {"value": {"vectors": len(chosen)}}


def _chosen(fixtures: Sequence[Mapping[str, Any]], counts: Sequence[int]) -> dict[str, Mapping[str, Any]]:
    left = list(counts)
    chosen = {}
    for fixture in fixtures:
        if left[fixture["source"]] > 0:
            left[fixture["source"]] -= 1
            chosen[fixture["id"]] = fixture
    return chosen


def _item(
    served: Pipeline, whole: Pipeline, reference: Path, case: Expected, unfused: Expected, raw: Mapping[str, Any]
) -> Golden:
    trace: list[tuple[str, str, Any]] = []
    assert case.request is not None
    assert unfused.request is not None
    try:
        door = served.before(case.request)
        whole.before(unfused.request, trace)
        response = whole.after(unfused.outputs, trace)
    except (RequestError, BundleError) as error:
        raise GateError.of(
            "E0704",
            f"the pipeline can't answer fixture {case.id} from PyTorch's own outputs: {error}",
            hint="look at postprocess and response",
        ) from error
    return Golden(
        id=case.id,
        request=raw,
        outputs=case.outputs,
        response=response,
        door=door,
        trace=trace,
        files={name: (reference / name).read_bytes() for name in _files(raw)},
    )


def _label(case: Expected) -> dict[str, Any]:
    """A vector's label travels as a fixture's does, so that quality can be measured with the bundle alone."""
    return {} if case.expected is None else {LABEL: case.expected}


def _files(raw: Mapping[str, Any]) -> list[str]:
    """The files that a request in JSON form names."""
    fields = (value for value in raw.values() if isinstance(value, Mapping))
    return [str(value[key]) for value in fields for key in ("file", "npy") if key in value]
