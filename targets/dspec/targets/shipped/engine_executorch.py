"""ExecuTorch: the `.pte` on this machine's kernels, which measuring, self-test and callers in Python all use."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch  # first: the library below is linked against it
from executorch.extension.pybindings import _portable_lib as runtime

from .arrays import Array
from .cores import usable_cores
from .errors import EngineError

DEFAULTS: Mapping[str, Any] = {
    "delegate": "xnnpack",
    "min_delegated": 0.0,
    "threads": 0,
}  # the first two: decided at build
METHOD = "forward"
# runtime/core/error.h
CODES = {
    0x01: "an internal error",
    0x02: "the method is in no state to run",
    0x10: "this runtime does not support what the program asks for",
    0x11: "a kernel does not implement what the program asks for",
    0x12: "an input does not fit what the program was planned for: its dtype, its rank, or more numbers than planned",
    0x13: "a value of another type than the program has there",
    0x14: "this runtime lacks a kernel that the program needs",
    0x20: "something that the program names is not there, such as its delegate's backend",
    0x21: "memory ran out",
    0x22: "the file can't be read",
    0x23: "the file is no valid program",
    0x24: "the file's external data is not valid",
    0x25: "this machine's resources ran out",
    0x30: "the delegate is of another version than the program was lowered for",
    0x31: "memory ran out in the delegate",
    0x32: "the delegate's handle is not valid",
}
_CODE = re.compile(r"0x([0-9a-fA-F]+)")


class ExecuTorch:
    """One loaded method. `run` may be called from several threads, which take turns: a method runs one call at a time."""

    def __init__(self, method: Any, interface: Mapping[str, Any], facts: dict[str, str]) -> None:
        self._method, self._inputs, self._outputs = method, interface["inputs"], tuple(interface["outputs"])
        self._turn = threading.Lock()
        self.facts = facts

    def run(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs by name, in the interface's order; inputs of any strides are made contiguous."""
        given = [torch.from_numpy(_own(tensors[name])) for name in self._inputs]
        try:
            with self._turn:
                found = self._method.call(given, clone_outputs=True)
        except RuntimeError as error:
            shapes = ", ".join(f"{name} {tensors[name].dtype}{list(tensors[name].shape)}" for name in self._inputs)
            raise EngineError(f"ExecuTorch did not run on {shapes}: {in_words(str(error))}") from error
        return dict(zip(self._outputs, (one.numpy() for one in found), strict=True))


def _own(array: Array) -> Array:
    """Contiguous, in the order of its axes, and writable as torch wants it; a number without axes keeps having none."""
    whole = np.ascontiguousarray(array).reshape(array.shape)
    return whole if whole.flags.writeable else whole.copy()


def in_words(text: str) -> str:
    """ExecuTorch's message with its number in words; the first line alone."""
    first = (text.splitlines() or [""])[0]
    number = _CODE.search(first)
    said = CODES.get(int(number[1], 16)) if number else None
    return f"{said} (error {number[0]})" if number and said else first[:300]


def open_engine(folder: Path, manifest: Mapping[str, Any]) -> ExecuTorch:
    """The bundle's program, loaded; EngineError where options, kernels or interface do not fit."""
    options = _options(manifest["options"])
    cores = usable_cores(int(manifest["cores"]))
    threads = options["threads"] or cores
    path = folder / manifest["model"]["path"]
    lacking = sorted(set(manifest["model"].get("backends", ())) - set(runtime._get_registered_backend_names()))
    if lacking:
        raise EngineError(f"this ExecuTorch has no {lacking[0]}, which {path.name} delegates to")
    missing = sorted(set(manifest["model"].get("kernels", ())) - set(runtime._get_operator_names()))
    if missing:
        raise EngineError(f"this ExecuTorch lacks {', '.join(missing)}, which {path.name} calls")
    if runtime._threadpool_get_thread_count() != threads:  # one pool for all programs of the process
        runtime._unsafe_reset_threadpool(threads)
    try:
        method = runtime._load_program(str(path)).load_method(METHOD)
    except RuntimeError as error:
        raise EngineError(f"ExecuTorch can't load {path.name}: {in_words(str(error))}") from error
    interface = manifest["interface"]
    _check_interface(method.method_meta(), interface)
    return ExecuTorch(method, interface, _facts(manifest, cores, threads))


def _facts(manifest: Mapping[str, Any], cores: int, threads: int) -> dict[str, str]:
    backends = manifest["model"].get("backends", ())
    return {
        "engine": f"executorch {_version()}",
        "provider": " and ".join((*backends, "portable kernels")),
        "cores": str(cores),
        "threads": str(threads),
    }


def _version() -> str:
    try:
        return version("executorch")
    except PackageNotFoundError:
        return "of unknown version"


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(given) - set(DEFAULTS))
    if unknown:
        raise EngineError(f"unknown option {unknown[0]!r}; there are {', '.join(DEFAULTS)}")
    options = {**DEFAULTS, **given}
    if options["threads"] < 0:
        raise EngineError("threads is at least 0")
    return options


def _check_interface(meta: Any, interface: Mapping[str, Any]) -> None:
    for side, found in (("inputs", meta.num_inputs()), ("outputs", meta.num_outputs())):
        if found != len(interface[side]):
            raise EngineError(f"the program has {found} {side}; bundle.json declares {len(interface[side])}")
