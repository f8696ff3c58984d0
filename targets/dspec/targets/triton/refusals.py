"""What a spec may ask of `runtime: triton` in vain, in words, before anything heavy runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from dspec.spec.errors import Diagnostic
from dspec.spec.hardware import PROFILES
from dspec.spec.models import BATCH, Spec, Target
from dspec.targets.artifacts import onnx_refusals
from dspec.targets.triton.models import most, why_alone
from dspec.targets.triton.options import OF_ONNXRUNTIME, Options

LEAST = {"max_batch": 0, "instances": 1, "max_delay_ms": 0}


def refusals(spec: Spec, target: Target) -> tuple[Diagnostic, ...]:
    """Every reason at once; empty when the target can be served."""
    checks = (_numbers, _shape, _threads, _preferred)
    found = [problem for check in checks for problem in check(target)]
    return (*onnx_refusals.refusals(spec, target), *found, *_accelerator(target), *_batch(spec, target))


def options_of(target: Target) -> Options:
    """The options, defaults included; lists become tuples, as the language has read them."""
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in target.options.items()
    }
    return Options(**given)


def option(target: Target, name: str) -> Any:
    """The option's value, or its default."""
    return target.options.get(name, next(field.default for field in fields(Options) if field.name == name))


def asked(target: Target, name: str) -> bool:
    """Whether the option has another value than its default; a loaded spec has the defaults filled in."""
    default = next(field.default for field in fields(Options) if field.name == name)
    found = target.options.get(name, default)
    return bool((tuple(found) if isinstance(found, list) else found) != default)


def has_accelerator(target: Target) -> bool:
    """Whether the target's machine has one; a profile of the user's own says so in its name."""
    found = PROFILES.get(target.hardware)
    return bool(found.accelerator) if found else target.hardware.endswith("-cuda")


def _found(code: str, message: str, name: str, expected: str, hint: str) -> Diagnostic:
    return Diagnostic(code=code, message=message, key=f"options.{name}", expected=expected, hint=hint)


def _numbers(target: Target) -> Iterator[Diagnostic]:
    for name, least in LEAST.items():
        if (found := option(target, name)) < least:
            yield _found(
                "E0518", f"option {name} is {found}", name, f"{least} and above", f"leave {name} out for the default"
            )


def _shape(target: Target) -> Iterator[Diagnostic]:
    if option(target, "shape") == "onnxruntime" and option(target, "engine") == "eager":
        yield _found(
            "E1001", "engine eager has no place in shape onnxruntime", "engine",
            "engine onnxruntime, or shape python", "the server's ONNX Runtime backend runs one ONNX graph; PyTorch runs in its Python backend",
        )  # fmt: skip
    if option(target, "engine") == "eager":
        for name in OF_ONNXRUNTIME:
            if asked(target, name):
                yield _found("E1001", f"option {name} is ONNX Runtime's and the engine is eager", name,
                             "options of the engine that runs", f"leave {name} out")  # fmt: skip


def _threads(target: Target) -> Iterator[Diagnostic]:
    instances, threads = option(target, "instances"), max(1, option(target, "intra_op_threads"))
    cores = target.resources.cores
    if instances * threads > cores:
        yield _found(
            "E0519", f"{instances} instances of {threads} threads on {cores} cores",
            "instances" if asked(target, "instances") else "intra_op_threads", f"instances times threads of {cores} at most",
            "give fewer instances or threads, or more `resources.cores`: threads that share a core make every request slower",
        )  # fmt: skip


def _preferred(target: Target) -> Iterator[Diagnostic]:
    bound = option(target, "max_batch")
    for size in option(target, "preferred_batch"):
        if size < 1 or (bound and size > bound):
            yield _found("E1002", f"preferred_batch has {size} and max_batch is {bound}", "preferred_batch",
                         f"sizes from 1 to {bound}" if bound else "sizes from 1", "raise max_batch, or leave the size out")  # fmt: skip


def _accelerator(target: Target) -> Iterator[Diagnostic]:
    if has_accelerator(target) and option(target, "shape") == "python":
        yield _found("E1003", f"shape python computes on a CPU, and {target.hardware} has an accelerator", "shape",
                     "shape onnxruntime", "the server's ONNX Runtime backend runs the graph on the accelerator")  # fmt: skip


def _batch(spec: Spec, target: Target) -> Iterator[Diagnostic]:
    """Only what was asked for: a default that can't be had is left out, and the plan says so."""
    found = (name for name in ("preferred_batch", "max_batch") if asked(target, name) and option(target, name) != 1)
    if not (wanted := next(found, "")):
        return
    what, why = _alone(spec)
    if what:
        yield _found("E1004", f"{what} {why}, so {wanted} can't be had", wanted, f"{BATCH} as the first size of every input and output",
                     "move that axis to the front in forward(), or leave the option out: items then run one by one")  # fmt: skip
        return
    bound, most_asked = spec.model.dims[BATCH].max, option(target, "max_batch")
    for size in option(target, "preferred_batch"):
        if bound is not None and bound < size <= (most_asked or size):
            yield _found("E1002", f"preferred_batch has {size} and model.dims.{BATCH} ends at {bound}", "preferred_batch",
                         f"sizes from 1 to {bound}", f"raise model.dims.{BATCH}.max, or leave the size out")  # fmt: skip


def _alone(spec: Spec) -> tuple[str, str]:
    from dspec.targets.triton.declared import interface_of

    return why_alone(interface_of(spec))


def why_not_batched(spec: Spec) -> str:
    """Why items run one by one, in words; empty where they may be stacked."""
    what, why = _alone(spec)
    return f"{what} {why}" if what else ""


def at_once(spec: Spec, target: Target) -> int:
    """Items that run together, at most; 0 where they run one by one."""
    from dspec.targets.triton.declared import interface_of

    return most(interface_of(spec), options_of(target))
