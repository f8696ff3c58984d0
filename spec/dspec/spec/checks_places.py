"""Checks of where steps run, across steps: the order of places, what enters the graph, and what still leaves it."""

from __future__ import annotations

from collections.abc import Iterator

from dspec.spec.boundary import boundary
from dspec.spec.context import Context
from dspec.spec.doors import Doors, doors
from dspec.spec.errors import Diagnostic
from dspec.spec.models import Policy, Spec
from dspec.spec.nearest import listed
from dspec.spec.nodes import KeyPath
from dspec.spec.placement import ORDER, Misplaced, moved, offered, out_of_order


def order(context: Context) -> Iterator[Diagnostic]:
    """A request goes from the caller to the host to the graph, and back the same way."""
    for section, found in _late(context):
        yield _told(context, section, found, "E0349")


def _late(context: Context) -> Iterator[tuple[str, Misplaced]]:
    """Steps whose place is not offered at all are told elsewhere."""
    for section in ORDER:
        uses, known = getattr(context.pipes, section), context.catalogue.steps
        steps = [step for step in uses if step.place in offered(known[step.use].places)]
        yield from ((section, found) for found in out_of_order(section, steps))


def enters(context: Context) -> Iterator[Diagnostic]:
    """The graph takes and gives arrays whose dtype and shape are known."""
    for found in _doors(context).problems:
        before = any(step.id == found.step for step in context.pipes.preprocess)
        yield _told(context, "preprocess" if before else "postprocess", found, "E0350")


def crosses(context: Context) -> Iterator[Diagnostic]:
    """The caller hands the bundle what a request can hold."""
    if _followed(context):
        for found in boundary(_wired(context), context.catalogue).problems:
            yield _told(context, "preprocess", found, "E0353")


def leaves(context: Context) -> Iterator[Diagnostic]:
    """Tolerances and metrics are about what the graph takes and gives, not about what stays inside it."""
    spec = _wired(context)
    ports = _doors(context)
    if not ports.outputs:  # nothing is fused, or capture finds what leaves
        return
    for path, name in _named(spec):
        inside = name in {**spec.model.inputs, **spec.model.outputs} and name not in {**ports.inputs, **ports.outputs}
        if inside:
            offered = ports.inputs if name in spec.model.inputs else ports.outputs
            yield context.found("E0351", path, f"`{name}` stays inside the graph, where nothing is compared",
                                on="key" if path[-1] == name else "value", expected=listed(offered),
                                hint=f"name what crosses the graph's door, or keep the steps next to `{name}` on the host")  # fmt: skip


def _named(spec: Spec) -> Iterator[tuple[KeyPath, str]]:
    """Inputs and outputs of the model that limits name, with their places."""
    policies: list[tuple[KeyPath, Policy]] = []
    for name, policy in spec.tolerance.outputs.items():
        yield ("tolerance", "outputs", name), name
        policies.append((("tolerance", "outputs", name), policy))
    if spec.tolerance.default:
        policies.append((("tolerance", "default"), spec.tolerance.default))
    for path, policy in policies:
        for key in ("valid", "selects"):
            if name := getattr(policy, key):
                yield (*path, key), name
    for number, asked in enumerate(spec.quality):
        if asked.of not in spec.response:
            yield ("quality", number, "of"), asked.of


def _wired(context: Context) -> Spec:
    pipes = context.pipes
    parts = {name: getattr(pipes, name) for name in ("request", "preprocess", "postprocess", "response")}
    return context.spec.model_copy(update=parts)


def _doors(context: Context) -> Doors:
    """None where nothing is moved, or another check tells why."""
    if not _followed(context):
        return Doors(inputs={}, outputs={}, problems=())
    return doors(_wired(context), context.catalogue)


def _followed(context: Context) -> bool:
    """Whether steps are moved, and each fits what it reads and reads nothing that comes later."""
    faulty = any(problem.severity == "error" for problem in context.pipes.problems)
    return moved(_wired(context)) and not faulty and not any(_late(context))


def _told(context: Context, section: str, found: Misplaced, code: str) -> Diagnostic:
    """At the step's `place`; the order of steps in the file is that of the wiring."""
    known = [step for step in context.pipes.checked if step.path[0] == section and step.entry is not None]
    uses = getattr(context.pipes, section)
    path = next(step.path for step, use in zip(known, uses, strict=True) if use.id == found.step)
    return context.found(code, (*path, "place"), found.message, expected=found.expected, hint=found.hint)
