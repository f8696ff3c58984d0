"""Both sides of the model, fixture by fixture: what the training-time code gives, held against the shipped steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dspec.compiler.measure.cases import Expected
from dspec.compiler.skew.causes import TRIED, Differing, Search
from dspec.compiler.skew.closeness import Parted, as_array, parted
from dspec.compiler.skew.training import Given, TrainingCode
from dspec.spec.errors import GateError
from dspec.spec.records import Cause, OutputError, Parting, SkewCase
from dspec.targets.shipped.compare import compare
from dspec.targets.shipped.door import Door
from dspec.targets.shipped.errors import BundleError, RequestError
from dspec.targets.shipped.pipeline import Pipeline
from dspec.targets.shipped.request import check_request

TRACED = 32  # fixtures whose steps are kept in the record
FLOOR = 1e-6  # below this, absolute and relative, a difference is rounding and has no cause to look for
Trace = list[tuple[str, str, Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Looked:
    """One fixture: the record, and what a search for causes starts from."""

    case: SkewCase
    found: Differing
    same: bool
    far: bool


@dataclass(kw_only=True, slots=True)
class Seen:
    """All of them. `far`: some that differ by more than rounding; `near`: some that differ at all."""

    cases: list[SkewCase] = field(default_factory=list)
    far: list[Differing] = field(default_factory=list)
    near: list[Differing] = field(default_factory=list)
    causes: tuple[Cause, ...] = ()


def look(each: Callable[[Expected], Looked], cases: Iterable[Expected], search: Search) -> Seen:
    """Every fixture of the reference, and the likely causes where some differ."""
    seen = Seen()
    traced = 0
    for expected in cases:
        if expected.kind != "fixture":
            continue
        one = each(expected)
        differs = one.far or any(_far(part.error, part.exact) for part in one.case.steps)
        keep = differs and traced < TRACED
        traced += keep
        seen.cases.append(one.case if keep else one.case.model_copy(update={"steps": ()}))
        if one.far and len(seen.far) < TRIED:
            seen.far.append(one.found)
        if not one.same and len(seen.near) < TRIED:
            seen.near.append(one.found)
    seen.causes = search.causes(seen.far) if seen.far else ()
    return seen


@dataclass(frozen=True, slots=True)
class Before:
    """`training.preprocess` on one fixture."""

    pipeline: Pipeline
    training: TrainingCode

    def __call__(self, expected: Expected) -> Looked:
        assert expected.request is not None
        given = self.training.give(expected.request, expected.id)
        trace: Trace = []
        if given.steps:
            self.pipeline.before(expected.request, trace)
        outputs = {name: self._at_door(name, given.whole.get(name), array) for name, array in expected.inputs.items()}
        exact = tuple(name for name, array in expected.inputs.items() if array.dtype.kind != "f")
        case = SkewCase(
            id=expected.id, outputs=outputs, exact=exact, steps=partings(given, trace, self.training.writes)
        )
        start = check_request(self.pipeline.fields, expected.request)
        return _looked(case, Differing(id=expected.id, start=start, theirs=given.whole))

    def _at_door(self, name: str, theirs: Any, ours: Any) -> OutputError:
        if theirs is None:
            return OutputError(broken="the training code gives no such input")
        try:
            reference = enter(self.pipeline.door, name, theirs)
        except RequestError as error:
            return OutputError(broken=f"the training code gives {error.found}; the model takes {error.expected}")
        if reference.shape != ours.shape:
            words = f"shape {list(ours.shape)} where the training code gives {list(reference.shape)}"
            return OutputError(broken=words)
        return OutputError.model_validate(compare(reference, ours), strict=False)


def enter(door: Door, name: str, value: Any) -> Any:
    """One value of one item as a tensor at the model's door; RequestError where it does not fit."""
    array = as_array(value)
    given = np.asarray(value) if array is None else array
    return Door({name: door.inputs[name]}, door.dims, door.batch).enter({name: given}, {name: name})[name]


@dataclass(frozen=True, slots=True)
class After:
    """`training.postprocess` on PyTorch's own outputs for one fixture."""

    pipeline: Pipeline
    training: TrainingCode

    def __call__(self, expected: Expected) -> Looked:
        items = self.pipeline.items(expected.outputs)
        given = self.training.give(items, expected.id)
        trace: Trace = []
        try:
            response = self.pipeline.after(expected.outputs, trace)
        except (RequestError, BundleError) as error:
            raise GateError.of(
                "E0704",
                f"the pipeline can't answer fixture {expected.id} from PyTorch's own outputs: {error}",
                hint="look at postprocess and response",
            ) from error
        parts: dict[str, Parted] = {}
        for name, ours in response.items():
            if name in given.whole:
                parts |= parted(given.whole[name], ours, name)
            else:
                parts[name] = Parted(OutputError(broken="the training code gives no such field"), exact=True)
        case = SkewCase(
            id=expected.id,
            outputs={name: part.error for name, part in parts.items()},
            exact=tuple(name for name, part in parts.items() if part.exact),
            steps=partings(given, trace, self.training.writes),
        )
        return _looked(case, Differing(id=expected.id, start=items, theirs=given.whole))


def partings(given: Given, trace: Trace, writes: Mapping[str, tuple[str, ...]]) -> tuple[Parting, ...]:
    """The values of the steps that were yielded, in pipeline order."""
    found = []
    for step, name, ours in trace:
        theirs = given.steps[step][writes[step].index(name)] if step in given.steps else None
        if theirs is not None:
            parts = parted(_samples(theirs, ours), ours, name)
            found += [Parting(step=step, value=key, exact=one.exact, error=one.error) for key, one in parts.items()]
    return tuple(found)


def _samples(theirs: Any, ours: Any) -> Any:
    """The samples alone where the training code gives them with their rate: a trace holds no rate."""
    pair = isinstance(theirs, list) and len(theirs) == 2 and np.ndim(theirs[1]) == 0
    return theirs[0] if pair and isinstance(ours, np.ndarray) and as_array(theirs[0]) is not None else theirs


def _looked(case: SkewCase, found: Differing) -> Looked:
    errors = case.outputs.items()
    same = all(not error.broken and not error.frontier for _, error in errors)
    return Looked(case=case, found=found, same=same, far=any(_far(error, name in case.exact) for name, error in errors))


def _far(error: OutputError, exact: bool) -> bool:
    floor = 0.0 if exact else FLOOR
    return bool(error.broken) or any(point.diff > floor * (1 + point.ref) for point in error.frontier)
