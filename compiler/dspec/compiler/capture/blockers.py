"""An export that failed, in the user's terms: operator or expression, module path, line, and the cure."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from typing import Any

from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from dspec.compiler.capture.places import Place, Places
from dspec.spec.errors import DspecError, ExportError

_OPERATOR = re.compile(r"\b(?:torch\.ops\.)?((?:aten|prims|torchvision|quantized)(?:\.|::)\w+(?:\.\w+)?)")
_DATA = (GuardOnDataDependentSymNode, DataDependentOutputException)


def blocked(error: BaseException, module: nn.Module, places: Places) -> DspecError:
    """The ExportError for what torch.export raised over `module`."""
    chain = list(_chain(error))
    place = next((found for link in chain if (found := places.of_error(link)) and found.text), None)
    place = place or next((found for link in chain if (found := places.of_error(link))), None)
    where = _where(chain, module)
    data = next((link for link in chain if isinstance(link, _DATA)), None)
    if data is not None:
        return _data_dependent(data, where, place)
    root = chain[-1]
    operator = _operator(chain)
    what = f"{operator} can't be exported" if operator else "torch.export failed"
    return ExportError.of(
        "E0441",
        f"{what}{where}: {type(root).__name__}: {_first_line(root)}",
        hint="rewrite this line with tensor operations that torch can trace",
        **_details(place, str(root)),
    )


def _data_dependent(error: BaseException, where: str, place: Place | None) -> DspecError:
    line = f" (`{place.text}`)" if place and place.text else ""
    condition = re.search(r"data-dependent expression (.+?) \(unhinted", str(error))
    branches = bool(condition and re.match(r"(Eq|Ne)\(|.*[<>=]", condition[1]))
    if branches:
        what = "branches on a tensor's value"
        hint = "compute both sides and choose with torch.where(condition, a, b), or use torch.cond"
    else:
        what = "turns a tensor's value into a Python number"
        hint = "keep it a tensor: mask with torch.where instead of slicing to a computed length; a branch is torch.cond"
    operator = _operator([error])
    via = f" through {operator}" if operator else ""
    return ExportError.of("E0440", f"forward {what}{line}{via}{where}", hint=hint, **_details(place, ""))


def _details(place: Place | None, cause: str) -> dict[str, Any]:
    found = place.details() if place else {}
    lines = [line for line in cause.splitlines()[1:] if line.strip()][:6]
    return found | {"notes": (*found.get("notes", ()), *lines)}


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what caused it, outermost first."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _where(chain: list[BaseException], module: nn.Module) -> str:
    """` in Block at layers.3`: the innermost submodule that was running."""
    names = {id(inner): name for name, inner in module.named_modules()}
    frames = [frame for link in chain for frame, _ in traceback.walk_tb(link.__traceback__)]
    running = [frame.f_locals.get("self") for frame in frames if frame.f_code.co_name != "__call__"]
    known = [inner for inner in running if id(inner) in names]
    if not known:
        return ""
    path = names[id(known[-1])]
    return f" in {type(known[-1]).__name__}" + (f" at {path}" if path else "")


def _operator(chain: list[BaseException]) -> str:
    named = [getattr(link, "func", None) for link in chain]
    found = next((str(func) for func in named if func is not None), "")
    texts = [match[1].replace("::", ".") for link in chain if (match := _OPERATOR.search(str(link)))]
    return found or next(iter(texts), "")


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), "no message")
