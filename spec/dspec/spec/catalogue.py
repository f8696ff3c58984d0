"""What the language may name: steps and runtimes, described without importing what computes them.

The rooms that own steps and runtimes hand the language a `Catalogue`; it checks parameters and options with line and
column against the plain dataclasses found in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

Size = int | str | None  # a fixed size, the name of a declared dim, or not known before running


class Value(Protocol):
    """The type of one value in a pipeline: `kind`; dtype, shape and range where they are known.

    `shape` is of one item (no batch axis); `range` holds the least and the greatest number that may occur. None means
    not known before running.
    """

    @property
    def kind(self) -> str: ...
    @property
    def dtype(self) -> str | None: ...
    @property
    def shape(self) -> tuple[Size, ...] | None: ...
    @property
    def range(self) -> tuple[float, float] | None: ...


class Step(Protocol):
    """A step with its parameters filled in (an instance of `StepEntry.params`)."""

    def flow(self, *inputs: Any) -> tuple[Any, ...]:
        """The types it gives for the types it takes; raises ValueError in words for the user."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepEntry:
    """One pipeline step.

    Attributes:
        params: a standard-library dataclass, one field per parameter. A field with `metadata={"asset": True}` holds a
            file: in the spec a path or `{package, path, sha256}`, at run time an absolute path.
        takes: how many values it reads; `gives`: how many it writes.
        places: where it may run: host, graph, contract.
        requires: names of the distributions it needs at run time.
    """

    name: str
    params: type[Any]
    takes: int
    gives: int
    places: tuple[str, ...]
    requires: tuple[str, ...]
    summary: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimeEntry:
    """One runtime.

    Attributes:
        options: a standard-library dataclass, one field per option of `targets.<id>.options`.
        needs_max: whether each dynamic dim must have a `max`.
        places: the step places it can offer.
        hardware: the profiles it can serve, as shell patterns over profile names (`linux-*`).
    """

    name: str
    options: type[Any]
    needs_max: bool
    places: tuple[str, ...]
    hardware: tuple[str, ...]
    summary: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Catalogue:
    """Everything a spec may name. `value` makes a `Value`: `value(kind, dtype, shape)`."""

    steps: Mapping[str, StepEntry]
    runtimes: Mapping[str, RuntimeEntry]
    value: Callable[[str, str | None, tuple[Size, ...] | None], Value]
