"""Give a converted graph the interface's names and dims, and take out what belongs to this machine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import onnx_ir as ir

from dspec.spec.errors import ExportError
from dspec.spec.records import Interface
from dspec.targets.artifacts import dim_text
from dspec.targets.artifacts.fx_origin import ORIGIN, Origin

GRAPH_NAME = "main_graph"


def bind(model: ir.Model, interface: Interface, symbols: Mapping[str, str]) -> None:
    """Rename inputs, outputs and dims to the interface's; inner values make room for them.

    `symbols` maps exported symbols to declared dims.

    Raises:
        ExportError: E0503 a dynamic size became a constant or another expression, E0515 inputs or outputs are missing.
    """
    graph = model.graph
    _check_counts(graph, interface)
    _separate_outputs(graph)
    _rename_values(graph, interface)
    names = _dim_names(graph, interface, symbols)
    for value in _values(graph):
        _rename_dims(value, names)
    _declare_outputs(graph, interface)


def strip(model: ir.Model) -> None:
    """Clear metadata and doc strings everywhere, and order the initializers by name.

    The exporter writes stack traces with absolute paths, and its own version, into them.
    """
    model.metadata_props.clear()
    model.doc_string = None
    model.producer_name, model.producer_version = "pytorch", ""
    model.graph.name = GRAPH_NAME
    parts: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    for part in parts:
        part.metadata_props.clear()
        part.doc_string = None
        for node in ir.traversal.RecursiveGraphIterator(part):
            _strip_node(node)
    for value in _values(model.graph):
        value.metadata_props.clear()
        value.doc_string = None
    _sort_initializers(model.graph)


def _check_counts(graph: ir.Graph, interface: Interface) -> None:
    for what, found, declared in (
        ("inputs", len(graph.inputs), len(interface.inputs)),
        ("outputs", len(graph.outputs), len(interface.outputs)),
    ):
        if found != declared:
            raise ExportError.of(
                "E0515",
                f"the converted graph has {found} {what}",
                expected=f"{declared}, as the captured program has",
                hint="report it: the exporter lost or added one",
            )
    both = sorted(set(interface.inputs) & set(interface.outputs))
    if both:
        raise ExportError.of(
            "E0515",
            f"{both[0]} is the name of an input and of an output",
            expected="names that occur once: ONNX has one namespace for both",
            hint=f"rename the output, for example {both[0]}_out",
        )


def _separate_outputs(graph: ir.Graph) -> None:
    """Each output is a value of its own: not an input, not a constant, not another output."""
    taken: set[ir.Value] = {*graph.inputs, *graph.initializers.values()}
    for index, value in enumerate(list(graph.outputs)):
        if value in taken:
            copy = ir.Node("", "Identity", [value], name=f"output_{index}_copy")
            copy.outputs[0].name = f"output_{index}_copy"
            copy.outputs[0].type, copy.outputs[0].shape = value.type, value.shape
            graph.append(copy)
            graph.outputs[index] = value = copy.outputs[0]
        taken.add(value)


def _rename_values(graph: ir.Graph, interface: Interface) -> None:
    bound = dict(zip(graph.inputs, interface.inputs, strict=True))
    bound |= dict(zip(graph.outputs, interface.outputs, strict=True))
    values = list(_values(graph))
    used = {str(value.name) for value in values} | set(bound.values())
    for value in values:
        if value not in bound and value.name in set(bound.values()):
            value.name = _fresh(value.name, used)
    for value, name in bound.items():
        value.name = name


def _fresh(name: str | None, used: set[str]) -> str:
    number = 1
    while f"{name}_{number}" in used:
        number += 1
    used.add(f"{name}_{number}")
    return f"{name}_{number}"


def _dim_names(graph: ir.Graph, interface: Interface, symbols: Mapping[str, str]) -> dict[str, str]:
    """Text of an exported size → declared dim; an input's declared dim stands for its whole expression."""
    names = dict(symbols)
    for (name, port), value in zip(interface.inputs.items(), graph.inputs, strict=True):
        for axis, (declared, found) in enumerate(
            zip(dim_text.settled(port.shape, interface.dims), _sizes(value), strict=True)
        ):
            if isinstance(declared, str) and isinstance(found, str):
                names.setdefault(found, declared)
            elif declared != found:
                raise _frozen(f"axis {axis} of input {name}", declared, found, value)
    return names


def _rename_dims(value: ir.Value, names: Mapping[str, str]) -> None:
    if value.shape is None:
        return
    sizes = [size if isinstance(size, int) else dim_text.renamed(size, names) for size in _sizes(value)]
    value.shape = ir.Shape([size if isinstance(size, int) else size or None for size in sizes])


def _declare_outputs(graph: ir.Graph, interface: Interface) -> None:
    """The declared text stands where it says the same as the graph; where it does not, the graph is wrong."""
    for (name, port), value in zip(interface.outputs.items(), graph.outputs, strict=True):
        found = _sizes(value)
        if len(found) != len(port.shape):
            raise _frozen(f"the rank of output {name}", len(port.shape), len(found), value)
        for axis, (declared, size) in enumerate(zip(port.shape, found, strict=True)):
            if not dim_text.same(declared, size, interface.dims):
                raise _frozen(f"axis {axis} of output {name}", declared, size, value)
        value.shape = ir.Shape(list(dim_text.settled(port.shape, interface.dims)))


def _frozen(what: str, declared: int | str, found: int | str, value: ir.Value) -> ExportError:
    producer = value.producer()
    origin = producer.meta.get(ORIGIN, Origin()) if producer is not None else Origin()
    became = "the constant " if isinstance(found, int) and isinstance(declared, str) else ""
    return ExportError.of(
        "E0503",
        f"{what} became {became}{found}",
        expected=f"{declared}, as declared",
        hint="keep sizes symbolic in forward(): use x.shape[i] and -1 rather than numbers, and no Python loop over"
        " a dynamic axis",
        file=origin.file,
        line=origin.line,
    )


def _sizes(value: ir.Value) -> list[int | str]:
    """Sizes as numbers or texts; "" where nothing is known."""
    dims = () if value.shape is None else value.shape
    return [dim if isinstance(dim, int) else str(dim.value or "") for dim in dims]


def _values(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from graph.inputs
    yield from graph.initializers.values()
    for node in ir.traversal.RecursiveGraphIterator(graph):
        yield from node.outputs
        for inner in _subgraphs(node):
            yield from inner.inputs
            yield from inner.initializers.values()


def _subgraphs(node: ir.Node) -> Iterator[ir.Graph]:
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def _strip_node(node: ir.Node) -> None:
    node.metadata_props.clear()
    node.doc_string = None
    for number, inner in enumerate(_subgraphs(node)):
        inner.metadata_props.clear()
        inner.doc_string = None
        inner.name = re.sub(r"[^\w.]", "_", inner.name or f"{node.name}_{number}")


def _sort_initializers(graph: ir.Graph) -> None:
    ordered = sorted(graph.initializers.values(), key=lambda value: str(value.name))
    graph.initializers.clear()
    for value in ordered:
        graph.register_initializer(value)
