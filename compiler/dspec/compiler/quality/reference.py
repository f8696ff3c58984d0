"""The stage that answers every labelled fixture from PyTorch's own outputs, and looks whether labels fit them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dspec.compiler.measure.cases import Expected, reference_cases
from dspec.compiler.quality.labelled import Asked, Labelled, chosen, write_answers
from dspec.compiler.quality.metrics import UnfitError
from dspec.compiler.stage import Report
from dspec.spec.errors import GateError, SpecError
from dspec.targets.shipped.errors import BundleError, RequestError
from dspec.targets.shipped.pipeline import Pipeline

HINT = "correct the labels (`expected`), or what `of` names"


def answer_labelled(request: Any, places: Any, inputs: Mapping[str, Path], out: Path, report: Report) -> dict[str, Any]:
    """Stage `quality`: the fields that `request["asked"]` names, by fixture, in `out`/answers.json.

    Raises SpecError E0348 where labels are missing or don't fit, GateError E0704 where a step after the model fails.
    """
    asked = Asked.read(request["asked"])
    report("quality: PyTorch's answers to the labelled fixtures")
    pipeline = Pipeline.load(inputs["pipeline"])
    kept = Labelled()
    for case in reference_cases(inputs["reference"], pipeline.fields):
        if case.kind == "fixture":
            kept.note(case)
            if case.expected is not None:
                kept.answers[case.id] = _answers(pipeline, case, {one.of for one in asked})
    _check_labels(asked, kept)
    for number, one in enumerate(asked):
        _check(number, one, kept)
    write_answers(out, kept.answers)
    return {"value": {"labelled": len(kept.answers)}}


def _answers(pipeline: Pipeline, case: Expected, names: set[str]) -> dict[str, Any]:
    try:
        return chosen(pipeline.after(case.outputs), case.outputs, names, pipeline.declared)
    except (RequestError, BundleError) as error:
        raise GateError.of(
            "E0704",
            f"the pipeline can't answer fixture {case.id} from PyTorch's own outputs: {error}",
            hint="look at postprocess and response",
        ) from error


def _check_labels(asked: tuple[Asked, ...], kept: Labelled) -> None:
    """A label that stands alone is the label of one field."""
    fields = sorted({one.of for one in asked})
    bare = [name for name, label in kept.expected.items() if label is not None and not isinstance(label, Mapping)]
    if len(fields) > 1 and bare:
        raise SpecError.of(
            "E0348",
            f"{bare[0]}: `expected` is one label, and quality looks at {', '.join(fields)}",
            expected=f'an object such as {{"{fields[0]}": …, "{fields[1]}": …}}',
            key="quality",
            hint="name the field of each label",
        )
    for number, one in enumerate(asked):
        if not kept.ids(one.of):
            example = ", ".join(list(kept.expected)[:3])
            raise SpecError.of(
                "E0348",
                f"{one.words}: none of {len(kept.expected)} fixtures has a label for it ({example} …)",
                expected=f'`"expected": <label>` or `"expected": {{"{one.of}": <label>}}`',
                key=f"quality.{number}",
                hint="label the fixtures, or remove this entry",
            )


def _check(number: int, asked: Asked, kept: Labelled) -> None:
    try:
        kept.result(asked)
    except UnfitError as error:
        where = "" if error.at is None else f"{kept.ids(asked.of)[error.at]}: "
        message = f"{asked.words}: {where}{error.words} (PyTorch's own answer)"
        raise SpecError.of("E0348", message, key=f"quality.{number}", hint=HINT) from None
