"""What a spec may ask of `runtime: executorch` in vain, in words, before anything heavy runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from dspec.spec.errors import Diagnostic
from dspec.spec.models import Spec, Target
from dspec.targets.executorch.options import BARE, Options

# Delegates of ExecuTorch's own, and what lowering for them takes: a module of their vendor's, and what it stands for.
OTHERS = {
    "coreml": ("coremltools", "coremltools, and macOS to prove what it gives"),
    "vulkan": (
        "",
        "a Vulkan delegate in the installed ExecuTorch: the wheel runs none, so that nothing could be proved",
    ),
    "qualcomm": ("qti", "Qualcomm's AI Engine Direct SDK (QNN_SDK_ROOT) and a device of theirs"),
    "ethos-u": (
        "ethosu",
        "Arm's Vela compiler (`pip install executorch[ethos-u]`) and int8 weights, which dspec does not make yet",
    ),
    "openvino": ("openvino", "`pip install executorch[openvino]`"),
}
NOT_SERVED = frozenset(("bfloat16",))  # numpy, in which requests and answers are, lacks it


def refusals(spec: Spec, target: Target) -> tuple[Diagnostic, ...]:
    """Every reason at once; empty when the target can be served."""
    return (*_dtypes(spec), *_delegate(target), *_numbers(target))


def option(target: Target, name: str) -> Any:
    """The option's value, or its default."""
    return target.options.get(name, next(field.default for field in fields(Options) if field.name == name))


def delegate_of(target: Target) -> str:
    """What is lowered for."""
    asked = str(option(target, "delegate"))
    if asked != "auto":
        return asked
    return "none" if target.hardware == BARE else "xnnpack"


def _dtypes(spec: Spec) -> Iterator[Diagnostic]:
    for side, ports in (("inputs", spec.model.inputs), ("outputs", spec.model.outputs)):
        for name, port in ports.items():
            if port.dtype in NOT_SERVED:
                yield Diagnostic(
                    code="E0517",
                    message=f"{side[:-1]} {name} is {port.dtype}, which no request and no answer can carry",
                    key=f"model.{side}.{name}.dtype",
                    expected="float32, float16, float64, an integer dtype or bool",
                    hint="declare it float32 and cast inside forward() where the model needs another dtype",
                )


def _delegate(target: Target) -> Iterator[Diagnostic]:
    delegate = delegate_of(target)
    if delegate in OTHERS:
        yield Diagnostic(
            code="E0536",
            message=f"the delegate {delegate} can't be lowered for here: it needs {OTHERS[delegate][1]}",
            key="options.delegate",
            expected="xnnpack, or none",
            hint="lower for `delegate: xnnpack`, which runs on every CPU of phones and servers",
        )
    if delegate == "xnnpack" and target.hardware == BARE:
        yield Diagnostic(
            code="E0536",
            message=f"{BARE} runs no XNNPACK: it needs an operating system with threads and memory mapping",
            key="options.delegate",
            expected="delegate: none",
            hint="leave `delegate` out: portable kernels are the default there",
        )


def _numbers(target: Target) -> Iterator[Diagnostic]:
    least = option(target, "min_delegated")
    if not 0 <= least <= 1:
        yield _option("min_delegated", least, "a share, from 0 to 1")
    elif least > 0 and delegate_of(target) == "none":
        yield _option("min_delegated", least, "0 where there is no delegate")
    if option(target, "threads") < 0:
        yield _option("threads", option(target, "threads"), "0 and above")


def _option(name: str, found: Any, expected: str) -> Diagnostic:
    return Diagnostic(
        code="E0518",
        message=f"option {name} is {found}",
        key=f"options.{name}",
        expected=expected,
        hint=f"leave {name} out for the default",
    )
