"""PyTorch's answers to tensors other than the reference's, from the exported program: no user class is needed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dspec.spec.records import Interface
from dspec.targets.shipped.arrays import Array


class Answering:
    """The program of a folder, loaded when first asked."""

    def __init__(self, path: Path, interface: Interface) -> None:
        self.path, self.interface = path, interface
        self._module: Any = None

    def answers(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs by name; bfloat16 as float32. Whatever the program raises comes through."""
        import torch

        with _one_thread(), torch.inference_mode():
            module = self._loaded()
            tensors = [
                torch.from_numpy(np.array(arrays[name], order="C", copy=True)).to(getattr(torch, port.dtype))
                for name, port in self.interface.inputs.items()
            ]
            found = module(*tensors)
        pairs = zip(self.interface.outputs, found, strict=True)
        return {name: _plain(torch, tensor) for name, tensor in pairs}

    def _loaded(self) -> Any:
        if self._module is None:
            import torch

            self._module = torch.export.load(self.path).module()
        return self._module


@contextmanager
def _one_thread() -> Iterator[None]:
    """As the reference ran; the loader's remarks about its own internals are nobody's concern."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_num_threads(threads)


def _plain(torch: Any, tensor: Any) -> Array:
    wide = tensor.to(torch.float32) if tensor.dtype is torch.bfloat16 else tensor
    return np.array(wide.detach().numpy(), order="C", copy=True)
