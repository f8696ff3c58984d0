"""PyTorch's own trace of a request: the spec's pipeline around the captured program, in a child."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dspec.compiler import stages
from dspec.compiler.placed import placed
from dspec.compiler.served import pipeline_of
from dspec.compiler.stage import Report, Stage, run_stage
from dspec.compiler.store import Store, Tree, locked, part
from dspec.compiler.trace_diff import read
from dspec.spec.boundary import boundary, owing
from dspec.spec.errors import DspecError, SpecError
from dspec.spec.load import Loaded
from dspec.spec.models import Spec
from dspec.spec.placement import to_the_door
from dspec.targets import catalogue

TRACE = "trace.npz"


def reference_trace(loaded: Loaded, request: Mapping[str, Any] | None, store: Store, report: Report) -> Any:
    """The `Traced` of a request in JSON form; captures the model where the store does not hold it.

    A request that crossed from a caller, who did some steps, is followed from there on, to what its bundle answers.
    Raises SpecError E0719 where the request is none of this spec's, and what a capture raises.
    """
    if request is None:
        hint = "make the first trace with `dspec run --trace`: a golden vector's trace lacks the request"
        raise SpecError.of("E0719", "the first trace does not hold its request", hint=hint)
    with locked(store):
        whole = pipeline_of(_from_where(loaded.spec, request), loaded.folder, store)
        try:
            capture = stages.capture_stage(loaded, pipeline_of(to_the_door(loaded.spec), loaded.folder, store))
            program = part(run_stage(store, capture, report).tree, "program")
        except DspecError as error:
            raise placed(error, loaded) from error
        made = run_stage(store, _stage(request, program, whole), report)
        (entry,) = made.tree
        return read(store.blob(entry.sha256))


def _from_where(spec: Spec, request: Mapping[str, Any]) -> Spec:
    """The spec from a raw request on; or without the caller's steps, where the request is what a bundle is asked."""
    crossing = boundary(spec, catalogue())
    if not owing(spec) or request.keys() != crossing.request.keys():
        return spec
    steps = {
        section: tuple(step for step in getattr(spec, section) if step.place != "contract")
        for section in ("preprocess", "postprocess")
    }
    return spec.model_copy(update={"request": crossing.request, "response": crossing.response, **steps})


def _stage(request: Mapping[str, Any], program: Tree, pipeline: Tree) -> Stage:
    return Stage(
        name="trace",
        function="dspec.compiler.traced:trace_stage",
        request={"request": dict(request)},
        inputs={"program": program, "pipeline": pipeline},
    )


def trace_stage(request: Any, places: Any, inputs: Mapping[str, Path], out: Path, report: Report) -> dict[str, Any]:
    """Stage `trace`: one trace file in `out`."""
    from dspec.compiler.lower import read_program
    from dspec.compiler.skew.program import Answering
    from dspec.targets.shipped.errors import BundleError, RequestError
    from dspec.targets.shipped.pipeline import Pipeline, Trace
    from dspec.targets.shipped.request import read_request
    from dspec.targets.shipped.trace import values_before, write_trace

    program = read_program(inputs["program"])
    pipeline = Pipeline.load(inputs["pipeline"])
    trace: Trace = []
    try:
        asked = read_request(pipeline.fields, request["request"], None)
        door = pipeline.before(asked, trace)
        outputs = Answering(program.path, program.interface).answers(door)
        response = pipeline.after(outputs, trace)
    except (RequestError, BundleError) as error:
        hint = "compare traces of a bundle that this spec built"
        raise SpecError.of("E0719", f"the traced request does not fit the spec: {error}", hint=hint) from error
    write_trace(out / TRACE, asked, trace, door, outputs, response, values_before(pipeline.declared))
    return {"value": {}}
