"""What a `.pte` promises, read back from the file and held against the interface."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from dspec.spec.errors import ExportError
from dspec.spec.models import Dim
from dspec.spec.records import Interface, Port
from dspec.targets.artifacts.dim_text import NotComputable, value
from dspec.targets.artifacts.pte_read import File, Planned


def check(file: File, interface: Interface) -> None:
    """Raises ExportError E0534 (sizes), E0505 (dtypes), E0515 (their number): a broken promise of the file."""
    for what, found, declared in (
        ("input", file.inputs, interface.inputs),
        ("output", file.outputs, interface.outputs),
    ):
        if len(found) != len(declared):
            raise _broken("E0515", f"the file has {len(found)} {what}s", f"{len(declared)}: {', '.join(declared)}")
        for planned, (name, port) in zip(found, declared.items(), strict=True):
            _check_port(f"{what} {name}", planned, port, interface.dims)


def check_strings(path: Path) -> None:
    """Raises ExportError E0516 where a folder of this machine stands in the file."""
    data = path.read_bytes()
    for place in (str(path.parent), str(Path.home()), sys.prefix, str(Path.cwd())):
        if len(place) > 1 and place.encode() in data:
            raise _broken("E0516", f"the file holds a path of this machine: {place}", "no path of the build machine")


def _check_port(what: str, planned: Planned | None, port: Port, dims: Mapping[str, Dim]) -> None:
    if planned is None:
        raise _broken("E0515", f"{what} is no tensor in the file", f"a tensor of {port.dtype}")
    if planned.dtype != port.dtype:
        raise _broken("E0505", f"{what} is {planned.dtype} in the file", f"{port.dtype}, as declared")
    expected = tuple(_greatest(port, dims))
    if any(size is not None and size != found for size, found in zip(expected, planned.shape, strict=True)):
        sizes = [found if size is None else size for size, found in zip(expected, planned.shape, strict=True)]
        raise _broken(
            "E0534", f"{what} is planned for {list(planned.shape)} in the file", f"{sizes}, the largest sizes declared"
        )


def _greatest(port: Port, dims: Mapping[str, Dim]) -> Iterator[int | None]:
    """None: a size that only running tells."""
    most = {name: dim.max for name, dim in dims.items() if dim.max is not None}
    for size in port.shape:
        try:
            yield value(size, most)
        except NotComputable:
            yield None


def _broken(code: str, message: str, expected: str) -> ExportError:
    hint = "report it with the model: the file broke a promise of the spec"
    return ExportError.of(code, message, expected=expected, hint=hint)
