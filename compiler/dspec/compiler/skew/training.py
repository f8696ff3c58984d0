"""Calls the training-time code: a function that returns the whole, or a generator that yields as it goes."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from dspec.compiler.capture.usercode import UserCode
from dspec.compiler.skew.closeness import kept
from dspec.spec.errors import SpecError


@dataclass(kw_only=True, slots=True)
class Given:
    """What the training-time code gave. `steps`: step id → a value per name that it writes; `whole`: target → value."""

    steps: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    whole: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingCode:
    """`training.preprocess` or `training.postprocess`.

    Attributes:
        key: its place in the spec; `callee`: what stands there.
        writes: step id → the names that the shipped step writes, in pipeline order.
        targets: model input (or response field) → the value that becomes it.
        takes, gives: in words, for errors.
    """

    function: Callable[[dict[str, Any]], Any]
    callee: str
    key: str
    code: UserCode
    writes: Mapping[str, tuple[str, ...]]
    targets: Mapping[str, str]
    gives: str

    def give(self, value: Mapping[str, Any], where: str) -> Given:
        """Call it on a request (or on outputs), which it may change.

        Raises SpecError with the user's line when it fails, and in words when it gives something else than is asked.
        """
        doing = f"{self.callee} on {where}"
        given = Given()
        with self.code.guard(doing, kind=SpecError, code="E0454"):
            returned = self.function(copy.deepcopy(dict(value)))
            generator = inspect.isgenerator(returned)
            if generator:
                returned = self._drained(returned, given, doing)
        self._check_returned(returned, doing, must=not generator)
        given.whole = self._from_steps(given) | {name: kept(found) for name, found in (returned or {}).items()}
        if not given.whole and not given.steps:
            raise self._refusal(f"{doing}: it yields nothing and returns nothing")
        return given

    def _drained(self, generator: Generator[Any, None, Any], given: Given, doing: str) -> Any:
        while True:
            try:
                found = next(generator)
            except StopIteration as stop:
                return stop.value
            self._take(found, given, doing)

    def _take(self, found: Any, given: Given, doing: str) -> None:
        if not isinstance(found, tuple) or len(found) != 2 or not isinstance(found[0], str):
            raise self._refusal(f"{doing}: it yields {_kind(found)}, not a step id and a value")
        step, value = found
        if step not in self.writes:
            near = get_close_matches(step, self.writes, n=1)
            message = f"{doing}: it yields the step {step!r}, which is no step of {self.key.partition('.')[2]}"
            raise SpecError.of(
                "E0459",
                message,
                key=self.key,
                expected=f"one of: {', '.join(self.writes) or 'none is declared'}",
                hint=f"did you mean {near[0]}?" if near else "yield the ids that the spec gives its steps",
            )
        if step in given.steps:
            raise self._refusal(f"{doing}: it yields the step {step!r} twice")
        given.steps[step] = self._values(step, value, doing)

    def _values(self, step: str, value: Any, doing: str) -> tuple[Any, ...]:
        names = self.writes[step]
        if len(names) == 1:
            return (kept(value),)
        if isinstance(value, Mapping) and set(value) <= set(names):
            return tuple(kept(value.get(name)) for name in names)
        if not isinstance(value, list | tuple) or len(value) != len(names):
            count = f"{len(value)} values" if isinstance(value, list | tuple) else f"one {type(value).__name__}"
            raise self._refusal(f"{doing}: it yields {count} for the step {step}, which writes {', '.join(names)}")
        return tuple(kept(inner) for inner in value)

    def _from_steps(self, given: Given) -> dict[str, Any]:
        """Targets that the last step to write them was yielded for."""
        last = {name: (step, at) for step, names in self.writes.items() for at, name in enumerate(names)}
        found = {}
        for target, source in self.targets.items():
            step, at = last.get(source, ("", 0))
            if step in given.steps and given.steps[step][at] is not None:
                found[target] = given.steps[step][at]
        return found

    def _check_returned(self, returned: Any, doing: str, *, must: bool) -> None:
        if returned is None and not must:
            return
        if not isinstance(returned, Mapping):
            raise self._refusal(f"{doing}: returned {_kind(returned)}", "return a dict")
        unknown = [str(name) for name in returned if name not in self.targets]
        if unknown or (must and not returned):
            what = self.gives.partition(",")[0]
            raise self._refusal(f"{doing}: returned {', '.join(unknown) or 'nothing'}, which is no {what}")

    def _refusal(self, message: str, hint: str = "name them so") -> SpecError:
        what, _, form = self.gives.partition(",")
        return SpecError.of(
            "E0454",
            message,
            key=self.key,
            expected=f"a dict with the {what}s {', '.join(self.targets)}{form and ','}{form}; or a generator that "
            f"yields (step id, value) for steps of {', '.join(self.writes) or 'the pipeline'} and returns the rest",
            hint=hint,
        )


def _kind(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__
