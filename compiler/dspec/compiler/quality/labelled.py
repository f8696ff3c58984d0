"""Labels and answers by fixture, and the figures that both give."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dspec.compiler.measure.cases import Expected
from dspec.compiler.quality.metrics import METRICS, Result, UnfitError
from dspec.spec.records import QualityFigure, QualityFound
from dspec.targets.shipped.pipeline import to_json

NAMED = 5  # fixtures named in a record
NOISE = 1e-3  # of the mean fault: a fixture whose fault moves by less counts as before
WITHOUT_K = 0
FILE = "answers.json"

Answers = dict[str, Mapping[str, Any]]  # fixture id → field → value in JSON form


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What is measured: no limits, so that a limit may change without measuring again."""

    metric: Any
    of: str
    k: int | None

    @classmethod
    def read(cls, entries: Iterable[Mapping[str, Any]]) -> tuple[Asked, ...]:
        """From the JSON form that `stages.asked` gives."""
        return tuple(cls(metric=entry["metric"], of=entry["of"], k=entry["k"]) for entry in entries)

    @property
    def words(self) -> str:
        return f"{self.metric} of {self.of}"


def label_of(expected: Any, of: str) -> Any:
    """The label of one field: `expected` itself, or its entry where it is an object {field: label}; None: no label."""
    return expected.get(of) if isinstance(expected, Mapping) else expected


def chosen(
    response: Mapping[str, Any], outputs: Mapping[str, Any], names: Iterable[str], pipeline: Mapping[str, Any]
) -> dict[str, Any]:
    """The named response fields, or else model outputs without their batch axis, in JSON form.

    `pipeline` is the content of pipeline.json.
    """
    items = {
        name: _item(array, pipeline["outputs"].get(name, {}), pipeline["batch"]) for name, array in outputs.items()
    }
    both = {**items, **response}
    return {name: to_json(both[name]) for name in names if name in both}


def _item(array: Any, declared: Mapping[str, Any], batch: str | None) -> Any:
    shape = list(declared.get("shape", ()))
    return array.take(0, shape.index(batch)) if batch in shape and array.ndim == len(shape) else array


@dataclass(frozen=True, kw_only=True, slots=True)
class Labelled:
    """Every fixture's label (`expected`, None where it has none), and what answered it.

    Attributes:
        same: fixture → what enters the model for it, as a digest: two of one digest are one sample, not two.
    """

    expected: dict[str, Any] = field(default_factory=dict)
    answers: Answers = field(default_factory=dict)
    same: dict[str, str] = field(default_factory=dict)

    def note(self, case: Expected) -> None:
        """A fixture's label, and what enters the model for it."""
        self.expected[case.id] = case.expected
        if case.expected is not None:
            self.same[case.id] = _digest(case.inputs)

    def ids(self, of: str) -> list[str]:
        """The fixtures with a label for `of`, in order; of those that enter alike with the same label, the first."""
        found: dict[tuple[str, str], str] = {}
        for name in self.all(of):
            key = (
                self.same.get(name, name),
                json.dumps(label_of(self.expected[name], of), sort_keys=True, default=str),
            )
            found.setdefault(key, name)
        return list(found.values())

    def all(self, of: str) -> list[str]:
        """As `ids`, those that repeat another included."""
        return [name for name, expected in self.expected.items() if label_of(expected, of) is not None]

    def result(self, asked: Asked) -> Result:
        """The metric over the fixtures that have a label. Raises UnfitError; `at` counts along `ids`."""
        ids = self.ids(asked.of)
        lacking = [at for at, name in enumerate(ids) if asked.of not in self.answers.get(name, {})]
        if lacking:
            raise UnfitError(lacking[0], f"there is no answer {asked.of}")
        answers = [self.answers[name][asked.of] for name in ids]
        labels = [label_of(self.expected[name], asked.of) for name in ids]
        return METRICS[asked.metric](answers, labels, asked.k or WITHOUT_K)


def _digest(tensors: Mapping[str, Any]) -> str:
    whole = hashlib.sha256()
    for name, array in sorted(tensors.items()):
        whole.update(f"{name} {array.dtype} {array.shape} ".encode())
        whole.update(array.tobytes())
    return whole.hexdigest()


def found(asked: Iterable[Asked], ours: Labelled, reference: Labelled) -> QualityFound | None:
    """Every figure of `ours`, beside the reference's; None where no fixture has a label."""
    every = tuple(_figure(one, ours, reference) for one in asked if ours.ids(one.of))
    labelled = sum(expected is not None for expected in ours.expected.values())
    return QualityFound(figures=every, fixtures=len(ours.expected), labelled=labelled) if every else None


def _figure(asked: Asked, ours: Labelled, reference: Labelled) -> QualityFigure:
    ids = ours.ids(asked.of)
    try:
        got, wanted = ours.result(asked), reference.result(asked)
    except UnfitError as error:
        where = "" if error.at is None else f"{ids[error.at]}: "
        return QualityFigure(metric=asked.metric, of=asked.of, k=asked.k, n=len(ids), broken=f"{where}{error.words}")
    moved = {at: fault - wanted.faults[at] for at, fault in got.faults.items()}
    least = NOISE * sum(wanted.faults.values()) / len(moved)
    changed = {at: by for at, by in moved.items() if abs(by) > least}
    return QualityFigure(
        metric=asked.metric,
        of=asked.of,
        k=asked.k,
        n=len(got.faults),
        value=got.value,
        low=_finite(got.low),
        high=_finite(got.high),
        reference=wanted.value,
        changed=len(changed),
        lost=_first(ids, {at: by for at, by in changed.items() if by > 0}),
        missed=_first(ids, {at: fault for at, fault in got.faults.items() if fault > 0}),
        repeated=len(ours.all(asked.of)) - len(ids),
        vacuous=got.vacuous or wanted.vacuous,
    )


def _first(ids: list[str], faults: Mapping[int, float]) -> tuple[str, ...]:
    return tuple(ids[at] for at in sorted(faults, key=lambda at: (-faults[at], at))[:NAMED])


def _finite(bound: float) -> float | None:
    return bound if abs(bound) != float("inf") else None


def write_answers(folder: Path, answers: Answers) -> None:
    """One file, which `read_answers` reads."""
    (folder / FILE).write_text(json.dumps(answers, allow_nan=False))


def read_answers(folder: Path) -> Answers:
    found: Answers = json.loads((folder / FILE).read_text())
    return found
