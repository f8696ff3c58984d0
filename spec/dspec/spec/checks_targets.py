"""Checks of targets: runtime, options, hardware, and where steps run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fnmatch import fnmatchcase

from pydantic import BaseModel, ValidationError

from dspec.spec.catalogue import RuntimeEntry, StepEntry
from dspec.spec.context import Context
from dspec.spec.errors import Diagnostic, SpecError
from dspec.spec.foreign import runtime_answer
from dspec.spec.hardware import HOST, Profile, profile
from dspec.spec.models import Place, Target
from dspec.spec.nearest import listed
from dspec.spec.placement import offered
from dspec.spec.structure import explain_errors
from dspec.spec.written import options_model


def _served(context: Context) -> Iterator[tuple[str, Target, RuntimeEntry]]:
    for name, target in context.spec.targets.items():
        entry = context.catalogue.runtimes.get(target.runtime)
        if entry is not None:
            yield name, target, entry


def _sound(context: Context, name: str) -> bool:
    return context.sources.node(("targets", name)) is not None  # and no stand-in


def known_runtimes(context: Context) -> Iterator[Diagnostic]:
    for name, target in context.spec.targets.items():
        if target.runtime not in context.catalogue.runtimes and _sound(context, name):
            code, message, hint = runtime_answer(target.runtime, context.catalogue)
            yield context.found(code, ("targets", name, "runtime"), message,
                                expected=listed(sorted(context.catalogue.runtimes)), hint=hint)  # fmt: skip


def options(context: Context) -> Iterator[Diagnostic]:
    for name, target, entry in _served(context):
        try:
            validated_options(target, entry)
        except ValidationError as error:
            base = ("targets", name, "options")
            yield from explain_errors(error, context.sources, base, options_model(entry))
        except (ValueError, TypeError) as error:
            yield context.found("E0212", ("targets", name, "options"), f"options of `{entry.name}`: {error}", on="key",
                                expected="options that fit", hint=entry.summary)  # fmt: skip


def validated_options(target: Target, entry: RuntimeEntry) -> BaseModel:
    """The options with defaults; raises pydantic's ValidationError, or ValueError from the dataclass itself."""
    model = options_model(entry)
    found = model.model_validate_json(json.dumps(target.options), by_alias=True, by_name=False)
    entry.options(**{field.alias: getattr(found, name) for name, field in model.model_fields.items() if field.alias})
    return found


def hardware(context: Context) -> Iterator[Diagnostic]:
    for name, target in context.spec.targets.items():
        if not _sound(context, name):
            continue
        path = ("targets", name, "hardware")
        try:
            found = profile(target.hardware, context.folder)
        except SpecError as error:
            yield from (_placed(context, path, problem) for problem in error.diagnostics)
            continue
        entry = context.catalogue.runtimes.get(target.runtime)
        if entry is not None and not can_serve(entry, found):
            yield context.found("E0307", path, f"`{entry.name}` can't serve {target.hardware} (target `{name}`)",
                                expected=listed(entry.hardware), hint="choose other hardware, or another runtime for it")  # fmt: skip


def _placed(context: Context, path: tuple[str, ...], problem: Diagnostic) -> Diagnostic:
    if problem.file:
        return problem
    return context.found(problem.code, path, problem.message, expected=problem.expected, hint=problem.hint)


def can_serve(entry: RuntimeEntry, found: Profile) -> bool:
    """Whether a runtime serves a profile; a profile of the user's own counts as the named one of its facts."""
    facts = [found.os, found.arch, found.accelerator] if found.name != HOST else []
    generic = "-".join(fact for fact in facts if fact)
    return any(fnmatchcase(name, pattern) for name in (found.name, generic) for pattern in entry.hardware if name)


def places(context: Context) -> Iterator[Diagnostic]:
    for step in context.pipes.checked:
        place = step.written.place
        path = (*step.path, "place")
        if step.entry is None:
            continue
        if place not in offered(step.entry.places):
            yield context.found("E0328", path, f"step `{step.use}` can't run in place `{place}`",
                                expected=listed(offered(step.entry.places)), hint=_elsewhere(context, place, step.entry))  # fmt: skip
            continue
        for name, target, entry in _served(context):
            if place not in entry.places:
                yield context.found("E0328", path, f"target `{name}` ({target.runtime}) offers no place `{place}` "
                                    f"for step `{step.use}`", expected=listed(entry.places),
                                    hint=f"write `place: {entry.places[0]}`, or give the target another runtime")  # fmt: skip


def _elsewhere(context: Context, place: Place, entry: StepEntry) -> str:
    hint = f"write `place: {entry.places[0]}`"
    if any(place in runtime.places for runtime in context.catalogue.runtimes.values()):
        return hint
    return f"{hint}: no runtime offers `{place}` yet, for any step"
