"""Where each step runs, and what crosses from one place to the next.

The caller does the `contract` steps, the host runs the bundle's own, and those in the `graph` are fused with the model:
contract → host → graph → model → graph → host → contract. What a step reads decides, not the order of the list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dspec.spec.models import Place, Spec, StepUse

ORDER: dict[str, dict[Place, int]] = {
    "preprocess": {"contract": 0, "host": 1, "graph": 2},
    "postprocess": {"graph": 0, "host": 1, "contract": 2},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Misplaced:
    """Why a step can't run where it is told to."""

    step: str
    message: str
    expected: str
    hint: str


def at(steps: Iterable[StepUse], place: Place) -> tuple[StepUse, ...]:
    """The steps that run there, in order."""
    return tuple(step for step in steps if step.place == place)


def moved(spec: Spec) -> bool:
    """Whether any step runs elsewhere than on the host."""
    return any(step.place != "host" for step in (*spec.preprocess, *spec.postprocess))


def fuses(spec: Spec) -> bool:
    """Whether any step runs in the graph."""
    return bool(at((*spec.preprocess, *spec.postprocess), "graph"))


def offered(places: Iterable[str]) -> tuple[str, ...]:
    """Where a step may run that dspec runs in `places`: a caller may do any step, golden vectors say how."""
    return (*places, "contract")


def out_of_order(section: str, steps: Sequence[StepUse]) -> list[Misplaced]:
    """Steps that read what only comes about later on the way of a request."""
    order, found = ORDER[section], []
    writers: dict[str, StepUse] = {}
    for step in steps:
        for name in step.inputs:
            writer = writers.get(name)
            if writer is not None and order[writer.place] > order[step.place]:
                found.append(_out_of_order(section, step, writer, name))
        writers |= dict.fromkeys(step.outputs, step)
    return found


def _out_of_order(section: str, step: StepUse, writer: StepUse, name: str) -> Misplaced:
    first, second = sorted((step.place, writer.place), key=lambda place: ORDER[section][place])
    guilty = step if writer.place == "host" else writer if step.place == "host" or section == "preprocess" else step
    other = step if guilty is writer else writer
    return Misplaced(
        step=guilty.id,
        message=f"step `{step.id}` ({_word(step.place)}) reads `{name}` of step `{writer.id}` ({_word(writer.place)})",
        expected=f"in {section}, {first} steps before {second} steps",
        hint=f"write `place: {guilty.place}` on step `{other.id}` too, or `place: {other.place}` here",
    )


def _word(place: Place) -> str:
    return {"host": "on the host", "graph": "in the graph", "contract": "by the caller"}[place]


def to_the_door(spec: Spec) -> Spec:
    """The spec without what comes after the model: a change there captures nothing anew."""
    return spec.model_copy(update={"postprocess": (), "response": {}})


def reads(steps: Iterable[StepUse]) -> list[str]:
    """What the steps take from outside, in the order they read it."""
    written: set[str] = set()
    found: dict[str, None] = {}
    for step in steps:
        found |= {name: None for name in step.inputs if name not in written}
        written |= set(step.outputs)
    return list(found)


def writes(steps: Iterable[StepUse]) -> list[str]:
    return [name for step in steps for name in step.outputs]


def fused_before(spec: Spec) -> tuple[StepUse, ...]:
    """The steps in the graph that some input of the model comes from; what leads nowhere is left out."""
    steps = at(spec.preprocess, "graph")
    wanted = {step.id for name in spec.model.inputs for step in cone(steps, name)}
    return tuple(step for step in steps if step.id in wanted)


def entries(spec: Spec) -> list[str]:
    """What enters the graph, in the order of the model's inputs: an input that steps of the graph make, by what they read."""
    steps = fused_before(spec)
    found: dict[str, None] = {}
    for name in spec.model.inputs:
        found |= dict.fromkeys(reads(cone(steps, name)) or [name])
    return list(found)


def cone(steps: Sequence[StepUse], name: str) -> tuple[StepUse, ...]:
    """The steps that `name` comes from."""
    wanted, kept = {name}, []
    for step in reversed(steps):
        if wanted & set(step.outputs):
            wanted |= set(step.inputs)
            kept.append(step)
    return tuple(reversed(kept))


def leaving(spec: Spec, outputs: Iterable[str]) -> list[str]:
    """What leaves the graph of a model with `outputs`: these, and what steps of the graph give, unless only the graph reads it."""
    steps = at(spec.postprocess, "graph")
    inner = {name for step in steps for name in step.inputs}
    asked = {name for step in spec.postprocess if step.place != "graph" for name in step.inputs}
    asked |= {answer.source for answer in spec.response.values()}
    return [name for name in (*outputs, *writes(steps)) if name not in inner or name in asked]
