"""Checks of `quality:`: which metric needs which keys, and whether what it looks at is there."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from dspec.spec.context import Context
from dspec.spec.errors import Diagnostic
from dspec.spec.fit import item_shape
from dspec.spec.models import Quality
from dspec.spec.nearest import did_you_mean, listed
from dspec.spec.nodes import KeyPath

LABEL = "expected"  # the key of a fixture that is no request field


class Kind(NamedTuple):
    """What a metric's values mean. `bound`: the limit it is judged by; `least`, `greatest`: the values it can take."""

    bound: Literal["min", "max"]
    least: float
    greatest: float | None
    counts: bool = False  # needs `k`


KINDS: dict[str, Kind] = {
    "accuracy": Kind("min", 0, 1),
    "top_k": Kind("min", 0, 1, counts=True),
    "recall_at_k": Kind("min", 0, 1, counts=True),
    "mean_absolute_error": Kind("max", 0, None),
    "correlation": Kind("min", -1, 1),
}
_OTHER = {"min": "max", "max": "min"}
_BETTER = {"min": "more", "max": "less"}


def quality(context: Context) -> Iterator[Diagnostic]:
    for number, asked in enumerate(context.spec.quality):
        path: KeyPath = ("quality", number)
        yield from _limits(context, path, asked)
        yield from _count(context, path, asked)


def _limits(context: Context, path: KeyPath, asked: Quality) -> Iterator[Diagnostic]:
    kind = KINDS[asked.metric]
    wrong = _OTHER[kind.bound]
    if getattr(asked, wrong) is not None:
        yield context.found("E0344", (*path, wrong), f"`{wrong}` of {asked.metric}, where {_BETTER[kind.bound]} is better",
                            on="key", expected=f"`{kind.bound}`", hint=f"write `{kind.bound}` instead of `{wrong}`")  # fmt: skip
    limit = getattr(asked, kind.bound)
    over = limit is not None and kind.greatest is not None and limit > kind.greatest
    if over or (limit is not None and limit < kind.least):
        yield context.found("E0345", (*path, kind.bound), f"{asked.metric} can't be {limit:g}", expected=_range(kind),
                            hint=_percent(limit) if over else "correct the limit")  # fmt: skip


def _range(kind: Kind) -> str:
    return f"{kind.least:g} or more" if kind.greatest is None else f"a number from {kind.least:g} to {kind.greatest:g}"


def _percent(limit: float) -> str:
    return f"write {limit / 100:g} for {limit:g} %" if limit <= 100 else "correct the limit"


def _count(context: Context, path: KeyPath, asked: Quality) -> Iterator[Diagnostic]:
    counts = KINDS[asked.metric].counts
    if counts and asked.k is None:
        yield context.found("E0346", (*path, "metric"), f"{asked.metric} without `k`", expected="a `k` of 1 or more",
                            hint="add `k: 5`, or the count that the product shows")  # fmt: skip
    if not counts and asked.k is not None:
        needing = listed(name for name, kind in KINDS.items() if kind.counts)
        yield context.found("E0346", (*path, "k"), f"`k` of {asked.metric}", on="key", expected=f"`k` for {needing} only",
                            hint="remove it")  # fmt: skip


def _every_class(context: Context, path: KeyPath, asked: Quality) -> Iterator[Diagnostic]:
    """A label is always among the first k of k classes."""
    classes = _classes(context, asked.of) if asked.metric == "top_k" and asked.k else None
    if classes is not None and asked.k is not None and asked.k >= classes:
        yield context.found("E0346", (*path, "k"), f"`k` of top_k is {asked.k}, and `{asked.of}` has {classes} classes: "
                            "every answer would be a hit", expected=f"a `k` below {classes}",
                            hint="lower `k`, or ask for accuracy")  # fmt: skip


def _classes(context: Context, of: str) -> int | None:
    """How many scores the answer comes from: the row of the model's output that shipped steps lead back to."""
    name = context.pipes.response[of].source if of in context.pipes.response else of
    writers = {step.outputs[0]: step for step in context.pipes.postprocess if len(step.outputs) == 1}
    while (step := writers.pop(name, None)) and step.use and not step.python and len(step.inputs) == 1:
        (name,) = step.inputs
    output = context.spec.model.outputs.get(name)
    shape = item_shape(output.shape, context.spec.model.dims) if output else ()
    return shape[0] if len(shape) == 1 and isinstance(shape[0], int) else None


def subjects(context: Context) -> Iterator[Diagnostic]:
    """`of` names what an answer holds. Where the spec declares no outputs, their names are known after capture."""
    names = {*context.pipes.response, *context.spec.model.outputs}
    for number, asked in enumerate(context.spec.quality):
        yield from _every_class(context, ("quality", number), asked)
        if asked.of not in names and context.spec.model.outputs:
            yield context.found("E0343", ("quality", number, "of"), f"{asked.metric} of `{asked.of}`, which no answer holds",
                                expected=listed(names),
                                hint=did_you_mean(asked.of, names, "name a response field or a model output"))  # fmt: skip


def repeated(context: Context) -> Iterator[Diagnostic]:
    seen: dict[tuple[str, str, int | None], int] = {}
    for number, asked in enumerate(context.spec.quality):
        key = (asked.metric, asked.of, asked.k)
        if key in seen:
            line = context.sources.span(("quality", seen[key], "metric")).line
            yield context.found("E0347", ("quality", number), f"line {line} asks for {asked.metric} of `{asked.of}` already",
                                expected="one entry for each metric, field and k", hint="put the limits in one entry")  # fmt: skip
        seen.setdefault(key, number)


def labels(context: Context) -> Iterator[Diagnostic]:
    """Some fixture file has labels. The files are searched, not read: what each label is, capture finds out."""
    if not context.spec.quality:
        return
    if LABEL in context.pipes.request:
        yield context.found("E0348", ("request", LABEL), f"the request has a field `{LABEL}`, so that fixtures hold no label",
                            on="key", expected=f"`{LABEL}` left for the label of a fixture", hint="rename the field")  # fmt: skip
        return
    paths = [context.folder / fixtures.file for fixtures in context.spec.fixtures]
    if all(path.is_file() and not _labelled(path) for path in paths):
        files = listed(fixtures.file for fixtures in context.spec.fixtures)
        yield context.found("E0348", ("quality",), f"`quality` is asked, and no fixture of {files} has `{LABEL}`", on="key",
                            expected=f'`"{LABEL}": <label>` in the lines of a .jsonl, an array `{LABEL}` in an .npz',
                            hint="label the fixtures, or remove `quality`")  # fmt: skip


def _labelled(path: Path) -> bool:
    """Whether a fixture file mentions labels at all."""
    try:
        if path.suffix == ".npz":
            with zipfile.ZipFile(path) as archive:
                return f"{LABEL}.npy" in archive.namelist()
        with path.open("rb") as stream:
            return any(f'"{LABEL}"'.encode() in line for line in stream)
    except (OSError, zipfile.BadZipFile):
        return True  # capture says what is wrong with the file
