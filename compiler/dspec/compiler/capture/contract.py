"""What torch.export decided about sizes, held against the declared dims and reported in the spec's own words."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch

from dspec.compiler.capture.export import Exported
from dspec.compiler.capture.guards import Guard, in_words
from dspec.compiler.capture.shapes import Sizes, greatest, grid, is_dynamic, sweep
from dspec.spec.errors import Diagnostic, ExportError
from dspec.spec.models import BATCH, Dim

_SWEEP = 64
_RECURRENT = ("LSTM", "GRU", "RNN")


@dataclass(frozen=True, kw_only=True, slots=True)
class Symbols:
    """`dims`: every symbol that stands for a declared dim; `names`: those left in the program, by name."""

    dims: Mapping[Any, str]
    names: Mapping[str, str]

    def sizes(self, sizes: Sizes) -> dict[Any, int]:
        return {symbol: sizes[dim] for symbol, dim in self.dims.items() if dim in sizes}


def check_dims(exported: Exported, dims: Mapping[str, Dim], example: Sizes, spec_file: str) -> Symbols:
    """The symbols of the declared dims; raises ExportError for every dim that did not stay what the spec says."""
    env = _shape_env(exported)
    dynamic = {name: dim for name, dim in dims.items() if is_dynamic(dim)}
    first = {axis.dim: symbol for axis, symbol in reversed(list(exported.symbols.items()))}
    every = {symbol: axis.dim for axis, symbol in exported.symbols.items()}
    final = {name: sympy.sympify(env.replace(first[name]) if env else first[name]) for name in dynamic if name in first}
    guards = [guard for guard in _distinct(exported.guards) if guard.matters()]
    found = [*_constants(final, guards, every, spec_file), *_related(final, guards, every, spec_file)]
    broken = {finding.key.removeprefix("model.dims.") for finding in found}
    symbols = Symbols(
        dims=every | {form: name for name, form in final.items() if form.is_Symbol},
        names={str(form): name for name, form in final.items() if form.is_Symbol},
    )
    rest = {name: dim for name, dim in dynamic.items() if name in final and name not in broken}
    if not broken:
        found += _narrowed(guards, symbols, rest, example, spec_file)
        found += [] if found else _joint(guards, symbols, rest, spec_file)
    if found:
        raise ExportError(found)
    return symbols


def _shape_env(exported: Exported) -> Any:
    values = (node.meta.get("val") for node in exported.program.graph.nodes)
    tensors = (value for value in values if isinstance(value, torch.Tensor) and hasattr(value, "fake_mode"))
    return next((value.fake_mode.shape_env for value in tensors if value.fake_mode.shape_env), None)


def _distinct(guards: Iterable[Guard]) -> Iterator[Guard]:
    seen = set()
    for guard in guards:
        if guard.rule not in seen:
            seen.add(guard.rule)
            yield guard


def _finding(code: str, message: str, dim: str, hint: str, guard: Guard | None, spec_file: str) -> Diagnostic:
    place = guard.place if guard else None
    at = f" at {place}" if place else ""
    of = f", in {guard.module}" if guard and guard.module else ""
    where: dict[str, Any] = place.details() if place else {"file": spec_file}
    what, mark, more = message.partition("; ")
    return Diagnostic(code=code, message=f"{what}{at}{of}{mark}{more}", key=f"model.dims.{dim}", hint=hint, **where)


def _first(guards: Sequence[Guard], wanted: Callable[[Any], Any]) -> Guard | None:
    return next((guard for guard in guards if guard.place and wanted(guard.rule)), None)


def _fixes(symbols: set[Any], rule: Any) -> bool:
    return isinstance(rule, sympy.Eq) and bool(rule.free_symbols & symbols)


def _ties(dims: set[str], every: Mapping[Any, str], rule: Any) -> bool:
    return dims <= {every.get(symbol) for symbol in rule.free_symbols}


def _constants(
    final: Mapping[str, Any], guards: Sequence[Guard], every: Mapping[Any, str], spec_file: str
) -> Iterator[Diagnostic]:
    for name, form in final.items():
        if form.is_number:
            mine = {symbol for symbol, dim in every.items() if dim == name}
            guard = _first(guards, partial(_fixes, mine))
            unrolled = guard and guard.module.startswith(_RECURRENT)
            hint = (
                f"torch.export unrolls recurrent layers over time: declare the size as a number instead of {name}"
                if unrolled and name != BATCH
                else "use tensor operations over the whole axis: no Python loop over it, no int() or len() of it; "
                f"or declare the size as a number instead of {name}"
            )
            yield _finding("E0442", f"`{name}` became the constant {form}", name, hint, guard, spec_file)


def _related(
    final: Mapping[str, Any], guards: Sequence[Guard], every: Mapping[Any, str], spec_file: str
) -> Iterator[Diagnostic]:
    """Two dims that the model ties to one another."""
    names = list(final)
    words = {form: name for name, form in reversed(list(final.items())) if form.is_Symbol}
    for position, name in enumerate(names):
        form = final[name]
        others = [other for other in names[:position] if final[other].free_symbols & form.free_symbols]
        if others and not form.is_number:
            both = {name, others[0]}
            guard = _first(guards, partial(_ties, both, every))
            rule = "are always equal" if form == final[others[0]] else f"are tied: {name} = {in_words(form, words)}"
            hint = f"declare one dim for both, or change the line that ties {name} to {others[0]}"
            yield _finding("E0443", f"`{others[0]}` and `{name}` {rule}", name, hint, guard, spec_file)


def _narrowed(
    guards: Sequence[Guard], symbols: Symbols, dims: Mapping[str, Dim], example: Sizes, spec_file: str
) -> list[Diagnostic]:
    """Dims of which some declared size, alone, breaks a rule."""
    found = []
    for name, dim in dims.items():
        mine = [guard for guard in guards if name in _dims_of(guard, symbols)]

        def fits(size: int, name: str = name, mine: list[Guard] = mine) -> bool:
            sizes = symbols.sizes({**example, name: size})
            return all(guard.holds(sizes) for guard in mine)

        tried = {size: fits(size) for size in sweep(dim, _SWEEP)}
        if not all(tried.values()):
            refused = next(size for size, good in tried.items() if not good)
            at = symbols.sizes({**example, name: refused})
            guilty = next(guard for guard in mine if not guard.holds(at))
            found.append(_range_finding(name, dim, tried, fits, guilty, symbols, spec_file))
    return found


def _dims_of(guard: Guard, symbols: Symbols) -> set[str]:
    return {symbols.dims[symbol] for symbol in guard.rule.free_symbols if symbol in symbols.dims}


def _range_finding(
    name: str, dim: Dim, tried: Mapping[int, bool], fits: Any, guilty: Guard, symbols: Symbols, spec_file: str
) -> Diagnostic:
    good = [size for size, fine in tried.items() if fine]
    step = _step(tried)
    if step:
        message = f"`{name}` must be a multiple of {step}"
        hint = f"declare {name}: {{multiple_of: {step}}}, or change the line"
        return _finding("E0445", message, name, hint, guilty, spec_file)
    most = good and _edge(good, tried, fits)
    if most and all(fine == (size <= most) for size, fine in tried.items()):
        limit = "has no upper limit" if greatest(dim) is None else f"goes to {dim.max}"
        message = f"`{name}` must be at most {most}; the spec's {name} {limit}"
        return _finding("E0444", message, name, f"lower {name}.max to {most}, or change the line", guilty, spec_file)
    floor = next((size for size in tried if all(tried[other] for other in tried if other >= size)), None)
    if floor and not any(fine for size, fine in tried.items() if size < floor):
        message = f"`{name}` must be at least {floor}; the spec's begins at {dim.min}"
        return _finding("E0444", message, name, f"raise {name}.min to {floor}, or change the line", guilty, spec_file)
    rule = in_words(guilty.rule, symbols.dims)
    message = f"not every declared `{name}` works: {rule} is needed"
    return _finding("E0446", message, name, "restrict the dim, or change the line", guilty, spec_file)


def _step(tried: Mapping[int, bool]) -> int | None:
    """K where exactly the multiples of k fit."""
    fine = [size for size, good in tried.items() if good]
    step = fine[0] if len(fine) == 1 else min((b - a for a, b in itertools.pairwise(fine)), default=0)
    exact = step > 1 and all(good == (size % step == 0) for size, good in tried.items())
    return step if exact and len(tried) > 2 else None


def _edge(good: Sequence[int], tried: Mapping[int, bool], fits: Any) -> int:
    """The last size that fits, found by halving between the last good and the first refused size above it."""
    low = max(good)
    above = [size for size in tried if size > low]
    high = min(above, default=low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _joint(guards: Sequence[Guard], symbols: Symbols, dims: Mapping[str, Dim], spec_file: str) -> list[Diagnostic]:
    """Rules over several dims that some declared combination breaks."""
    found = []
    for guard in guards:
        names = _dims_of(guard, symbols)
        if len(names) < 2 or not names <= dims.keys():
            continue
        points = grid({name: dims[name] for name in sorted(names)}, limit=400)
        broken = next((point for point in points if not guard.holds(symbols.sizes(point))), None)
        if broken:
            both = " and ".join(f"`{name}`" for name in sorted(names))
            at = ", ".join(f"{name}={size}" for name, size in broken.items())
            message = f"{both} do not work together at {at}: {in_words(guard.rule, symbols.dims)} is needed"
            hint = "restrict the dims, or change the line"
            found.append(_finding("E0446", message, sorted(names)[0], hint, guard, spec_file))
    return found[:3]
