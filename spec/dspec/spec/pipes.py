"""The whole way of a request: its fields, preprocess, the model's door, postprocess, the response."""

from __future__ import annotations

from dataclasses import dataclass, field

from dspec.spec.catalogue import Catalogue, Value
from dspec.spec.draft import Draft
from dspec.spec.errors import Diagnostic
from dspec.spec.fit import Held, describe, item_shape, misfit
from dspec.spec.flows import KINDS, known
from dspec.spec.models import Answer, RequestField, Spec, StepUse, Tensor
from dspec.spec.nearest import did_you_mean, listed
from dspec.spec.sources import SourceMap
from dspec.spec.steps import CheckedStep, read_steps
from dspec.spec.wiring import BOUND, MULTIPLE, Wiring, unused


@dataclass(frozen=True, kw_only=True, slots=True)
class Pipes:
    """Everything explicit; `checked` are the steps with their places in the file."""

    request: dict[str, RequestField]
    preprocess: tuple[StepUse, ...]
    postprocess: tuple[StepUse, ...]
    response: dict[str, Answer]
    checked: tuple[CheckedStep, ...]
    problems: tuple[Diagnostic, ...]


@dataclass(kw_only=True)
class _Assembly:
    draft: Draft
    sources: SourceMap
    catalogue: Catalogue
    problems: list[Diagnostic] = field(default_factory=list)

    @property
    def spec(self) -> Spec:
        return self.draft.spec


def assemble(draft: Draft, sources: SourceMap, catalogue: Catalogue) -> Pipes:
    """Read both pipelines, wire them and follow the types; faulty sections are not followed."""
    work = _Assembly(draft=draft, sources=sources, catalogue=catalogue)
    before, problems_before = read_steps(sources, "preprocess", catalogue)
    after, problems_after = read_steps(sources, "postprocess", catalogue)
    work.problems += problems_before + problems_after
    request = _request(work, before)
    pre = _before(work, request, before)
    post = _after(work, after)
    return Pipes(
        request=request,
        preprocess=tuple(pre.uses) if pre else (),
        postprocess=tuple(post.uses) if post else (),
        response=_response(work, post),
        checked=before + after,
        problems=tuple(work.problems),
    )


def _request(work: _Assembly, steps: tuple[CheckedStep, ...]) -> dict[str, RequestField]:
    """The declared fields, or each model input as a tensor of one item."""
    spec = work.spec
    if spec.request or not work.draft.sound("request"):
        return spec.request
    if steps and work.draft.sound("model.inputs/"):
        work.problems.append(work.sources.diagnostic(
            "E0327", ("preprocess",), "there are steps before the model, and no `request` that they could read",
            on="key", expected="`request` with the fields that a caller sends",
            hint="add for example `request: {text: {type: text}}`",
        ))  # fmt: skip
        return {}
    dims = spec.model.dims
    return {
        name: RequestField(type="tensor", dtype=tensor.dtype, shape=item_shape(tensor.shape, dims))
        for name, tensor in spec.model.inputs.items()
    }


def _field_value(declared: RequestField, catalogue: Catalogue) -> Value:
    return catalogue.value(KINDS[declared.type], declared.dtype, declared.shape)


def _before(work: _Assembly, request: dict[str, RequestField], steps: tuple[CheckedStep, ...]) -> Wiring | None:
    if not work.draft.sound("request", "model.inputs/") or (steps and not request):
        return None
    held = {name: Held(value=_field_value(declared, work.catalogue), origin=f"request field `{name}`")
            for name, declared in request.items()}  # fmt: skip
    inputs = tuple(work.spec.model.inputs)
    wiring = Wiring(
        sources=work.sources,
        catalogue=work.catalogue,
        held=held,
        in_flight=tuple(request) if len(request) == 1 else (),
        goal=inputs,
    )
    wiring.run(steps)
    work.problems += wiring.problems
    if work.draft.sound("model.dims", "model.inputs"):
        _check_door(work, wiring)
        _warn_padding(work, wiring, steps)
    _warn_unused(work, wiring)
    return wiring


def _check_door(work: _Assembly, wiring: Wiring) -> None:
    model = work.spec.model
    for name, tensor in model.inputs.items():
        held = wiring.held.get(name)
        if held is None:
            spare = unused(wiring.held, wiring.read)
            work.problems.append(work.sources.diagnostic(
                "E0312", ("model", "inputs", name), f"nothing gives the model's input `{name}`", on="key",
                expected=f"a step that writes `{name}`, or a request field of that name",
                hint=did_you_mean(name, spare, f"name it in `out` of a step; not read yet: {listed(spare)}"),
            ))  # fmt: skip
        elif (reason := misfit(held, tensor, model.dims)) and work.spec.request:
            work.problems.append(_misfit(work, name, held, reason))


def _warn_padding(work: _Assembly, wiring: Wiring, steps: tuple[CheckedStep, ...]) -> None:
    """Every request is padded to the greatest length, where the model takes shorter ones as well."""
    model = work.spec.model
    for step in steps:
        bound = step.params.get(BOUND)
        fed = [name for name, held in wiring.held.items() if held.path == step.path and name in model.inputs]
        if step.params.get("padding") != BOUND or not isinstance(bound, int) or not fed:
            continue
        size = item_shape(model.inputs[fed[0]].shape, model.dims)[0]
        if isinstance(size, str) and size in model.dims and model.dims[size].min < bound:
            work.problems.append(work.sources.diagnostic(
                "E0352", (*step.path, "padding"), f"every request is padded to {bound}, and takes as long as the longest: "
                f"`{size}` of `{fed[0]}` goes from {model.dims[size].min}", severity="warning",
                hint="`padding: longest`; or, where one length is meant, declare that size in the model's inputs",
            ))  # fmt: skip


def _misfit(work: _Assembly, name: str, held: Held, reason: str) -> Diagnostic:
    tensor = work.spec.model.inputs[name]
    bounded = held.bound is not None and "may be up to" in reason
    stepped = held.multiple is not None and "goes in steps of" in reason
    return work.sources.diagnostic(
        "E0319" if bounded else "E0316",
        (*held.path, BOUND if bounded else MULTIPLE if stepped else "out") if held.path else ("request", name),
        f"{held.origin} does not fit the model's input `{name}`: {reason}",
        on="value" if held.path else "key",
        expected=f"{tensor.dtype} [{', '.join(map(str, tensor.shape))}]",
        hint=f"`padding: longest` with `multiple_of: {reason.rpartition(' ')[2]}`" if stepped else _remedy(held, tensor, bounded),
        notes=(f"it gives {describe(held.value)}",),
    )  # fmt: skip


def _remedy(held: Held, tensor: Tensor, bounded: bool) -> str:
    if bounded:
        return "lower `max_length`, or raise the dim's `max`"
    found = held.value.shape or ()
    for to, turned in (("chw", (2, 0, 1)), ("hwc", (1, 2, 0))):
        if len(found) == 3 and tuple(found[axis] for axis in turned) == tensor.shape[-3:]:
            return f"the channel axis stands elsewhere: add `{{use: layout, to: {to}}}`"
    return "put a step in between, or correct the input's declaration"


def _warn_unused(work: _Assembly, wiring: Wiring) -> None:
    for name in unused(wiring.held, wiring.read):
        if name not in work.spec.model.inputs:
            held = wiring.held[name]
            what = f"`{name}`, from {held.origin}," if held.path else f"the request field `{name}`"
            work.problems.append(work.sources.diagnostic(
                "E0313", held.path or ("request", name), f"{what} is not used", on="key",
                hint="remove it, or let a step read it", severity="warning",
            ))  # fmt: skip


def _after(work: _Assembly, steps: tuple[CheckedStep, ...]) -> Wiring | None:
    if not work.draft.sound("model.outputs/", "model.dims/"):
        return None
    model = work.spec.model
    held = {
        name: Held(
            value=work.catalogue.value("tensor", tensor.dtype, known(item_shape(tensor.shape, model.dims))),
            origin=f"model output `{name}`",
        )
        for name, tensor in model.outputs.items()
    }
    wiring = Wiring(
        sources=work.sources,
        catalogue=work.catalogue,
        held=held,
        in_flight=tuple(held) if len(held) == 1 else (),
        open=not model.outputs,
    )
    wiring.run(steps)
    work.problems += wiring.problems
    return wiring


def _response(work: _Assembly, post: Wiring | None) -> dict[str, Answer]:
    """The declared response, or everything after the model that no step reads."""
    declared = work.spec.response
    if post is None or not work.draft.sound("response"):
        return declared
    if not declared:
        spare = unused(post.held, post.read)
        return {name: Answer.model_validate({"from": name}) for name in spare}
    for name, answer in declared.items():
        if answer.source not in post.held and not post.open:
            work.problems.append(work.sources.diagnostic(
                "E0314", ("response", name, "from"), f"the response takes `{answer.source}`, which nothing gives",
                expected=listed(post.held), hint=did_you_mean(answer.source, post.held, "name an output of the model"),
            ))  # fmt: skip
    return declared
