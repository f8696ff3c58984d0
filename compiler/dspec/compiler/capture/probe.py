"""Two calls of the original module before it is exported: what it returns, what it changes, whether it repeats itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from dspec.compiler.capture.answers import bind_outputs, structure_changed
from dspec.compiler.capture.diagnose import Trials
from dspec.compiler.capture.eager import to_numpy
from dspec.compiler.capture.shapes import Array, Arrays, Sizes, at_sizes, least, sizes_of, words
from dspec.compiler.capture.state import State, kept_tensor, same, skeleton
from dspec.spec.errors import DspecError, ExportError
from dspec.spec.models import Spec
from dspec.targets.shipped.forward import Answers, StructureError


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """What two calls showed.

    Attributes:
        answers: how outputs are found in what forward returns.
        changed: positions of inputs that forward modifies in place.
        repeats: whether the second call gave the very same bits.
        state: what may hang on the module.
        fresh: the module as it was before the first call, sharing its weights.
    """

    answers: Answers
    changed: frozenset[int]
    repeats: bool
    state: State
    fresh: nn.Module


def probe(trials: Trials, arrays: Arrays, spec: Spec, sizes: Sizes) -> Probe:
    """Call forward twice on `arrays`; raises ExportError for state it leaves behind, SpecError for outputs it lacks."""
    eager = trials.eager
    fresh, before = skeleton(eager.module), State.of(eager.module)
    first_in, second_in = eager.tensors(arrays), eager.tensors(arrays)
    first = _call(trials, first_in, sizes)
    answers = bind_outputs(first, tuple(spec.model.outputs), eager.code.spec_file, {})
    bits = _bits(answers, first)
    _check_left(before.left(eager.module), trials, fresh, arrays)
    state = State.of(eager.module)
    second = _bits(answers, _call(trials, second_in, sizes))
    state.check(eager.module)
    untouched = eager.tensors(arrays)
    changed = [n for n, (a, b) in enumerate(zip(first_in, untouched, strict=True)) if not torch.equal(a, b)]
    repeats = all(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc") for a, b in zip(bits, second, strict=True))
    return Probe(answers=answers, changed=frozenset(changed), repeats=repeats, state=state, fresh=fresh)


def _check_left(left: Mapping[str, torch.Tensor], trials: Trials, fresh: nn.Module, arrays: Arrays) -> None:
    """What stays on the module must be the same after another request: a table computed once, as LeViT's, is."""
    if not left:
        return
    module = skeleton(fresh)
    before = State.of(module)
    dataclasses.replace(trials, eager=dataclasses.replace(trials.eager, module=module)).works_on(_other(trials, arrays))
    again = before.left(module)
    for name, value in left.items():
        if name not in again or not same(value, again[name]):
            raise kept_tensor(name)


def _other(trials: Trials, arrays: Arrays) -> Arrays:
    """Another request: other values, at the least sizes that the module can run."""
    least_sizes = {name: least(dim) for name, dim in trials.dims.items()}
    fixed = sizes_of(arrays, trials.eager.inputs)
    small = at_sizes(trials.pool[::-1], trials.eager.inputs, {**fixed, **least_sizes}, trials.batch)
    chosen = small if trials.works_on(small) else arrays
    return {name: np.roll(array, 1) for name, array in chosen.items()}


def _call(trials: Trials, tensors: Any, sizes: Sizes) -> Any:
    with trials.eager.code.watch.running():
        try:
            return trials.eager.result(tensors)
        except Exception as error:
            raise trials.explain(error, sizes, words(sizes)) from error


def _bits(answers: Answers, result: Any) -> list[Array]:
    try:
        selected = answers.select(result)
    except StructureError as error:
        raise structure_changed(str(error), "the second time it is called") from error
    return [to_numpy(tensor) for tensor in selected if tensor.layout is torch.strided]


def differs() -> DspecError:
    """The error about a module that answers the same question differently, without a random operator in its graph."""
    return ExportError.of(
        "E0433",
        "a second call with the same inputs gave another answer",
        hint="look for state outside the module: globals, counters, Python's or numpy's random numbers, the clock",
        key="model.factory",
    )
