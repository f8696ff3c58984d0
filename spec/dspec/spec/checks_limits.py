"""Checks of tolerance, SLO, load, waivers and the remaining texts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from fractions import Fraction

from dspec.spec.context import Context
from dspec.spec.errors import Diagnostic
from dspec.spec.models import Policy
from dspec.spec.nearest import did_you_mean, listed
from dspec.spec.nodes import KeyPath, Mapping, Node, Scalar, Sequence
from dspec.spec.placement import at, writes
from dspec.spec.sources import dotted
from dspec.spec.words import is_finite

BEYOND = 20  # samples that must lie beyond a percentile before it says anything
_PINNED = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w,.-]+\])?==[\w.+!-]+")


def tolerance_names(context: Context) -> Iterator[Diagnostic]:
    model = context.spec.model
    for name, policy in context.spec.tolerance.outputs.items():
        path: KeyPath = ("tolerance", "outputs", name)
        known = [*model.outputs, *writes(at(context.pipes.postprocess, "graph"))]
        if model.outputs and name not in known:
            yield context.found("E0320", path, f"a tolerance for `{name}`, which is no output", on="key",
                                expected=listed(known),
                                hint=did_you_mean(name, known, "name a declared output"))  # fmt: skip
        yield from _valid_mask(context, (*path, "valid"), policy)
        yield from _selects(context, name, policy)
    default = context.spec.tolerance.default
    if default:
        yield from _valid_mask(context, ("tolerance", "default", "valid"), default)
    if default and default.selects:
        yield context.found("E0320", ("tolerance", "default", "selects"), "`selects` in the default: outputs of "
                            "indices are named one by one", expected="`selects` under tolerance.outputs.<output>",
                            hint="move it to the output that holds indices")  # fmt: skip


def _selects(context: Context, output: str, policy: Policy) -> Iterator[Diagnostic]:
    if policy.selects is None:
        return
    path: KeyPath = ("tolerance", "outputs", output, "selects")
    model = context.spec.model
    sources = {**model.inputs, **model.outputs}
    sources.pop(output, None)
    if policy.selects not in sources and (model.outputs or policy.selects == output):
        yield context.found("E0320", path, f"`{output}` selects from `{policy.selects}`, which is no other input or output",
                            expected=listed(sources),
                            hint=did_you_mean(policy.selects, sources, "name the tensor that the indices point into"))  # fmt: skip
    tensor = model.outputs.get(output)
    if tensor and not tensor.dtype.startswith(("int", "uint")):
        yield context.found("E0321", path, f"`selects` for the output `{output}`, which is {tensor.dtype}",
                            expected="an output of indices (an integer dtype)", hint="remove `selects`")  # fmt: skip
    if policy.min_cosine is not None or policy.min_topk_agreement is not None:
        yield context.found("E0321", path, "`selects` beside min_cosine or min_topk_agreement",
                            expected="atol and rtol for the values selected", hint="remove one of them")  # fmt: skip


def _valid_mask(context: Context, path: KeyPath, policy: Policy) -> Iterator[Diagnostic]:
    inputs = context.spec.model.inputs
    if policy.valid is not None and policy.valid not in inputs:
        yield context.found("E0320", path, f"the mask `{policy.valid}` is no input", expected=listed(inputs),
                            hint=did_you_mean(policy.valid, inputs, "name the input that masks padding"))  # fmt: skip


def tolerance_dtypes(context: Context) -> Iterator[Diagnostic]:
    for name, policy in context.spec.tolerance.outputs.items():
        tensor = context.spec.model.outputs.get(name)
        if tensor is None or policy.selects or tensor.dtype.startswith(("float", "bfloat")):
            continue
        for key in ("atol", "rtol", "min_cosine"):
            value = getattr(policy, key)
            whole = key == "atol" and tensor.dtype != "bool" and value is not None and float(value).is_integer()
            if value and not whole:
                yield context.found("E0321", ("tolerance", "outputs", name, key), f"`{key}` for the output `{name}`, "
                                    f"which is {tensor.dtype}", expected="equality, or a whole `atol` for integers",
                                    hint=f"remove `{key}`: an integer has no rounding error")  # fmt: skip


def empty_policies(context: Context) -> Iterator[Diagnostic]:
    """A policy that asks for nothing would pass everything."""
    named = [(("tolerance", "outputs", name), policy) for name, policy in context.spec.tolerance.outputs.items()]
    default = context.spec.tolerance.default
    for path, policy in [*named, *([(("tolerance", "default"), default)] if default else [])]:
        asked = (policy.atol, policy.rtol, policy.min_cosine, policy.min_topk_agreement, policy.selects)
        if all(part is None for part in asked):
            yield context.found("E0324", path, f"`{dotted(path)}` asks for nothing", on="key",
                                expected="atol and rtol, min_cosine, min_topk_agreement or selects",
                                hint="give a limit, or remove the entry for the default of the dtype")  # fmt: skip


def load_length(context: Context) -> Iterator[Diagnostic]:
    load = context.spec.load
    if load.max_duration_s < load.duration_s:
        key = "max_duration_s" if context.sources.node(("load", "max_duration_s")) else "duration_s"
        yield context.found("E0322", ("load", key), f"the load may last {load.max_duration_s:g} s, and "
                            f"starts with {load.duration_s:g} s", expected="duration_s ≤ max_duration_s",
                            hint=f"set max_duration_s to {load.duration_s:g} or more")  # fmt: skip


def load_shows_percentiles(context: Context) -> Iterator[Diagnostic]:
    load = context.spec.load
    if load.rate_rps is None:
        return  # half of the throughput that is measured just before
    needs: dict[str, list[str]] = {}
    for name, target in context.spec.targets.items():
        for percentile in context.spec.slo.latency_ms | target.slo.latency_ms:
            needs.setdefault(percentile, []).append(name)
    for percentile, targets in needs.items():
        beyond = 1 - Fraction(percentile[1:]) / 100
        seconds = Fraction(str(load.max_duration_s))
        if Fraction(str(load.rate_rps)) * seconds * beyond < BEYOND:
            yield _too_short(context, percentile, targets, beyond)


def _too_short(context: Context, percentile: str, targets: list[str], beyond: Fraction) -> Diagnostic:
    load = context.spec.load
    rate = Fraction(str(load.rate_rps))
    needed = math.ceil(BEYOND / beyond / rate)
    got = math.floor(rate * Fraction(str(load.max_duration_s)) * beyond)
    return context.found(
        "E0322", ("load", "max_duration_s"),
        f"the load is too short for {percentile} (target {', '.join(targets)}): {load.rate_rps:g} requests/s over at most "
        f"{load.max_duration_s:g} s leave {got} beyond it",
        expected=f"at least {BEYOND} samples beyond the percentile", hint=f"set `max_duration_s: {needed}`, or a higher rate",
    )  # fmt: skip


def waivers(context: Context) -> Iterator[Diagnostic]:
    node = context.sources.node(("targets",))
    targets = tuple(node.items) if isinstance(node, Mapping) else ()
    seen: dict[tuple[str, str, str], int] = {}
    for number, waiver in enumerate(context.spec.waivers):
        path: KeyPath = ("waivers", number)
        key = (waiver.target, waiver.gate, waiver.verdict)
        if waiver.target not in targets:
            yield context.found("E0323", (*path, "target"), f"a waiver for `{waiver.target}`, which is no target",
                                expected=listed(targets), hint=did_you_mean(waiver.target, targets, "name a target"))  # fmt: skip
        if key in seen:
            line = context.sources.span(("waivers", seen[key], "target")).line
            yield context.found("E0323", path, f"the waiver of line {line} says the same ({', '.join(key)})",
                                expected="one waiver for each target, gate and verdict", hint="remove one of them")  # fmt: skip
        if waiver.expires < context.today:
            yield context.found("E0325", (*path, "expires"), f"the waiver for {', '.join(key)} expired on "
                                f"{waiver.expires}", expected=f"{context.today} or later",
                                hint="remove it, or let its owner renew it", severity="warning")  # fmt: skip
        seen.setdefault(key, number)


def request_fields(context: Context) -> Iterator[Diagnostic]:
    for name, field in context.spec.request.items():
        for key in ("dtype", "shape"):
            if field.type != "tensor" and getattr(field, key) is not None:
                yield context.found("E0217", ("request", name, key), f"`{key}` of the {field.type} field `{name}`",
                                    on="key", expected="dtype and shape for `type: tensor` only", hint="remove it")  # fmt: skip


def requirements(context: Context) -> Iterator[Diagnostic]:
    for number, text in enumerate(context.spec.model.code.requirements):
        if not _PINNED.fullmatch(text):
            yield context.found("E0338", ("model", "code", "requirements", number), f"`{text}` is no exact version",
                                expected="name==1.2.3", hint="pin it: what ships is what was proved")  # fmt: skip


def finite(context: Context) -> Iterator[Diagnostic]:
    """Numbers in places without a type of their own (a factory's config, a range)."""
    told = {(problem.line, problem.col) for problem in (*context.draft.problems, *context.pipes.problems)}
    for path, node in _walk(context.sources.root, ()):
        if not is_finite(node.value) and (node.span.line, node.span.col) not in told and path[0] != "targets":
            yield context.found("E0206", path, f"`{dotted(path)}` is {node.written}", expected="a finite number",
                                hint="write a number")  # fmt: skip


def _walk(node: Node, path: KeyPath) -> Iterator[tuple[KeyPath, Scalar]]:
    match node:
        case Scalar():
            yield path, node
        case Sequence(items=items):
            for number, item in enumerate(items):
                yield from _walk(item, (*path, number))
        case Mapping(items=items):
            for key, (_, value) in items.items():
                yield from _walk(value, (*path, key))
