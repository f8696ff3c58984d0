"""PyTorch, eager: the exported program or the user's own module, in inference mode. Travels in bundles as `dspec_bundle/engine_eager.py`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Read when torch loads its OpenMP. Threads that spin at every barrier take the core that the others wait for: with four
# busy processes beside it on two cores, a call takes 45 ms so, and over 250 ms with the default.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

import torch

# Beside these modules is where it runs.
from .arrays import Array  # type: ignore[import-untyped] # noqa: TID252
from .cores import usable_cores  # type: ignore[import-untyped] # noqa: TID252
from .errors import EngineError  # type: ignore[import-untyped] # noqa: TID252

KNOWN = {"intra_op_threads", "serve"}


class Eager:
    """`run` may be called from several threads."""

    def __init__(self, module: Any, inputs: tuple[str, ...], outputs: tuple[str, ...], facts: dict[str, str]) -> None:
        self._module, self._inputs, self._outputs, self.facts = module, inputs, outputs, facts

    def run(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs by name, in the interface's order."""
        try:
            with torch.inference_mode():
                found = self._module(*(torch.from_numpy(_own(tensors[name])) for name in self._inputs))
                return {name: one.numpy(force=True) for name, one in zip(self._outputs, found, strict=True)}
        except Exception as error:
            raise EngineError(f"PyTorch: {type(error).__name__}: {str(error).splitlines()[0][:300]}") from error


def _own(array: Array) -> Array:
    """Writable, as torch wants it: a tensor over bytes of a request is not."""
    return array if array.flags.writeable else array.copy()


def open_engine(folder: Path, manifest: Mapping[str, Any]) -> Eager:
    """The module of the bundle, its weights loaded; EngineError where it can't be read."""
    options = manifest["options"]
    unknown = sorted(set(options) - KNOWN)
    if unknown:
        raise EngineError(f"unknown option {unknown[0]!r}; there are {', '.join(sorted(KNOWN))}")
    cores = usable_cores(int(manifest["cores"]))
    threads = int(options.get("intra_op_threads") or cores)
    torch.set_num_threads(threads)
    path = folder / manifest["model"]["path"]
    own = manifest["model"].get("format") == "sources"
    module = _from_sources(path) if own else _from_program(path)
    interface = manifest["interface"]
    facts = {
        "engine": f"torch {torch.__version__}",
        "provider": "eager",
        "module": "from its sources" if own else "the exported program",
        "cores": str(cores),
        "intra_op_threads": str(threads),
    }
    return Eager(module, tuple(interface["inputs"]), tuple(interface["outputs"]), facts)


def _from_sources(path: Path) -> Any:
    from .source_module import open_module  # noqa: TID252

    return open_module(path)


def _from_program(path: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.export.load(path).module(check_guards=False)  # the door has checked every size
    except Exception as error:
        raise EngineError(f"PyTorch can't load {path.name}: {type(error).__name__}: {error}") from error
