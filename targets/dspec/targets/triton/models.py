"""The models of a repository: what a spec and its options make of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from dspec.spec.catalogue import Value
from dspec.spec.models import RequestField
from dspec.spec.records import Interface, Port
from dspec.targets.triton.config import STRING, TYPES, Batching, Config, Edge, Part, Warmup, outer
from dspec.targets.triton.options import Options

LEVELS = {"all": None, "extended": 1, "basic": -1, "disabled": 2}  # as the ONNX Runtime backend counts them
DEFAULT_BATCH = 16
TYPICAL = 16  # of a dim, for the warm-up
NUMBERS = ("tensor", "number")


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """What the repository is made from.

    Attributes:
        fields: the request; `answers`: each field of the response → the type of its value for one item, as far as it is known.
        cores: granted to the server; `gpu`: whether the target's machine has one.
    """

    name: str
    version: str
    interface: Interface
    fields: Mapping[str, RequestField]
    answers: Mapping[str, Value | None]
    options: Options
    cores: int
    gpu: bool = False


def why_alone(interface: Interface) -> tuple[str, str]:
    """The input or output that keeps items from being stacked, and why; two empty texts where nothing does."""
    batch = interface.batch
    if batch is None:
        return "the model", "has no dim that counts items"
    dim = interface.dims[batch]
    if dim.multiple_of != 1 or dim.min > 1:
        return f"dim {batch}", f"takes no single item (min {dim.min}, multiple_of {dim.multiple_of})"
    sides = (("input", interface.inputs), ("output", interface.outputs))
    for side, name, port in ((side, name, port) for side, ports in sides for name, port in ports.items()):
        if batch not in port.shape:
            return f"{side} {name}", f"has no axis that counts items (shape {_words(port.shape)})"
        if port.shape[0] != batch:
            return (
                f"{side} {name}",
                f"counts items along axis {port.shape.index(batch)}, not the first ({_words(port.shape)})",
            )
    return "", ""


def most(interface: Interface, options: Options) -> int:
    """Items at once, at most; 0 where Triton may not batch."""
    if why_alone(interface)[0]:
        return 0
    assert interface.batch
    bound = interface.dims[interface.batch].max or options.max_batch or DEFAULT_BATCH
    return min(options.max_batch or bound, bound)


def configs(served: Served) -> tuple[Config, ...]:
    """Every model of the repository, `<name>` first."""
    model = model_config(served)
    if served.options.pipeline == "ensemble":
        before, after = _before(served, model), _after(served, model)
        return (_ensemble(served, before, model, after), before, model, after)
    return (_calls(served), model)


def model_config(served: Served) -> Config:
    """`<name>.model`: tensors in, tensors out, the weights."""
    options, at_once = served.options, most(served.interface, served.options)
    native = options.shape == "onnxruntime"
    return Config(
        name=f"{served.name}.model",
        version=int(served.version),
        backend="onnxruntime" if native else "python",
        file=file_of(options),
        max_batch=at_once,
        inputs=tensors(served.interface.inputs, at_once),
        outputs=tensors(served.interface.outputs, at_once),
        batching=_batching(options, at_once, waits=options.pipeline == "ensemble"),
        instances=options.instances,
        gpu=served.gpu,
        level=LEVELS[options.optimization] if native else None,
        parameters=_session(options, served.cores) if native else {},
        warmups=warmups(served.interface, at_once),
    )


def file_of(options: Options) -> str:
    """The weights' file in the version folder, where the backend reads it itself."""
    return "model.onnx" if options.shape == "onnxruntime" else "model.py"


def tensors(ports: Mapping[str, Port], at_once: int) -> tuple[Edge, ...]:
    """The model's inputs or outputs."""
    return tuple(_edge(name, TYPES[port.dtype], outer(port.shape, bool(at_once))) for name, port in ports.items())


def fields(served: Served) -> tuple[Edge, ...]:
    """The request's fields: texts, files and JSON as one string each, numbers as float64, tensors as they are."""
    return tuple(_field(name, field) for name, field in served.fields.items())


def _field(name: str, field: RequestField) -> Edge:
    if field.type == "number":
        return _edge(name, TYPES["float64"], ((1,), ()))
    if field.type == "tensor":
        return _edge(name, TYPES[field.dtype or "float32"], outer(field.shape or (None,), False))
    return _edge(name, STRING, ((1,), ()))


def answers(served: Served) -> tuple[Edge, ...]:
    """The response's fields: arrays and numbers whose dtype and rank are known as such, everything else as JSON in a string."""
    return tuple(_answer(name, value) for name, value in served.answers.items())


def _answer(name: str, value: Value | None) -> Edge:
    if (
        value is None
        or value.kind not in NUMBERS
        or value.dtype is None
        or value.shape is None
        or value.dtype not in TYPES
    ):
        return _edge(name, STRING, ((1,), ()))
    return _edge(name, TYPES[value.dtype], outer(value.shape, False))


def _edge(name: str, type: str, dims: tuple[tuple[int, ...], tuple[int, ...] | None]) -> Edge:
    return Edge(name=name, type=type, dims=dims[0], reshape=dims[1])


def _batching(options: Options, at_once: int, waits: bool) -> Batching | None:
    """Only where more than one may run: with a maximum of 0 or 1 there is nothing to wait for. Items wait in one place."""
    if at_once < 2:
        return None
    delay = round(options.max_delay_ms * 1000) if waits else 0
    return Batching(preferred=tuple(sorted(options.preferred_batch)), delay_us=delay)


def _calls(served: Served) -> Config:
    """`<name>`: the steps, in a process that calls the model."""
    at_once = max(1, most(served.interface, served.options))
    return Config(
        name=served.name,
        version=int(served.version),
        backend="python",
        file="model.py",
        max_batch=at_once,
        inputs=fields(served),
        outputs=answers(served),
        batching=_batching(served.options, at_once, waits=True),
        instances=served.options.instances,
    )


def _before(served: Served, model: Config) -> Config:
    return _steps(served, "before", model, fields(served), model.inputs)


def _after(served: Served, model: Config) -> Config:
    return _steps(served, "after", model, model.outputs, answers(served))


def _steps(served: Served, side: str, model: Config, inputs: Iterable[Edge], outputs: Iterable[Edge]) -> Config:
    return Config(
        name=f"{served.name}.{side}",
        version=int(served.version),
        backend="python",
        file="model.py",
        max_batch=model.max_batch,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        batching=_batching(served.options, model.max_batch, waits=False),
        instances=served.options.instances,
    )


def _ensemble(served: Served, before: Config, model: Config, after: Config) -> Config:
    """Tensors between the parts have the names of the model's door; fields those of the request and the response."""
    given = {edge.name: edge.name for edge in before.inputs}
    door = {edge.name: f"door.{edge.name}" for edge in model.inputs}
    out = {edge.name: f"model.{edge.name}" for edge in model.outputs}
    answered = {edge.name: edge.name for edge in after.outputs}
    return Config(
        name=served.name,
        version=int(served.version),
        backend="",
        max_batch=model.max_batch,
        inputs=tuple(replace(edge, reshape=None) for edge in before.inputs),  # the parts reshape; an ensemble must not
        outputs=tuple(replace(edge, reshape=None) for edge in after.outputs),
        parts=(
            Part(model=before.name, inputs=given, outputs=door),
            Part(model=model.name, inputs=door, outputs=out),
            Part(model=after.name, inputs=out, outputs=answered),
        ),
    )


def _session(options: Options, cores: int) -> dict[str, str]:
    """The session's options in the words of the ONNX Runtime backend; never 0 threads: ORT would count the host's cores."""
    return {
        "intra_op_thread_count": str(options.intra_op_threads or max(1, cores // options.instances)),
        "inter_op_thread_count": str(options.inter_op_threads),
        "enable_mem_arena": "1" if options.memory_arena else "0",
        "session.intra_op.allow_spinning": "1" if options.spinning else "0",
        "session.inter_op.allow_spinning": "1" if options.spinning else "0",
    }


def warmups(interface: Interface, at_once: int) -> tuple[Warmup, ...]:
    """One item, and as many as run at once, of a size that requests may have."""
    counts = sorted({1, at_once}) if at_once else [0]
    return tuple(_warmup(interface, at_once, count) for count in counts)


def _warmup(interface: Interface, at_once: int, count: int) -> Warmup:
    sizes = {name: typical(interface, name) for name in interface.dims}
    shapes = {
        name: tuple(size if isinstance(size, int) else sizes.get(size, 1) for size in port.shape)
        for name, port in interface.inputs.items()
    }
    given = {
        name: (TYPES[port.dtype], outer(shapes[name], bool(at_once))[0]) for name, port in interface.inputs.items()
    }
    lifted = {name for name, port in interface.inputs.items() if port.range and not port.range[0] <= 0 <= port.range[1]}
    return Warmup(
        name=f"batch {count}" if count else "one",
        batch=count,
        zeros={name: found for name, found in given.items() if name not in lifted},
        files={name: (*given[name], f"{name}.{count}") for name in lifted},
    )


def typical(interface: Interface, dim: str) -> int:
    """A size that the dim may have: a multiple, within its bounds; one item."""
    found = interface.dims[dim]
    if dim == interface.batch:
        return max(1, found.min)
    wanted = max(found.min, min(TYPICAL, found.max or TYPICAL), 1)
    up = -(-wanted // found.multiple_of) * found.multiple_of
    return up if found.max is None or up <= found.max else found.max // found.multiple_of * found.multiple_of


def _words(shape: Iterable[int | str]) -> str:
    return f"[{', '.join(map(str, shape))}]"
