"""The user's own module from its sources, as capture built and called it. Travels in bundles as `dspec_bundle/source_module.py`."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import random
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn

# Beside these modules is where it runs.
from .errors import EngineError  # type: ignore[import-untyped] # noqa: TID252
from .forward import Answers, bind  # type: ignore[import-untyped] # noqa: TID252

WEIGHTS, SOURCES = "weights.safetensors", "sources"
WRAPPED = ("DataParallel", "DistributedDataParallel")


class SourceModule:
    """Tensors in the order of the interface in, a tuple in its order out, as the exported program has it."""

    def __init__(self, module: nn.Module, described: Mapping[str, Any]) -> None:
        found = described["outputs"]
        self._module, self._call = module, bind(module.forward, tuple(described["inputs"]))
        self._answers = Answers(names=tuple(found["names"]), paths=tuple(found["paths"]), count=found["count"])
        self._copied = frozenset(described["copied"])

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        own = [tensor.clone() if number in self._copied else tensor for number, tensor in enumerate(tensors)]
        args, keywords = self._call.arguments(own)
        selected = self._answers.select(self._module(*args, **keywords))
        return tuple(one.float() if one.dtype is torch.bfloat16 else one for one in selected)


def open_module(path: Path) -> SourceModule:
    """`path`: model.json. Build the module, load its weights, put it in eval mode.

    Raises EngineError where code or weights do not give the module that was captured, ModuleNotFoundError for a library
    that its code imports and that is not installed.
    """
    described = json.loads(path.read_text(encoding="utf-8"))
    _plain_arithmetic()
    factory = described["factory"]
    try:
        module = _built(path.parent / SOURCES, factory, described["config"])
    except (ModuleNotFoundError, EngineError):
        raise
    except (Exception, SystemExit) as error:
        raise EngineError(f"{factory} can't build the module: {type(error).__name__}: {error}") from error
    _load(module, path.with_name(WEIGHTS), described["tied"])
    module.eval().requires_grad_(False)
    return SourceModule(module, described)


def _plain_arithmetic() -> None:
    """No fused attention path and no kernel of torch.compile, as when its answers were taken."""
    torch.backends.mha.set_fastpath_enabled(False)
    if "torch._dynamo" in sys.modules:
        torch.compiler.set_stance("force_eager")
    else:  # which would import it, for seconds
        os.environ["TORCH_COMPILE_DISABLE"] = "1"


def _built(sources: Path, factory: str, config: Mapping[str, Any]) -> nn.Module:
    sys.dont_write_bytecode = True  # for good: forward may import more, and a bundle stays as it was sealed
    sys.path.insert(0, str(sources))
    importlib.invalidate_caches()
    source, _, name = factory.partition(":")
    build: Callable[..., Any] = getattr(_imported(sources, source), name)
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    with torch.no_grad():
        made = build(**config)
    while hasattr(made, "_orig_mod") or type(made).__name__ in WRAPPED:
        made = made._orig_mod if hasattr(made, "_orig_mod") else made.module
    if not isinstance(made, nn.Module):
        raise EngineError(f"{factory} returned {type(made).__name__}, no module")
    return made


def _imported(sources: Path, source: str) -> ModuleType:
    if not source.endswith(".py"):
        return importlib.import_module(source)
    path, name = sources / source, source.removesuffix(".py").replace("/", ".")
    if all(part.isidentifier() for part in name.split(".")):
        module = importlib.import_module(name)
        if Path(getattr(module, "__file__", None) or "").resolve() == path.resolve():
            return module
    return _apart(f"_dspec_{path.stem.replace('-', '_')}", path)


def _apart(name: str, path: Path) -> ModuleType:
    """A file whose name a loaded module already has (queue.py), or that is no identifier, under a name of its own."""
    found = importlib.util.spec_from_file_location(name, path)
    assert found
    assert found.loader
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    found.loader.exec_module(module)
    return module


def _load(module: nn.Module, path: Path, tied: Mapping[str, str]) -> None:
    """Every tensor of the module from the file and every tensor of the file into the module, or EngineError."""
    from safetensors.torch import load_file

    stored = load_file(path)
    stored |= {alias: stored[name] for alias, name in tied.items()}
    state = {name: value for name, value in module.state_dict().items() if isinstance(value, torch.Tensor)}
    buffers = dict(module.named_buffers(remove_duplicate=False))
    computed = {name: stored[name] for name in stored if name in buffers and name not in state}
    _check("lacks", sorted(state.keys() - stored.keys()), path)
    _check("holds, which the module lacks,", sorted(stored.keys() - state.keys() - computed.keys()), path)
    _check("has in another shape or dtype", sorted(_unlike({**buffers, **state}, stored)), path)
    bare = any(value.is_meta for value in (*module.parameters(), *buffers.values()))
    module.load_state_dict({name: stored[name] for name in state}, strict=False, assign=bare)
    for name, value in computed.items():  # the very values that were proved, whatever computes them here
        _set(module, name, value)


def _unlike(state: Mapping[str, torch.Tensor], stored: Mapping[str, torch.Tensor]) -> Iterable[str]:
    lazy = nn.parameter.UninitializedTensorMixin  # type: ignore[attr-defined]
    for name, value in stored.items():
        held = state[name]
        if held.dtype != value.dtype or (not isinstance(held, lazy) and held.shape != value.shape):
            yield name


def _set(module: nn.Module, name: str, value: torch.Tensor) -> None:
    owner, _, leaf = name.rpartition(".")
    held = module.get_buffer(name)
    if held.is_meta:
        module.get_submodule(owner)._buffers[leaf] = value
    else:
        with torch.no_grad():
            held.copy_(value)


def _check(what: str, names: Sequence[str], path: Path) -> None:
    if names:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        raise EngineError(f"{path.name} {what} {', '.join(names[:3])}{more}: these sources build another module")
