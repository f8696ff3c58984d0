"""What a session answers while others ask it: quality is measured on the answers that parity asks for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dspec.compiler.caller import Caller
from dspec.compiler.measure.cases import Expected
from dspec.compiler.quality.labelled import Asked, Labelled, chosen, found, read_answers
from dspec.spec.records import QualityFound
from dspec.targets.protocol import Answer, Session
from dspec.targets.shipped.errors import BundleError, RequestError


@dataclass(kw_only=True, slots=True)
class Heard:
    """Keeps the first answer to each labelled fixture. `cases` says which fixture is being asked; one thread only.

    Attributes:
        names: the fields that are kept.
        pipeline: the content of the bundle's pipeline.json.
        of_golden: PyTorch's answers, of golden vectors.
        caller: does the last steps of a response where the bundle leaves them to it.
    """

    names: frozenset[str]
    pipeline: Mapping[str, Any]
    ours: Labelled = field(default_factory=lambda: Labelled())
    of_golden: Labelled = field(default_factory=lambda: Labelled())
    caller: Caller | None = None
    _now: Expected | None = None

    @classmethod
    def of_bundle(cls, bundle: Path, asked: Iterable[Asked]) -> Heard:
        """What the metrics need of this bundle's answers."""
        folder, names = bundle / "pipeline", frozenset(one.of for one in asked)
        pipeline = json.loads((folder / "pipeline.json").read_text())
        caller = Caller(pipeline, folder) if names and "contract" in pipeline else None
        return cls(names=names, pipeline=pipeline, caller=caller)

    def cases(self, cases: Iterable[Expected]) -> Iterator[Expected]:
        """The same cases, their labels noted."""
        for case in cases:
            self._now = case
            if case.kind == "fixture":
                self.ours.note(case)
            if case.response is not None and case.expected is not None:
                self.of_golden.note(case)
                self.of_golden.answers[case.id] = self._chosen(case.response, case.outputs)
            yield case

    def hear(self, answer: Answer) -> None:
        case = self._now
        if case is not None and case.expected is not None and case.id not in self.ours.answers:
            self.ours.answers[case.id] = self._chosen(self._whole(answer.response), answer.outputs)

    def _whole(self, response: Mapping[str, Any]) -> Mapping[str, Any]:
        """With what the caller's last steps give; where one of them fails, there is no answer to measure."""
        try:
            return response if self.caller is None else self.caller.after(response)
        except (RequestError, BundleError):
            return {}

    def _chosen(self, response: Mapping[str, Any], outputs: Mapping[str, Any]) -> dict[str, Any]:
        return chosen(response, outputs, self.names, self.pipeline)


@dataclass(frozen=True, kw_only=True, slots=True)
class Overheard:
    """A session as it is; what `ask` answers is heard too."""

    session: Session
    heard: Heard

    @property
    def facts(self) -> Mapping[str, str]:
        return self.session.facts

    @property
    def pids(self) -> tuple[int, ...]:
        return self.session.pids

    @property
    def together(self) -> int:
        return self.session.together

    def ask(self, request: Mapping[str, Any], *, tensors: bool = False, company: int = 1) -> Answer:
        answer = self.session.ask(request, tensors=tensors, company=company)
        self.heard.hear(answer)
        return answer

    def run(self, tensors: Mapping[str, Any]) -> Mapping[str, Any]:
        return self.session.run(tensors)

    def close(self) -> None:
        self.session.close()


def quality_found(heard: Heard, asked: Iterable[Asked], inputs: Mapping[str, Path]) -> QualityFound | None:
    """The figures of what was heard, beside PyTorch's: of stage `quality`, or of the golden vectors.

    None where nothing is asked or no fixture has a label.
    """
    reference = heard.of_golden
    if "answers" in inputs:
        reference = Labelled(
            expected=heard.ours.expected, same=heard.ours.same, answers=read_answers(inputs["answers"])
        )
    return found(asked, heard.ours, reference)
