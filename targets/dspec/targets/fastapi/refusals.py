"""What a spec may ask of `runtime: fastapi` in vain, in words, before anything heavy runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from dspec.spec.errors import Diagnostic
from dspec.spec.models import Spec, Target
from dspec.targets.artifacts import onnx_refusals
from dspec.targets.fastapi.options import SERVE, Options

ZERO_IS_DEFAULT = frozenset(("max_body_bytes", "max_delay_ms"))


def refusals(spec: Spec, target: Target) -> tuple[Diagnostic, ...]:
    """Every reason at once; empty when the target can be served."""
    return (*onnx_refusals.refusals(spec, target), *_numbers(target), *_threads(target))


def option(target: Target, name: str) -> Any:
    """The option's value, or its default."""
    return target.options.get(name, next(field.default for field in fields(Options) if field.name == name))


def _numbers(target: Target) -> Iterator[Diagnostic]:
    for name in SERVE:
        found = option(target, name)
        least = 0 if name in ZERO_IS_DEFAULT else 1 if isinstance(found, int) else 0
        if found < least or (found == 0 and name not in ZERO_IS_DEFAULT):
            yield Diagnostic(
                code="E0518",
                message=f"option {name} is {found}",
                key=f"options.{name}",
                expected="0 and above" if name in ZERO_IS_DEFAULT else "above 0",
                hint=f"leave {name} out for the default",
            )


def _threads(target: Target) -> Iterator[Diagnostic]:
    workers, threads = option(target, "workers"), max(1, option(target, "intra_op_threads"))
    cores = target.resources.cores
    if workers * threads > cores:
        yield Diagnostic(
            code="E0519",
            message=f"{workers} workers of {threads} threads on {cores} cores",
            key="options.workers" if "workers" in target.options else "options.intra_op_threads",
            expected=f"workers times threads of {cores} at most",
            hint="give fewer workers or threads, or more `resources.cores`: threads that share a core make every request slower",
        )
