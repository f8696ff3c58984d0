"""The checks that a well-formed spec must pass: one line each."""

from __future__ import annotations

from collections.abc import Iterator

from dspec.spec import checks_dims, checks_files, checks_limits, checks_places, checks_quality, checks_targets
from dspec.spec.context import Check, Context
from dspec.spec.errors import Diagnostic

SHAPES = ("model.inputs.*.shape", "model.outputs.*.shape")

CHECKS = (
    Check(("model.dims/",), checks_dims.undeclared_in_inputs),
    Check(("model.dims/",), checks_dims.undeclared_in_outputs),
    Check((*SHAPES, "request.*.shape", "model.dims/"), checks_dims.unused_dims),
    Check((), checks_dims.dim_bounds),
    Check((), checks_dims.fixed_sizes),
    Check((), checks_dims.ranges),
    Check((), checks_dims.request_sizes),
    Check(("model.inputs.*.shape",), checks_dims.missing_max),
    Check((), checks_targets.known_runtimes),
    Check((), checks_targets.options),
    Check((), checks_targets.hardware),
    Check((), checks_targets.places),
    Check(("preprocess", "postprocess"), checks_places.order),
    Check(("model", "request", "response"), checks_places.enters),
    Check(("model", "request", "response"), checks_places.crosses),
    Check(("model", "request", "response", "tolerance", "quality"), checks_places.leaves),
    Check(("model.inputs/", "model.outputs/"), checks_limits.tolerance_names),
    Check(("model.outputs.*.dtype",), checks_limits.tolerance_dtypes),
    Check(("tolerance",), checks_limits.empty_policies),
    Check(("load",), checks_limits.load_length),
    Check(("load",), checks_limits.load_shows_percentiles),
    Check(("waivers",), checks_limits.waivers),
    Check(("quality",), checks_quality.quality),
    Check(("quality",), checks_quality.repeated),
    Check(("quality", "fixtures", "request"), checks_quality.labels),
    Check(("quality", "model.outputs/", "response", "model.dims/"), checks_quality.subjects),
    Check(("request.*.type",), checks_limits.request_fields),
    Check((), checks_limits.requirements),
    Check((), checks_limits.finite),
    Check(("fixtures",), checks_files.fixtures),
    Check(("model.factory",), checks_files.factory),
    Check((), checks_files.model_files),
    Check((), checks_files.sources),
    Check(("model.weights",), checks_files.weights),
    Check((), checks_files.training),
    Check(("model.inputs/", "model.outputs/", "response"), checks_files.training_tensors),
    Check((), checks_files.steps),
)


def run(context: Context) -> Iterator[Diagnostic]:
    """Every finding of every check whose sections are sound."""
    for check in CHECKS:
        if context.draft.sound(*check.reads):
            yield from check.run(context)
