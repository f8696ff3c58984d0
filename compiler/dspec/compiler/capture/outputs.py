"""The outputs of the exported program held against the declared ones: dtype, rank, every size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch

from dspec.compiler.capture.contract import Symbols
from dspec.compiler.capture.export import Exported
from dspec.compiler.capture.guards import in_words
from dspec.compiler.capture.places import Place, Places
from dspec.compiler.capture.shapes import grid, is_dynamic, least
from dspec.spec.dims import evaluate
from dspec.spec.errors import Diagnostic, DspecError, ExportError
from dspec.spec.models import Dim, DType, Tensor
from dspec.spec.records import Port

_DTYPES: tuple[DType, ...] = (
    "float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool",
)  # fmt: skip


class Outputs:
    """Checks and describes outputs. `dims` are all declared dims, those of outputs alone included."""

    def __init__(self, exported: Exported, symbols: Symbols, dims: Mapping[str, Dim], places: Places) -> None:
        self.exported, self.symbols, self.dims, self.places = exported, symbols, dims, places
        self.used = {name: dim for name, dim in dims.items() if name in set(symbols.dims.values())}
        self.unbacked: dict[str, str] = {}

    def ports(self, names: Sequence[str], declared: Mapping[str, Tensor], spec_file: str) -> dict[str, Port]:
        """Ports in the order of `names`; raises ExportError for every output that is not what the spec says."""
        nodes = {node.name: node for node in self.exported.program.graph.nodes}
        made = [(name, nodes[node]) for name, node in zip(names, self._nodes(), strict=True)]
        ports, found = {}, []
        for name, node in made:
            place = self.places.of_trace(node.meta.get("stack_trace") or "")
            value = node.meta["val"]
            problems = list(self._kind(name, value, place, spec_file))
            if not problems and name in declared:
                problems += self._declared(name, value, declared[name], place, spec_file)
            found += problems
            if not problems:
                tensor = declared.get(name)
                ports[name] = (
                    Port(dtype=tensor.dtype, shape=tensor.shape, range=tensor.range)
                    if tensor
                    else Port(dtype=_dtype(value), shape=self._shape(name, value, place, spec_file))
                )
        if found:
            raise ExportError(found)
        return ports

    def _nodes(self) -> tuple[str, ...]:
        return tuple(str(name) for name in self.exported.program.graph_signature.user_outputs)

    def _kind(self, name: str, value: Any, place: Place | None, spec_file: str) -> Iterator[Diagnostic]:
        if value.is_complex():
            hint = "return torch.view_as_real(x), or its magnitude and phase, as real tensors"
            yield _finding("E0423", f"output {name} is complex ({_dtype(value)})", name, hint, place, spec_file)
        elif value.layout is not torch.strided or _dtype(value) not in _DTYPES:
            what = _dtype(value) if value.layout is torch.strided else str(value.layout)
            hint = "return plain dense tensors of a dtype the spec knows"
            yield _finding("E0423", f"output {name} is {what}", name, hint, place, spec_file)

    def _declared(
        self, name: str, value: Any, declared: Tensor, place: Place | None, spec_file: str
    ) -> Iterator[Diagnostic]:
        if _dtype(value) != declared.dtype:
            message = f"output {name} is {_dtype(value)}, the spec says {declared.dtype}"
            hint = f"end forward with .to(torch.{declared.dtype}) (an autocast inside lets its own dtype out), or declare it"
            yield _finding("E0424", message, name, hint, place, spec_file)
        if len(value.shape) != len(declared.shape):
            message = f"output {name} has shape {self._words(value)}, the spec says {_list(declared.shape)}"
            yield _finding("E0425", message, name, "correct the shape in model.outputs", place, spec_file)
            return
        for axis, (size, wanted) in enumerate(zip(value.shape, declared.shape, strict=True)):
            if not self._agrees(size, wanted):
                got = self._size(size)
                message = f"output {name} has size {got} in axis {axis}, the spec says {wanted}"
                hint = f"its whole shape is {self._words(value)}: correct model.outputs, or the line"
                if wanted in self.used and wanted not in got:
                    message += f": it lost its `{wanted}` dim"
                yield _finding("E0425", message, name, hint, place, spec_file)

    def _agrees(self, size: Any, wanted: int | str) -> bool:
        form = _form(size)
        unknown = form.free_symbols - self.symbols.dims.keys()
        if unknown:
            fresh = isinstance(wanted, str) and wanted in self.dims and wanted not in self.used
            if fresh and form.is_Symbol:
                self.unbacked[str(form)] = str(wanted)
            return fresh
        fixed = {name: least(dim) for name, dim in self.dims.items() if not is_dynamic(dim)}
        for sizes in grid(self.used, limit=60):
            value = form.xreplace({s: sympy.Integer(v) for s, v in self.symbols.sizes(sizes).items()})
            try:
                expected = evaluate(wanted, {**fixed, **sizes}) if isinstance(wanted, str) else wanted
            except (KeyError, ValueError):
                return False
            if value != expected:
                return False
        return True

    def _shape(self, name: str, value: Any, place: Place | None, spec_file: str) -> tuple[int | str, ...]:
        """The shape of an output that the spec does not declare, in the spec's dims."""
        for size in value.shape:
            if _form(size).free_symbols - self.symbols.dims.keys():
                raise _data_size(name, self._words(value), place, spec_file)
        return tuple(int(_form(size)) if _form(size).is_number else self._size(size) for size in value.shape)

    def _size(self, size: Any) -> str:
        return in_words(_form(size), self.symbols.dims)

    def _words(self, value: Any) -> str:
        return _list(self._size(size) for size in value.shape)


def _finding(code: str, message: str, name: str, hint: str, place: Place | None, spec_file: str) -> Diagnostic:
    where: dict[str, Any] = place.details() if place else {"file": spec_file}
    return Diagnostic(code=code, message=message, key=f"model.outputs.{name}", hint=hint, **where)


def _data_size(name: str, shape: str, place: Place | None, spec_file: str) -> DspecError:
    message = f"output {name} has shape {shape}: a size depends on the data"
    hint = "declare the output in model.outputs with a dim of its own for that size (model.dims, with its max)"
    return ExportError(_finding("E0447", message, name, hint, place, spec_file))


def _form(size: Any) -> Any:
    return size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)


def _dtype(value: Any) -> str:
    return str(value.dtype).removeprefix("torch.")


def _list(shape: Any) -> str:
    return f"[{', '.join(map(str, shape))}]"
