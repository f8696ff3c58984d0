"""Steps wired: every id, `in` and `out` filled in, and the types followed from the request to the response."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dspec.spec.catalogue import Catalogue, Value
from dspec.spec.errors import Diagnostic
from dspec.spec.fit import ANY, Held, describe
from dspec.spec.models import StepUse
from dspec.spec.nearest import did_you_mean, listed, nearest
from dspec.spec.nodes import KeyPath
from dspec.spec.sources import SourceMap
from dspec.spec.steps import CheckedStep

BOUND = "max_length"  # a parameter of this name bounds the first axis of what a step gives
MULTIPLE = "multiple_of"  # and of this name says what that size is a multiple of


@dataclass(kw_only=True)
class Wiring:
    """One pipeline while it is being wired.

    Attributes:
        held: every value by name; `in_flight`: what a step reads by default.
        goal: what the last step writes by default, if the counts match.
        open: whether names that are not known here may still exist (undeclared model outputs).
    """

    sources: SourceMap
    catalogue: Catalogue
    held: dict[str, Held]
    in_flight: tuple[str, ...]
    goal: tuple[str, ...] = ()
    open: bool = False
    read: set[str] = field(default_factory=set)
    ids: dict[str, KeyPath] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)
    uses: list[StepUse] = field(default_factory=list)

    def run(self, steps: tuple[CheckedStep, ...]) -> None:
        """Wire the steps in order; `uses` and `problems` hold the result."""
        later = [(step, _as_names(step.written.outputs) or ()) for step in steps]
        for number, step in enumerate(steps):
            self._wire(step, last=number == len(steps) - 1, later=later[number:])

    def _wire(self, step: CheckedStep, *, last: bool, later: list[tuple[CheckedStep, tuple[str, ...]]]) -> None:
        name = self._id(step)
        reads = _as_names(step.written.inputs)
        if reads is None:
            reads = self._default_reads(step, name)
        self._check_reads(step, name, reads, later)
        gives = self._flow(step, name, reads)
        writes = _as_names(step.written.outputs)
        if writes is None:
            writes = self._default_writes(step, name, gives, last)
        gives = self._matched(step, name, gives, writes)
        self._hold(step, name, writes, gives)
        self.in_flight = writes
        self._use(step, name, reads, writes)

    def _problem(self, code: str, path: KeyPath, message: str, **details: Any) -> None:
        self.problems.append(self.sources.diagnostic(code, path, message, **details))

    def _id(self, step: CheckedStep) -> str:
        wanted = step.written.id
        if wanted and wanted in self.ids:
            line = self.sources.span(self.ids[wanted]).line
            self._problem("E0309", (*step.path, "id"), f"the id `{wanted}` is taken by the step of line {line}",
                          expected="an id of its own", hint="rename one of them, or leave `id` out")  # fmt: skip
        stem = wanted or step.use or "step"
        name = next(name for name in _numbered(stem) if name not in self.ids)
        self.ids[name] = step.path
        return name

    def _default_reads(self, step: CheckedStep, name: str) -> tuple[str, ...]:
        takes = step.entry.takes if step.entry else 0
        if self.in_flight and takes in (0, len(self.in_flight)):
            return self.in_flight
        if step.entry is not None:
            found = (
                f"{listed(self.in_flight)} are in flight"
                if self.in_flight
                else "several values, or none, could be meant"
            )
            self._problem(
                "E0318", self._at(step), f"step `{name}` does not say what it reads, and {found}",
                expected=f"`in` with {takes or 'the'} name{'s' if takes != 1 else ''}",
                hint=f"add `in`: {listed(self.held)}",
            )  # fmt: skip
        return ()

    def _at(self, step: CheckedStep) -> KeyPath:
        key = "python" if step.python else "use"
        return (*step.path, key)

    def _check_reads(
        self, step: CheckedStep, name: str, reads: tuple[str, ...], later: list[tuple[CheckedStep, tuple[str, ...]]]
    ) -> None:
        self.read.update(reads)
        for value in reads:
            if value not in self.held and not self.open:
                self._unknown_read(step, name, value, later)
        takes = step.entry.takes if step.entry else 0
        if takes and reads and len(reads) != takes:
            self._problem("E0318", (*step.path, "in"), f"step `{name}` reads {_values(len(reads))}",
                          expected=f"`{step.use}` takes {takes}", hint="correct `in`")  # fmt: skip

    def _unknown_read(
        self, step: CheckedStep, name: str, value: str, later: list[tuple[CheckedStep, tuple[str, ...]]]
    ) -> None:
        writer = next((other for other, writes in later if value in writes), None)
        if writer:
            line = self.sources.span(self._at(writer)).line
            message = f"step `{name}` reads `{value}` before the step of line {line} writes it"
            hint = "move that step up"
        else:
            message = f"step `{name}` reads `{value}`, which nothing gives"
            hint = did_you_mean(value, self.held, f"read {listed(self.held)}")
            self.read.add(nearest(value, self.held))  # no second finding, that nothing reads it
        self._problem("E0310", (*step.path, "in"), message, expected=listed(self.held), hint=hint)

    def _flow(self, step: CheckedStep, name: str, reads: tuple[str, ...]) -> tuple[Value, ...] | None:
        """The types that the step gives; None where they can't be told."""
        if step.step is None or not reads:
            return None
        unknown = Held(value=self.catalogue.value(ANY, None, None), origin="")
        taken = [self.held.get(value, unknown) for value in reads]
        if step.entry and step.entry.takes and step.entry.takes != len(taken):
            return None
        try:
            return step.step.flow(*(held.value for held in taken))
        except ValueError as error:
            ends = tuple(f"`{value}` is {describe(held.value)}, from {held.origin}"
                         for value, held in zip(reads, taken, strict=True) if held.origin)  # fmt: skip
            self._problem("E0315", self._at(step), f"step `{name}` ({step.use}) does not fit what it reads: {error}",
                          expected=f"what `{step.use}` takes: {step.entry.summary if step.entry else ''}",
                          hint="put a step in between, let it read another value, or correct its parameters",
                          notes=ends)  # fmt: skip
            return None

    def _default_writes(
        self, step: CheckedStep, name: str, gives: tuple[Value, ...] | None, last: bool
    ) -> tuple[str, ...]:
        count = _count(step, gives)
        goal = tuple(value for value in self.goal if value not in self.held)
        if last and goal and count in (None, len(goal)):
            return goal
        if count in (None, 1):
            return (next(value for value in _numbered(name) if value not in self.held),)
        return tuple(f"{name}_{number}" for number in range(1, count + 1))

    def _matched(
        self, step: CheckedStep, name: str, gives: tuple[Value, ...] | None, writes: tuple[str, ...]
    ) -> tuple[Value, ...]:
        count = _count(step, gives)
        if count is not None and count != len(writes):
            self._problem("E0318", (*step.path, "out"), f"step `{name}` writes {_values(len(writes))}",
                          expected=f"`{step.use}` gives {count}", hint="correct `out`")  # fmt: skip
        if gives is None or len(gives) != len(writes):
            return (self.catalogue.value(ANY, None, None),) * len(writes)
        return gives

    def _hold(self, step: CheckedStep, name: str, writes: tuple[str, ...], gives: tuple[Value, ...]) -> None:
        bound = step.params.get(BOUND)
        for value, kind in zip(writes, gives, strict=True):
            if value in self.held:
                self._problem("E0311", (*step.path, "out"), f"`{value}` is written twice: by {self.held[value].origin} "
                              f"and by step `{name}`", expected="a name that is not taken",
                              hint="rename one of them")  # fmt: skip
            origin = f"step `{name}` ({step.use})"
            most = bound if isinstance(bound, int) else None
            multiple = getattr(step.step, MULTIPLE, None)
            self.held[value] = Held(value=kind, origin=origin, path=step.path, bound=most, multiple=multiple)

    def _use(self, step: CheckedStep, name: str, reads: tuple[str, ...], writes: tuple[str, ...]) -> None:
        if step.entry is None:
            return
        self.uses.append(StepUse.model_validate(
            {"id": name, "use": step.use, "python": step.python, "params": dict(step.params),
             "assets": dict(step.assets), "in": reads, "out": writes, "place": step.written.place}
        ))  # fmt: skip


def _values(count: int) -> str:
    return f"{count} value{'' if count == 1 else 's'}"


def _count(step: CheckedStep, gives: tuple[Value, ...] | None) -> int | None:
    if step.entry is not None and step.entry.gives:
        return step.entry.gives
    if gives is None or (len(gives) == 1 and gives[0].kind == ANY):
        return None
    return len(gives)


def _as_names(written: str | tuple[str, ...] | None) -> tuple[str, ...] | None:
    return (written,) if isinstance(written, str) else written


def _numbered(stem: str) -> Iterable[str]:
    yield stem
    number = 2
    while True:
        yield f"{stem}_{number}"
        number += 1


def unused(held: Mapping[str, Held], read: Iterable[str]) -> tuple[str, ...]:
    """The values that nothing reads, in order."""
    known = set(read)
    return tuple(name for name in held if name not in known)
