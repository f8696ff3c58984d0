"""Parity: every output, over every fixture and shape point, asked twice, held against the reference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from dspec.compiler.measure.cases import Expected
from dspec.compiler.stage import Report
from dspec.spec.errors import DspecError
from dspec.spec.records import Case, OutputError
from dspec.targets.protocol import Answer, Session
from dspec.targets.shipped.compare import compare
from dspec.targets.shipped.errors import BundleError, RequestError
from dspec.targets.shipped.pipeline import Pipeline, to_json
from dspec.targets.shipped.selftest import differences

CALLS = (1, 2)
TOGETHER = 3  # the call among others


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What the spec's policies need to know of each output.

    Attributes:
        topk: which k; `mask`: the input that masks valid positions; `selects`: the input or output it has indices into.
    """

    topk: Mapping[str, tuple[int, ...]]
    mask: Mapping[str, str]
    selects: Mapping[str, str]

    @classmethod
    def read(cls, figures: Mapping[str, Any]) -> Wanted:
        """From the JSON form that `stages.figures` gives."""
        topk = {name: tuple(ks) for name, ks in figures["topk"].items()}
        return cls(topk=topk, mask=figures["mask"], selects=figures["selects"])


class Responses:
    """Holds each response against the bundle's own steps, run here on the outputs that came with it.

    A second response to one request is held against the first as well: steps that remember requests answer both calls of
    the same process alike only by chance.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._first: dict[str, Any] = {}

    def apart(self, case: str, call: int, answer: Answer) -> tuple[str, ...]:
        """Where the response differs, in words."""
        got = to_json(answer.response)
        try:
            made = to_json(self._pipeline.after(answer.outputs))
        except (RequestError, BundleError) as error:
            return (f"the bundle answered where its own steps, run here, fail: {error}",)
        found = [f"not what the steps make of the outputs: {words}" for words in differences(made, got)]
        if call == CALLS[0]:
            self._first[case] = got
        elif call in CALLS:
            found += [f"call {call} is answered otherwise: {words}" for words in differences(self._first[case], got)]
            del self._first[case]
        return tuple(found)


def parity_cases(
    session: Session,
    cases: Iterable[Expected],
    wanted: Wanted,
    report: Report,
    company: Session | None = None,
    *,
    responses: Responses,
) -> Iterator[Case]:
    """Each case, asked once for every call; and once more among others, of a `company` that runs several at once."""
    waiting: list[Expected] = []
    for number, expected in enumerate(cases, start=1):
        if number % 50 == 0:
            report(f"parity: {number} cases")
        for call in CALLS:
            yield _case(session, expected, call, wanted, responses)
        if company is not None and company.together > 1:
            waiting.append(expected)
            if len(waiting) == company.together:
                yield from _together(company, waiting, wanted, responses)
                waiting.clear()
    if company is not None and len(waiting) > 1:
        yield from _together(company, waiting, wanted, responses)


def _together(session: Session, cases: Sequence[Expected], wanted: Wanted, responses: Responses) -> list[Case]:
    """The cases, all asked at the same time: what a request's answer is must not depend on its company."""
    count = sum(case.request is not None for case in cases)
    with ThreadPoolExecutor(len(cases)) as pool:
        return list(pool.map(lambda case: _case(session, case, TOGETHER, wanted, responses, count), cases))


def _case(
    session: Session, expected: Expected, call: int, wanted: Wanted, responses: Responses, company: int = 1
) -> Case:
    try:
        door, got, answer = _ask(session, expected, company)
    except DspecError as error:
        reason = OutputError(broken=f"no answer: {error.diagnostics[0].message}")
        return Case(
            id=expected.id,
            kind=expected.kind,
            call=call,
            outputs=dict.fromkeys(expected.outputs, reason),
        )

    def held(name: str, mask: Any = None) -> OutputError:
        source = known[wanted.selects[name]] if name in wanted.selects else None
        return _error(expected.outputs[name], got.get(name), wanted.topk.get(name, ()), mask, source)

    known = {**expected.inputs, **expected.outputs}
    return Case(
        id=expected.id,
        kind=expected.kind,
        call=call,
        outputs={name: held(name) for name in expected.outputs},
        door={name: _error(value, door.get(name)) for name, value in expected.inputs.items()} if door else {},
        valid={name: held(name, expected.inputs[mask]) for name, mask in wanted.mask.items()},
        response=responses.apart(expected.id, call, answer) if answer else (),
    )


def _ask(
    session: Session, expected: Expected, company: int
) -> tuple[Mapping[str, Any], Mapping[str, Any], Answer | None]:
    """Tensors at the model's door, in and out. A fixture goes the whole way from its raw form, to a response."""
    if expected.request is None:
        return {}, session.run(expected.inputs), None
    answer = session.ask(expected.request, tensors=True, company=company)
    return answer.inputs, answer.outputs, answer


def _error(reference: Any, got: Any, topk: tuple[int, ...] = (), mask: Any = None, source: Any = None) -> OutputError:
    return OutputError.model_validate(compare(reference, got, topk=topk, mask=mask, source=source), strict=False)
