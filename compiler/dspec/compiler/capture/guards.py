"""The rules over sizes that torch.export assumed, each with the user's line that made it so."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

import sympy  # type: ignore[import-untyped]
from torch import nn
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from dspec.compiler.capture.places import Place, Places

_MACHINERY = (
    "/torch/fx/experimental/",
    "/torch/__init__.py",
    "/torch/_export/",
    "/torch/utils/_",
    "/torch/overrides.py",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Guard:
    """A rule over symbols. `direct`: the user's own line compared the sizes, not the code of an operator.

    `module`: the innermost submodule that was running, as `LSTM at encoder.lstm`.
    """

    rule: Any
    place: Place | None
    direct: bool
    module: str = ""

    def matters(self) -> bool:
        """False for what operators ask about sizes 0 and 1, strides and special cases: the answers do not depend on it."""
        if self.direct or not isinstance(self.rule, sympy.core.relational.Relational):
            return True
        if isinstance(self.rule, sympy.Ne):
            return False
        bounds = [side for side in (self.rule.lhs, self.rule.rhs) if side.is_number]
        small = 1 if isinstance(self.rule, sympy.Eq) else 2
        return not any(bound <= small for bound in bounds)

    def holds(self, sizes: Mapping[Any, int]) -> bool:
        """Whether the rule holds at `sizes` (by symbol); a rule over anything else is not ours to judge."""
        if not self.rule.free_symbols <= sizes.keys():
            return True
        value = self.rule.xreplace({s: sympy.Integer(sizes[s]) for s in self.rule.free_symbols})
        return bool(value != sympy.false)


@contextlib.contextmanager
def noted_guards(places: Places, module: nn.Module) -> Iterator[list[Guard]]:
    """The list fills while torch.export runs in here.

    torch keeps the framework's line of a guard and forgets the user's, so it is taken when the guard is made.
    """
    found: list[Guard] = []
    names = {id(inner): name for name, inner in module.named_modules()}
    original: Callable[..., None] = ShapeEnv._log_guard

    def log_guard(env: Any, prefix: str, rule: Any, forcing_spec: bool) -> None:
        if prefix == "eval":
            frame = sys._getframe(1)
            place, direct = places.of_stack(frame), _direct(frame, places)
            found.append(Guard(rule=rule, place=place, direct=direct, module=_running(frame, names)))
        original(env, prefix, rule, forcing_spec)

    ShapeEnv._log_guard = log_guard  # type: ignore[method-assign, assignment]
    try:
        yield found
    finally:
        ShapeEnv._log_guard = original  # type: ignore[method-assign]


def _direct(frame: FrameType | None, places: Places) -> bool:
    while frame and any(part in frame.f_code.co_filename for part in _MACHINERY):
        frame = frame.f_back
    name = frame.f_code.co_filename if frame else ""
    return bool(places.own(name) or places.library(name))


def _running(frame: FrameType | None, names: Mapping[int, str]) -> str:
    while frame:
        inner = frame.f_locals.get("self")
        if id(inner) in names:
            return f"{type(inner).__name__} at {names[id(inner)]}" if names[id(inner)] else type(inner).__name__
        frame = frame.f_back
    return ""


def in_words(rule: Any, names: Mapping[Any, str]) -> str:
    """The rule with declared dims in place of symbols: `batch <= 16`."""
    swapped = rule.xreplace({symbol: sympy.Symbol(name, integer=True) for symbol, name in names.items()})
    for kind, sign in ((sympy.Eq, "=="), (sympy.Ne, "!=")):
        if isinstance(swapped, kind):
            return f"{tidy(str(swapped.lhs))} {sign} {tidy(str(swapped.rhs))}"
    return tidy(str(swapped))


def tidy(text: str) -> str:
    """`((batch//2)) + 1` without the brackets that say nothing."""
    pairs, opened = {}, []
    for place, letter in enumerate(text):
        if letter == "(":
            opened.append(place)
        elif letter == ")" and opened:
            pairs[opened.pop()] = place
    double = {i for i, j in pairs.items() if pairs.get(i + 1) == j - 1 or (i, j) == (0, len(text) - 1)}
    dropped = double | {pairs[place] for place in double}
    return "".join(letter for place, letter in enumerate(text) if place not in dropped)
