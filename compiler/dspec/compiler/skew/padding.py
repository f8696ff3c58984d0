"""A text alone and the same text padded, as a server that stacks requests pads it: PyTorch must answer both alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dspec.compiler.measure.cases import Expected
from dspec.compiler.skew.program import Answering
from dspec.compiler.skew.replay import Link, Replay
from dspec.spec.records import Case, Interface, OutputError
from dspec.targets.shipped.arrays import Array
from dspec.targets.shipped.compare import compare
from dspec.targets.shipped.errors import BundleError, RequestError
from dspec.targets.shipped.pipeline import Pipeline
from dspec.targets.shipped.request import check_request

TOKENIZE = "tokenize"
WRITES = ("ids", "mask")  # what `outputs` of the step is where the spec does not say
TESTED = 3  # fixtures
MORE = 8  # tokens of padding at least, where the dim has room


@dataclass(frozen=True, kw_only=True, slots=True)
class Padded:
    """A tokenize step whose requests are padded when they are stacked.

    Attributes:
        at: its place among the steps.
        dim: the model's dim that counts its tokens; `ids` and `mask` are inputs; mask "": the model takes none.
    """

    at: int
    dim: str
    ids: str
    mask: str


def padded_step(steps: list[dict[str, Any]], interface: Interface) -> Padded | None:
    """The step to test, or None where no request is ever padded, or another input shares the dim."""
    batch = interface.dims.get(interface.batch or "")
    if batch is None or batch.max == 1:
        return None
    for at, step in enumerate(steps):
        params = step["params"]
        roles = dict(zip(params.get("outputs", WRITES), step["out"], strict=False))
        ids, mask = roles.get("ids", ""), roles.get("mask", "")
        if step["use"] != TOKENIZE or params.get("padding", "longest") != "longest" or ids not in interface.inputs:
            continue
        dim = _dim(ids, interface)
        sharing = {name for name, port in interface.inputs.items() if dim in port.shape}
        if dim and sharing <= set(step["out"]):
            return Padded(at=at, dim=dim, ids=ids, mask=mask if mask in sharing else "")
    return None


def _dim(name: str, interface: Interface) -> str:
    """The dim of that input that may grow, if it is one alone."""
    named = [size for size in interface.inputs[name].shape if isinstance(size, str) and size != interface.batch]
    grows = [
        name
        for name in named
        if interface.dims[name].max is None or interface.dims[name].max != interface.dims[name].min
    ]
    return grows[0] if len(named) == len(grows) == 1 else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PaddingTest:
    pipeline: Pipeline
    replay: Replay
    step: Padded
    answering: Answering

    def cases(self, fixtures: Iterable[Expected]) -> Iterator[Case]:
        """A few fixtures of different lengths, each padded and alone."""
        lengths: set[int] = set()
        for expected in fixtures:
            if expected.kind == "fixture" and len(lengths) < TESTED:
                length = expected.inputs[self.step.ids].shape[-1]
                more = self._longer(length)
                if length not in lengths and more > length and (case := self._case(expected, length, more)):
                    lengths.add(length)
                    yield case

    def _longer(self, length: int) -> int:
        dim = self.answering.interface.dims[self.step.dim]
        wanted = max(2 * length, length + MORE)
        most = wanted if dim.max is None else min(wanted, dim.max)
        return most // dim.multiple_of * dim.multiple_of

    def _case(self, expected: Expected, length: int, more: int) -> Case | None:
        assert expected.request is not None
        link = self.replay.links[self.step.at]
        try:
            longer = self.replay.with_params(link, **_to_length(link, more))
            door = self.pipeline.door.enter(self._values(expected, longer), {name: name for name in expected.inputs})
        except (RequestError, BundleError, ValueError):  # no padding token: then nothing is ever stacked
            return None
        if not self._same_text(expected, door, length):
            return None
        where = f"{expected.id} padded from {length} to {more} tokens"
        alone, padded = self.answering.answers(expected.inputs), self.answering.answers(door)
        found = {
            name: self._error(name, array, padded[name], self._own(expected, door, length))
            for name, array in alone.items()
        }
        told = {name: error for name, error in found.items() if error}
        return Case(id=where, kind="fixture", outputs=told) if told else None

    def _values(self, expected: Expected, longer: Link) -> dict[str, Any]:
        assert expected.request is not None
        values = check_request(self.pipeline.fields, expected.request)
        for at, link in enumerate(self.replay.links):
            values = (replace(longer) if at == self.step.at else link).on(values)
        return values

    def _own(self, expected: Expected, door: Mapping[str, Array], length: int) -> slice:
        """Where the text lies among the padded tokens."""
        whole = door[self.step.ids]
        left = np.array_equal(whole[..., -length:], expected.inputs[self.step.ids])
        right = np.array_equal(whole[..., :length], expected.inputs[self.step.ids])
        return slice(whole.shape[-1] - length, None) if left and not right else slice(length)

    def _same_text(self, expected: Expected, door: Mapping[str, Array], length: int) -> bool:
        own = self._own(expected, door, length)
        return np.array_equal(door[self.step.ids][..., own], expected.inputs[self.step.ids])

    def _error(self, name: str, alone: Array, padded: Array, own: slice) -> OutputError | None:
        """Padded positions left out; None for an output whose size follows the length in another way."""
        shape = self.answering.interface.outputs[name].shape
        for axis, declared in enumerate(shape):
            if declared == self.step.dim:
                padded = padded[(slice(None),) * axis + (own,)]
        if padded.shape != alone.shape:
            return None
        return OutputError.model_validate(compare(alone, np.ascontiguousarray(padded)), strict=False)


def _to_length(link: Link, length: int) -> dict[str, Any]:
    """The parameters under which the step itself pads to a length: with its own side and padding token."""
    plain = {"multiple_of": 1} if "multiple_of" in link.params else {}
    return {"padding": "max_length", "max_length": length, **plain}
