"""Stage `refer`: Reference → Reference of what is served, the fused graph between the caller's steps, by the path that is not fused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dspec.compiler.caller import Caller
from dspec.compiler.capture.module import quiet_machine
from dspec.compiler.capture.reference import POOL
from dspec.compiler.capture.shapes import Array, Arrays, at_sizes, sizes_of
from dspec.compiler.capture.shards import ReferenceWriter
from dspec.compiler.capture.spread import Varying
from dspec.compiler.captured import described
from dspec.compiler.fuse.crossing import add_fixtures
from dspec.compiler.fuse.unfused import Unfused
from dspec.compiler.lower import read_program
from dspec.compiler.measure.cases import Expected, reference_cases
from dspec.compiler.pipeline import lay_contract, lay_pipeline
from dspec.compiler.stage import Report
from dspec.spec.boundary import served
from dspec.spec.models import Spec, Tensor
from dspec.spec.placement import fuses
from dspec.spec.records import Spread
from dspec.targets import catalogue
from dspec.targets.shipped.pipeline import Pipeline
from dspec.targets.shipped.request import read_request

_POOL_BYTES = 256 * 2**20
_OWN = ("cases", "fixtures", "spread")  # of the index; the rest is as capture left it
NO_NOISE = "it is of a step in the graph"


def fuse_reference(request: Any, places: Any, inputs: Mapping[str, Path], out: Path, report: Report) -> dict[str, Any]:
    """Stage `refer`: `reference/` and `pipeline/` below `out`. Value: as capture's.

    Answers are PyTorch's own, as capture took them, through the shipped steps; at sizes to which the steps bring other
    tensors than capture had, the captured program answers, in PyTorch.
    """
    spec = Spec.model_validate_json(json.dumps(request["spec"]))
    program, fused = read_program(inputs["program"]), read_program(inputs["fused"])
    contract = lay_contract(spec, program.interface, inputs["whole"], out / "pipeline")
    lay_pipeline(served(spec, catalogue()), fused.interface, inputs["served"], out / "pipeline", contract)
    path = Unfused(spec, Pipeline.load(inputs["whole"]), inputs["whole"], program, fused.interface)
    report("answers of the path that is not fused" if fuses(spec) else "what the caller's steps give")
    with quiet_machine():
        _write(
            path, Pipeline.load(out / "pipeline"), Caller.of(out / "pipeline"), inputs["reference"], out / "reference"
        )
    return {"value": described(out / "reference")}


def _write(path: Unfused, pipeline: Pipeline, caller: Caller, source: Path, out: Path) -> None:
    index = json.loads((source / "index.json").read_text())
    writer = ReferenceWriter(out)
    add_fixtures(writer, pipeline.fields, caller, source, index["fixtures"])
    varying = {name: Varying() for name in path.fused.outputs}
    requests = _Requests(pipeline.fields, writer.fixtures, out)
    for case, inputs, outputs in _cases(path, pipeline, source, index["cases"], requests):
        writer.add(case["kind"], case["id"], case["sizes"], inputs, outputs)
        writer.cases[-1]["fixture"] = case["fixture"]
        if case["kind"] == "fixture":
            for name, value in outputs.items():
                varying[name].add(value)
    spread = {name: _spread(found, index["spread"].get(name)) for name, found in varying.items()}
    writer.finish({"spread": spread, **{key: value for key, value in index.items() if key not in _OWN}})


def _spread(found: Varying, before: Mapping[str, Any] | None) -> dict[str, Any]:
    """An output that leaves as it did keeps its spread, the noise floor with it."""
    return (
        Spread.model_validate(before).model_dump(mode="json")
        if before
        else found.spread(None, NO_NOISE).model_dump(mode="json")
    )


class _Requests:
    """Fixtures in Python form, as the bundle will read them."""

    def __init__(self, fields: Mapping[str, Any], fixtures: Sequence[Mapping[str, Any]], folder: Path) -> None:
        self.fields, self.fixtures, self.folder = fields, fixtures, folder

    def of(self, number: int) -> dict[str, Any]:
        return read_request(self.fields, self.fixtures[number]["request"], self.folder)


def _cases(
    path: Unfused, pipeline: Pipeline, source: Path, listed: Sequence[Mapping[str, Any]], requests: _Requests
) -> Iterator[tuple[dict[str, Any], Arrays, Arrays]]:
    """Every case of the reference at the fused door: with its sizes there, what enters and what leaves."""
    tensors = {name: Tensor.model_validate(port.model_dump()) for name, port in path.fused.inputs.items()}
    pool: list[Arrays] = []
    for case, known in zip(listed, reference_cases(source, path.whole.fields), strict=True):
        if known.request is None:
            same = path.program.interface == path.fused
            inputs, outputs = (
                (known.inputs, known.outputs) if same else _point(path, known, tensors, pool, case["sizes"])
            )
            yield dict(case), inputs, outputs
            continue
        inputs = pipeline.before(requests.of(case["fixture"]))
        if len(pool) < POOL and sum(array.nbytes for arrays in pool for array in arrays.values()) < _POOL_BYTES:
            pool.append(inputs)
        yield dict(case) | {"sizes": sizes_of(inputs, tensors)}, inputs, path.leaving(known.outputs)


def _point(
    path: Unfused, known: Expected, tensors: Mapping[str, Tensor], pool: Sequence[Arrays], sizes: Mapping[str, int]
) -> tuple[Arrays, Arrays]:
    """Real tensors at declared sizes. No items at all are computed as one and left out."""
    batch = path.fused.batch
    count = 1 if batch is None else sizes.get(batch, 1)
    wanted = {name: max(size, 1) if name == batch else size for name, size in sizes.items()}
    entering = at_sizes(pool, tensors, wanted, batch)
    given = path.at_model(entering)
    outputs = path.leaving(known.outputs if _same(given, known.inputs) else path.answers(given))
    return _first(entering, path.fused.inputs, batch, count), _first(outputs, path.fused.outputs, batch, count)


def _same(some: Arrays, others: Arrays) -> bool:
    return all(np.array_equal(array, others[name], equal_nan=array.dtype.kind == "f") for name, array in some.items())


def _first(arrays: Arrays, ports: Mapping[str, Any], batch: str | None, count: int) -> dict[str, Array]:
    return {
        name: array.take(range(count), ports[name].shape.index(batch)) if batch in ports[name].shape else array
        for name, array in arrays.items()
    }
