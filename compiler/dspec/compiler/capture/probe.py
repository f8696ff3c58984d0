"""Two calls of the original module before it is exported: what it returns, what it changes, whether it repeats itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dspec.compiler.capture.binding import Answers, bind_outputs
from dspec.compiler.capture.diagnose import Trials
from dspec.compiler.capture.eager import to_numpy
from dspec.compiler.capture.module import State
from dspec.compiler.capture.shapes import Array, Arrays, Sizes, words
from dspec.spec.errors import DspecError, ExportError
from dspec.spec.models import Spec


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """What two calls showed.

    Attributes:
        answers: how outputs are found in what forward returns.
        changed: positions of inputs that forward modifies in place.
        repeats: whether the second call gave the very same bits.
        state: what hung on the module before the first call.
    """

    answers: Answers
    changed: frozenset[int]
    repeats: bool
    state: State


def probe(trials: Trials, arrays: Arrays, spec: Spec, sizes: Sizes) -> Probe:
    """Call forward twice on `arrays`; raises ExportError for state it leaves behind, SpecError for outputs it lacks."""
    eager = trials.eager
    before = State.of(eager.module)
    first_in, second_in = eager.tensors(arrays), eager.tensors(arrays)
    first = _call(trials, first_in, sizes)
    answers = bind_outputs(first, tuple(spec.model.outputs), eager.code.spec_file, {})
    kept = _bits(answers, first)
    before.check(eager.module)
    second = _bits(answers, _call(trials, second_in, sizes))
    before.check(eager.module)
    untouched = eager.tensors(arrays)
    changed = [n for n, (a, b) in enumerate(zip(first_in, untouched, strict=True)) if not torch.equal(a, b)]
    repeats = all(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc") for a, b in zip(kept, second, strict=True))
    return Probe(answers=answers, changed=frozenset(changed), repeats=repeats, state=before)


def _call(trials: Trials, tensors: Any, sizes: Sizes) -> Any:
    with trials.eager.code.watch.running():
        try:
            return trials.eager.result(tensors)
        except Exception as error:
            raise trials.explain(error, sizes, words(sizes)) from error


def _bits(answers: Answers, result: Any) -> list[Array]:
    dense = (tensor for tensor in answers.select(result) if tensor.layout is torch.strided)
    return [to_numpy(tensor) for tensor in dense]


def differs() -> DspecError:
    """The error about a module that answers the same question differently, without a random operator in its graph."""
    return ExportError.of(
        "E0433",
        "a second call with the same inputs gave another answer",
        hint="look for state outside the module: globals, counters, Python's or numpy's random numbers, the clock",
        key="model.factory",
    )
