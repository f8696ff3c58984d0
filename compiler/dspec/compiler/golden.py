"""The golden stage: the fixtures that travel, with the value after every step and PyTorch's answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dspec.compiler.buckets import Statistics
from dspec.compiler.measure.cases import Expected, reference_cases
from dspec.compiler.stage import Report
from dspec.spec.errors import GateError
from dspec.targets.shipped.contract import Contract
from dspec.targets.shipped.errors import BundleError, RequestError
from dspec.targets.shipped.golden import Golden, write_golden
from dspec.targets.shipped.pipeline import Pipeline, Trace
from dspec.targets.shipped.request import LABEL
from dspec.targets.shipped.trace import values_before

CONTRACT = "contract"  # of pipeline.json: what the caller does


def write_golden_vectors(
    request: Any, places: Any, inputs: Mapping[str, Path], out: Path, report: Report
) -> dict[str, Any]:
    """Stage `golden`: `golden/` below `out`, the first `counts[n]` fixtures of source n; no policy yet.

    The value after each step and the response are those of the path on which every step runs on the host. Where steps
    are fused with the model, or the caller does some, it comes as `whole` (pipeline) and `unfused` (reference) beside
    what is served.
    """
    served = Side.of(inputs["pipeline"], inputs["reference"])
    whole = Side.of(inputs["whole"], inputs["unfused"]) if "whole" in inputs else served
    chosen = _chosen(served.fixtures.values(), request["counts"])
    statistics = Statistics(served.pipeline.declared["inputs"], served.pipeline.declared["batch"])
    private = {name for name, fixture in served.fixtures.items() if request["private"][fixture["source"]]}
    items = (
        _item(served, whole, case, unfused)
        for case, unfused in zip(served.cases(), whole.cases(), strict=True)
        if case.kind == "fixture" and case.id in chosen
    )
    write_golden(out / "golden", items)
    told = (case for case in served.cases() if case.kind == "fixture" and case.id not in private)
    statistics.gather(told)
    statistics.write(out / "golden")
    return {"value": {"vectors": len(chosen)}}


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """A pipeline and the reference that it is fed with. `fixtures`: entries of the reference's index by id."""

    pipeline: Pipeline
    reference: Path
    fixtures: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, pipeline: Path, reference: Path) -> Side:
        fixtures = json.loads((reference / "index.json").read_text())["fixtures"]
        known = {fixture["id"]: fixture for fixture in fixtures}
        return cls(pipeline=Pipeline.load(pipeline), reference=reference, fixtures=known)

    def cases(self) -> Iterator[Expected]:
        return reference_cases(self.reference, self.pipeline.fields)

    def request(self, case: Expected) -> dict[str, Any]:
        """In JSON form, with its label."""
        return {**self.fixtures[case.id]["request"], **_label(case)}

    def files(self, case: Expected) -> dict[str, bytes]:
        return {name: (self.reference / name).read_bytes() for name in _files(self.fixtures[case.id]["request"])}


def _chosen(fixtures: Iterable[Mapping[str, Any]], counts: Sequence[int]) -> set[str]:
    left = list(counts)
    chosen = set()
    for fixture in fixtures:
        if left[fixture["source"]] > 0:
            left[fixture["source"]] -= 1
            chosen.add(fixture["id"])
    return chosen


def _item(served: Side, whole: Side, case: Expected, unfused: Expected) -> Golden:
    trace: list[tuple[str, str, Any]] = []
    assert case.request is not None
    assert unfused.request is not None
    try:
        door = served.pipeline.before(case.request)
        whole.pipeline.before(unfused.request, trace)
        response = whole.pipeline.after(unfused.outputs, trace)
        own = served.pipeline.after(case.outputs) if CONTRACT in served.pipeline.declared else response
    except (RequestError, BundleError) as error:
        raise GateError.of(
            "E0704",
            f"the pipeline can't answer fixture {case.id} from PyTorch's own outputs: {error}",
            hint="look at postprocess and response",
        ) from error
    return Golden(
        id=case.id,
        request=served.request(case),
        outputs=case.outputs,
        response=own,
        door=door,
        trace=trace,
        files=served.files(case),
        contract=_contract(served, whole, unfused, trace, response),
    )


def _contract(
    served: Side, whole: Side, unfused: Expected, trace: Trace, response: Mapping[str, Any]
) -> Contract | None:
    """The caller's part of a fixture; None where the bundle does it all."""
    owed = served.pipeline.declared.get(CONTRACT)
    if owed is None:
        return None
    before = values_before(whole.pipeline.declared)
    steps = [{step["id"] for step in owed[side]} for side in ("before", "after")]
    values = {
        f"{number:02d}.{step}.{name}": value
        for number, (step, name, value) in enumerate(trace)
        if step in steps[number >= before]
    }
    return Contract(request=whole.request(unfused), response=response, values=values, files=whole.files(unfused))


def _label(case: Expected) -> dict[str, Any]:
    """A vector's label travels as a fixture's does, so that quality can be measured with the bundle alone."""
    return {} if case.expected is None else {LABEL: case.expected}


def _files(raw: Mapping[str, Any]) -> list[str]:
    """The files that a request in JSON form names."""
    fields = (value for value in raw.values() if isinstance(value, Mapping))
    return [str(value[key]) for value in fields for key in ("file", "npy") if key in value]
