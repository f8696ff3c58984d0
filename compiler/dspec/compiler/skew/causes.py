"""Likely causes of a difference, found by trying them: one thing changed at a time, so many and no more.

The bound is a count, never a clock: the same sources and inputs name the same causes on a busy machine as on an idle one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from dspec.compiler.skew.changes import groups
from dspec.compiler.skew.closeness import NEAR, Parted, as_array, greatest, merged, parted
from dspec.compiler.skew.relations import Relation, relations
from dspec.compiler.skew.replay import Change, Replay, Values
from dspec.spec.records import Cause

TRIED = 3  # fixtures
TRIES = 300  # changes per side of the model, the likelier first; the longest pipeline of the examples has 70
FALLS = 10.0  # times smaller the error must become to be worth telling
KEPT = 4
NUMBERS = 12

Errors = dict[str, Parted]


@dataclass(frozen=True, kw_only=True, slots=True)
class Differing:
    """A fixture on which both differ: what the steps start from, and what the training-time code made of it."""

    id: str
    start: Values
    theirs: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """One side of the model. `targets`: model input (or response field) → the value that becomes it."""

    side: Literal["preprocess", "postprocess"]
    replay: Replay
    targets: Mapping[str, str]

    def causes(self, differing: Sequence[Differing]) -> tuple[Cause, ...]:
        """Changes under which the error vanishes, or becomes a small part of what it was; the best first."""
        subjects = [_Subject.of(self, one) for one in differing[:TRIED]]
        if not any(subject.base for subject in subjects):  # equal values that can't enter: the dtype says it all
            return ()
        found: list[tuple[float, Cause]] = []
        left_over = TRIES
        for group in self._groups(subjects):
            attempts = list(islice(group, left_over))
            left_over -= len(attempts)
            for attempt in attempts:
                found += attempt(subjects)
            if any(left <= NEAR for left, _ in found):
                break
        found.sort(key=lambda pair: pair[0])
        return tuple(cause for _, cause in _distinct(found))[:KEPT]

    def _groups(self, subjects: Sequence[_Subject]) -> Iterator[list[Callable[[Sequence[_Subject]], list[Any]]]]:
        changes = groups(self.replay, _numbers(subjects))
        first = next(changes, [])
        yield [self._changed(change) for change in first]
        rest = list(changes)
        for group in rest:
            yield [self._changed(change) for change in group]
        yield [self._related(name, relation) for name, relation in _relations(subjects[0])]

    def _changed(self, change: Change) -> Callable[[Sequence[_Subject]], list[tuple[float, Cause]]]:
        def attempt(subjects: Sequence[_Subject]) -> list[tuple[float, Cause]]:
            return self._tried(
                subjects, lambda subject: self.replay.changed(change, subject.snapshots), change.what, change.step
            )

        return attempt

    def _related(self, name: str, relation: Relation) -> Callable[[Sequence[_Subject]], list[tuple[float, Cause]]]:
        source = self.targets[name]

        def made(subject: _Subject) -> Values:
            values, ours = subject.snapshots[-1], as_array(subject.snapshots[-1][source])
            if ours is None:
                raise ValueError("no array")
            return {**values, source: relation.make(ours)}

        return lambda subjects: self._tried(subjects, made, f"`{name}` is {relation.what}", "")

    def _tried(
        self, subjects: Sequence[_Subject], made: Callable[[_Subject], Values], what: str, step: str
    ) -> list[tuple[float, Cause]]:
        errors: list[Errors] = []
        for subject in subjects:
            try:
                errors.append(subject.errors(made(subject)))
            except Exception:  # a change that does not go through says nothing
                return []
            if greatest(errors[-1]) > subject.base / FALLS:
                return []
        whole = merged(errors)
        outputs = {name: one.error for name, one in whole.items()}
        tried = tuple(subject.id for subject in subjects)
        cause = Cause(side=self.side, what=what, step=step, tried=tried, outputs=outputs)
        return [(greatest(whole), cause)]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Subject:
    """A differing fixture, replayed up to each step. `base`: the size of the error as it is."""

    id: str
    snapshots: Sequence[Values]
    theirs: Mapping[str, Any]
    targets: Mapping[str, str]
    base: float

    @classmethod
    def of(cls, search: Search, one: Differing) -> _Subject:
        snapshots = search.replay.snapshots(one.start)
        bare = cls(id=one.id, snapshots=snapshots, theirs=one.theirs, targets=search.targets, base=0.0)
        return cls(id=one.id, snapshots=snapshots, theirs=one.theirs, targets=search.targets,
                   base=greatest(bare.errors(snapshots[-1])))  # fmt: skip

    def errors(self, values: Values) -> Errors:
        found: Errors = {}
        for name, wanted in self.theirs.items():
            found |= parted(wanted, values[self.targets[name]], name)
        return found


def _numbers(subjects: Sequence[_Subject]) -> list[int]:
    """Sizes of the training-time tensors that ours have not, the greatest first; ids that their ends repeat."""
    sizes: set[int] = set()
    own: set[int] = set()
    fills: set[int] = set()
    for subject in subjects:
        for name, value in subject.theirs.items():
            theirs, ours = as_array(value), as_array(subject.snapshots[-1].get(subject.targets[name]))
            sizes |= set(theirs.shape) if theirs is not None else set()
            own |= set(ours.shape) if ours is not None else set()
            if theirs is not None and theirs.dtype.kind in "iu" and theirs.size:
                fills |= {int(theirs.reshape(-1)[0]), int(theirs.reshape(-1)[-1])}
    return [*sorted(sizes - own - {1}, reverse=True), *sorted(fills - sizes)][:NUMBERS]


def _relations(subject: _Subject) -> Iterator[tuple[str, Relation]]:
    for name, value in subject.theirs.items():
        theirs, ours = as_array(value), as_array(subject.snapshots[-1][subject.targets[name]])
        if theirs is None or ours is None:
            continue
        if theirs.ndim == ours.ndim + 1 and theirs.shape[0] == 1:
            theirs = theirs[0]
        for relation in relations(theirs, ours):
            yield name, relation


def _distinct(found: Sequence[tuple[float, Cause]]) -> Iterator[tuple[float, Cause]]:
    """Of channels turned round after several steps, the first: they come to the same."""
    seen = set()
    for left, cause in found:
        kind = cause.what.partition(" after step ")[0]
        if kind not in seen:
            seen.add(kind)
            yield left, cause
