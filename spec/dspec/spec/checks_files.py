"""Checks of the files that a spec names. Nothing is imported or executed; Python sources are parsed at most."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from dspec.spec.context import Context
from dspec.spec.errors import Diagnostic, DspecError
from dspec.spec.files import KEY_OF, inside, locate, matching
from dspec.spec.models import Source
from dspec.spec.nearest import did_you_mean, listed
from dspec.spec.nodes import KeyPath
from dspec.spec.pysource import bound_names

MAX_PATTERNS = 100  # each walks the folder


def _told(context: Context, path: KeyPath, act: Callable[[], object]) -> Iterator[Diagnostic]:
    """What `act` raises, at the place of the key it is about."""
    try:
        act()
    except DspecError as error:
        for problem in error.diagnostics:
            key = (*path, KEY_OF.get(problem.code, "path"))
            at = key if context.sources.node(key) is not None else path
            yield context.found(problem.code, at, problem.message, expected=problem.expected, hint=problem.hint,
                                notes=problem.notes)  # fmt: skip


def fixtures(context: Context) -> Iterator[Diagnostic]:
    for number, fixture in enumerate(context.spec.fixtures):
        yield from _file(context, ("fixtures", number, "file"), fixture.file)


def _file(context: Context, path: KeyPath, written: str) -> Iterator[Diagnostic]:
    yield from _told(context, path, lambda: inside(written, context.folder))


def model_files(context: Context) -> Iterator[Diagnostic]:
    for number, written in enumerate(context.spec.model.files):
        yield from _file(context, ("model", "files", number), written)


def sources(context: Context) -> Iterator[Diagnostic]:
    patterns = context.spec.model.code.sources
    if len(patterns) > MAX_PATTERNS:
        yield context.found("E0902", ("model", "code", "sources"), f"{len(patterns)} patterns of sources",
                            expected=f"at most {MAX_PATTERNS}", hint="use `*` and `**`: `src/**/*.py`")  # fmt: skip
        return
    for number, pattern in enumerate(patterns):
        yield from _told(context, ("model", "code", "sources", number), lambda p=pattern: _globbed(p, context.folder))  # type: ignore[misc]


def _globbed(pattern: str, folder: Path) -> None:
    if not any(mark in pattern for mark in "*?["):
        inside(pattern, folder)
        return
    inside(pattern, folder, exists=False)
    matched = matching(pattern, folder)
    if not matched:
        inside(pattern, folder)
    for path in matched:
        inside(path, folder)


def factory(context: Context) -> Iterator[Diagnostic]:
    yield from _callee(context, ("model", "factory"), context.spec.model.factory)


def training(context: Context) -> Iterator[Diagnostic]:
    for key in ("preprocess", "postprocess"):
        callee = getattr(context.spec.training, key)
        if callee is not None:
            yield from _callee(context, ("training", key), callee)


def training_tensors(context: Context) -> Iterator[Diagnostic]:
    """A tolerance of its own for something that the training-time code is held by."""
    spec = context.spec
    written = [name for step in (*spec.preprocess, *spec.postprocess) for name in step.outputs]
    known = list(dict.fromkeys((*spec.model.inputs, *(spec.response or spec.model.outputs), *written)))
    for name in spec.training.tensors:
        if name not in known and (spec.response or spec.model.outputs):
            yield context.found("E0320", ("training", "tensors", name), f"a tolerance for `{name}`, which is no model input, "
                                "response field or step value", on="key", expected=listed(known),
                                hint=did_you_mean(name, known, "name one of them"))  # fmt: skip


def steps(context: Context) -> Iterator[Diagnostic]:
    for step in context.pipes.checked:
        if step.python is not None:
            yield from _callee(context, (*step.path, "python"), step.python, must_be_file=True)
        for name, source in step.assets.items():
            yield from _source(context, (*step.path, name), source)


def weights(context: Context) -> Iterator[Diagnostic]:
    if context.spec.model.weights is not None:
        yield from _source(context, ("model", "weights"), context.spec.model.weights)


def _source(context: Context, path: KeyPath, source: Source) -> Iterator[Diagnostic]:
    yield from _told(context, path, lambda: locate(source, context.folder))


def _callee(context: Context, path: KeyPath, callee: str, *, must_be_file: bool = False) -> Iterator[Diagnostic]:
    """`file.py:callable`: the file is there and binds the name. `package.module:callable` is left to capture."""
    file, _, name = callee.partition(":")
    if not file.endswith(".py"):
        if must_be_file or "/" in file:
            yield context.found("E0331", path, f"`{file}` is no Python file", expected="file.py:callable",
                                hint="name a .py file of the spec's folder")  # fmt: skip
        return
    problems = list(_file(context, path, file))
    yield from problems
    bound = None if problems else bound_names(context.folder / file)
    if bound is not None and name not in bound:
        functions = [found for found in bound if not found.startswith("_")]
        yield context.found("E0339", path, f"`{file}` binds no name `{name}`", expected=listed(sorted(functions)),
                            hint=did_you_mean(name, functions, "name a function of the file"))  # fmt: skip
