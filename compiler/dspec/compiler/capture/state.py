"""What calls leave on a module: nothing, or a table that does not depend on the request."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from dspec.spec.errors import DspecError, ExportError

_DEPTH = 3  # how deep containers on a module are searched for tensors


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """What hangs on a module at one moment: buffers by value, every other tensor by identity."""

    buffers: Mapping[str, torch.Tensor]
    kept: Mapping[str, torch.Tensor]

    @classmethod
    def of(cls, module: nn.Module) -> State:
        return cls(
            buffers={name: value.clone() for name, value in module.named_buffers() if not value.is_meta},
            kept=dict(_tensors_on(module)),
        )

    def left(self, module: nn.Module) -> dict[str, torch.Tensor]:
        """Tensors that hang on the module now and did not then; raises ExportError for a buffer that changed."""
        for name, value in module.named_buffers():
            if name not in self.buffers or not same(value, self.buffers[name]):
                raise mutated_buffer(name, module)
        return {name: value for name, value in _tensors_on(module) if self.kept.get(name) is not value}

    def check(self, module: nn.Module) -> None:
        """Raise ExportError naming what calls changed or left behind on the module.

        What every call computes anew to the same value is no state: the weight that weight_norm's hook sets, for one.
        """
        for name, value in self.left(module).items():
            if name not in self.kept or not same(value, self.kept[name]):
                raise kept_tensor(name)


def skeleton(module: nn.Module) -> nn.Module:
    """A copy that shares every tensor: what later calls hang on the module does not hang on it."""
    shared = {id(value): value for _, value in (*_tensors_on(module), *module.named_buffers())}
    return copy.deepcopy(module, dict(shared))


def mutated_buffer(name: str, module: nn.Module | None = None, **details: Any) -> DspecError:
    """The error about a buffer that a call changes."""
    owner = dict(module.named_modules()).get(name.rpartition(".")[0]) if module else None
    of = f" of {type(owner).__name__}" if owner is not None else ""
    return ExportError.of(
        "E0431",
        f"forward changes the buffer `{name}`{of}: an answer would depend on the requests before it",
        hint="compute it in the factory, or take the state as an input and return the new one as an output",
        **details,
    )


def kept_tensor(name: str) -> DspecError:
    """The error about a tensor that stays on the module."""
    return ExportError.of(
        "E0432",
        f"forward keeps a tensor on `self.{name}` between calls",
        hint="return it, or compute it in the factory and register it as a buffer",
    )


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Equal in shape, dtype and every value, NaN included."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return (
        torch.equal(torch.nan_to_num(one), torch.nan_to_num(other))
        if one.is_floating_point()
        else torch.equal(one, other)
    )


def _tensors_on(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor reachable from attributes of the module and its submodules, buffers left out."""
    for path, inner in module.named_modules():
        prefix = f"{path}." if path else ""
        for name, value in vars(inner).items():
            if name not in ("_buffers", "_modules"):
                label = prefix if name == "_parameters" else f"{prefix}{name}"
                yield from _within(value, label, 0)


def _within(value: Any, path: str, depth: int) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, Mapping) and depth < _DEPTH:
        for key, inner in list(value.items()):
            yield from _within(inner, f"{path}.{key}" if path and not path.endswith(".") else f"{path}{key}", depth + 1)
    elif isinstance(value, list | tuple | set | frozenset) and depth < _DEPTH:
        for number, inner in enumerate(value):
            yield from _within(inner, f"{path}[{number}]", depth + 1)
    elif (
        depth < _DEPTH
        and hasattr(value, "__dict__")
        and not isinstance(value, nn.Module | type)
        and not callable(value)
    ):
        yield from _within(vars(value), path, depth + 1)
