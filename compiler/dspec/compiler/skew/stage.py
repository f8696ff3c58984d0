"""The skew stage as the stage runner calls it: JSON in, a Skew record out. Its table of contents is `skew_stage`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dspec.compiler.capture.closure import Closure, closure
from dspec.compiler.capture.fixtures import open_pipeline
from dspec.compiler.capture.usercode import UserCode
from dspec.compiler.measure.cases import Expected, reference_cases
from dspec.compiler.skew.causes import Differing, Search
from dspec.compiler.skew.padding import PaddingTest, padded_step
from dspec.compiler.skew.program import Answering
from dspec.compiler.skew.replay import Replay
from dspec.compiler.skew.sides import After, Before, Looked, Seen, enter, look
from dspec.compiler.skew.training import TrainingCode
from dspec.compiler.stage import Report
from dspec.spec.models import Spec
from dspec.spec.records import Case, Interface, OutputError, Skew
from dspec.targets.shipped.compare import compare
from dspec.targets.shipped.errors import RequestError
from dspec.targets.shipped.pipeline import Pipeline

Side = Literal["preprocess", "postprocess"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """What both sides are held against."""

    spec: Spec
    code: UserCode
    folder: Path
    pipeline: Pipeline
    reference: Path
    answering: Answering
    report: Report

    def cases(self) -> Iterator[Expected]:
        return reference_cases(self.reference, self.pipeline.fields)

    def replay(self, side: Side) -> Replay:
        return Replay.of(self.pipeline.declared["before" if side == "preprocess" else "after"], self.folder)


def skew_stage(request: Any, places: Any, inputs: Mapping[str, Path], out: Path, report: Report) -> dict[str, Any]:
    """Stage `skew`. Value: a Skew record."""
    subject = _subject(request, places, inputs, report)
    nothing = Closure(read=(), distributions=())
    with subject.code.importable():
        before, after = _side(subject, "preprocess"), _side(subject, "postprocess")
        loaded = closure(subject.spec, subject.code) if before or after else nothing
    mask, padding = _padding(subject)
    skew = Skew(
        cases=tuple(before.cases) if before else (),
        answers=tuple(_answers(subject, before.far or before.near)) if before else (),
        responses=tuple(after.cases) if after else (),
        causes=tuple(cause for seen in (before, after) if seen for cause in seen.causes),
        padding=padding,
        mask=mask,
    )
    return {
        "value": skew.model_dump(mode="json"),
        "read": loaded.read,
        "distributions": loaded.distributions,
    }


def _subject(request: Any, places: Any, inputs: Mapping[str, Path], report: Report) -> Subject:
    interface = json.loads((inputs["program"] / "program.json").read_text())["interface"]
    declared = open_pipeline(inputs["pipeline"]).declared
    response = declared["response"] or {name: name for name in interface["outputs"]}
    return Subject(
        spec=Spec.model_validate_json(json.dumps(request["spec"])),
        code=UserCode(Path(places["folder"]), places["spec_file"]),
        folder=inputs["pipeline"],
        pipeline=Pipeline({**declared, **interface, "response": response}, inputs["pipeline"]),
        reference=inputs["reference"],
        answering=Answering(inputs["program"] / "model.pt2", Interface.model_validate_json(json.dumps(interface))),
        report=report,
    )


def _side(subject: Subject, side: Side) -> Seen | None:
    callee: str | None = getattr(subject.spec.training, side)
    if callee is None:
        return None
    subject.report(f"skew: {callee} on every fixture")
    targets, what = _targets(subject, side)
    steps = subject.spec.preprocess if side == "preprocess" else subject.spec.postprocess
    training = TrainingCode(
        function=subject.code.load(callee, f"training.{side}"),
        callee=callee,
        key=f"training.{side}",
        code=subject.code,
        writes={step.id: step.outputs for step in steps},
        targets=targets,
        gives=what,
    )
    search = Search(side=side, replay=subject.replay(side), targets=targets)
    one: Callable[[Expected], Looked] = (Before if side == "preprocess" else After)(subject.pipeline, training)
    return look(one, subject.cases(), search)


def _targets(subject: Subject, side: Side) -> tuple[dict[str, str], str]:
    """What the training code gives → the pipeline's value that it is; and what that is called."""
    if side == "preprocess":
        return {name: name for name in subject.pipeline.door.inputs}, "model input, arrays of one item"
    return dict(subject.pipeline.declared["response"]), "response field"


def _answers(subject: Subject, differing: list[Differing]) -> Iterator[Case]:
    """PyTorch's answers to the shipped tensors against those to the training-time ones."""
    door = subject.pipeline.door
    for one in differing:
        try:
            theirs = {name: enter(door, name, one.theirs[name]) for name in door.inputs}
            ours = subject.pipeline.before(one.start)
            door.check(theirs)
        except (RequestError, KeyError):
            continue
        try:
            wanted = subject.answering.answers(theirs)
        except Exception as error:  # whatever the user's model makes of tensors it was not trained on
            words = f"PyTorch fails on the training-time tensors: {next(iter(str(error).splitlines()), type(error).__name__)}"
            failed = OutputError(broken=words)
            yield Case(id=one.id, kind="fixture", outputs=dict.fromkeys(subject.answering.interface.outputs, failed))
            continue
        found = subject.answering.answers(ours)
        errors = {
            name: OutputError.model_validate(compare(array, found[name]), strict=False)
            for name, array in wanted.items()
        }
        yield Case(id=one.id, kind="fixture", outputs=errors)


def _padding(subject: Subject) -> tuple[str, tuple[Case, ...]]:
    step = padded_step(list(subject.pipeline.declared["before"]), subject.answering.interface)
    if step is None:
        return "", ()
    subject.report("skew: texts alone and padded")
    test = PaddingTest(
        pipeline=subject.pipeline, replay=subject.replay("preprocess"), step=step, answering=subject.answering
    )
    with contextlib.closing(subject.cases()) as cases:  # type: ignore[type-var]
        return step.mask, tuple(test.cases(cases))
