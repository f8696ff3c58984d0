"""The kernels that the runtime of a hardware profile has, and what of a program it lacks."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path

from dspec.spec.errors import Diagnostic, ExportError
from dspec.spec.models import Spec, Target
from dspec.targets.protocol import Artifact

# Where the bundle's own runner is the runtime: the wheel's kernels, optimised ones among them. Elsewhere the app links a
# runtime of its own, and the portable library is what every build of it can hold.
WHEEL = ("host", "linux-")
_LINE = re.compile(r"^- (?:op|func): ([\w:.]+)")
_PRIMITIVE = ("executorch_prim::", "aten::sym_", "aten::_local_scalar_dense")  # in the core of every runtime
_FFT = "aten::_fft_"


def kernels_of(hardware: str) -> tuple[str, frozenset[str]]:
    """Whose kernels, in words, and their names (`aten::add.out`)."""
    here = _here()
    if hardware.startswith(WHEEL):
        return "the executorch wheel", here
    primitive = {name for name in here if name.startswith(_PRIMITIVE)}
    return "ExecuTorch's portable library", frozenset(primitive | set(_portable()))


def _here() -> frozenset[str]:
    """The kernels of the ExecuTorch installed here; its lowering side, which takes ten seconds to import, stays out."""
    import torch  # noqa: F401  # first: the library is linked against it
    from executorch.extension.pybindings import _portable_lib

    return frozenset(_portable_lib._get_operator_names())


def _portable() -> Iterator[str]:
    package = importlib.util.find_spec("executorch.kernels")
    folder = next(iter(package.submodule_search_locations or ())) if package else ""
    for line in (Path(folder) / "portable" / "functions.yaml").read_text(encoding="utf-8").splitlines():
        found = _LINE.match(line)
        if found:
            yield found[1] if "::" in found[1] else f"aten::{found[1]}"


def check_kernels(artifact: Artifact, origins: Path, spec: Spec, target_id: str) -> None:
    """Raises ExportError E0531 with every kernel that the target's runtime lacks, at the user's lines."""
    target = spec.targets[target_id]
    whose, known = kernels_of(target.hardware)
    lacking = sorted(set(artifact.facts["kernels"]) - known)
    if not lacking:
        return
    places = json.loads(origins.read_text(encoding="utf-8"))
    raise ExportError([_lacking(kernel, places.get(kernel, []), whose, target) for kernel in lacking])


def _lacking(kernel: str, places: list[dict[str, str]], whose: str, target: Target) -> Diagnostic:
    at = next((place for place in places if place.get("file")), {})
    dtypes = sorted({place["dtype"] for place in places if place.get("dtype")})
    inside = f" in {at['module']}" if at.get("module") else ""
    return Diagnostic(
        code="E0531",
        message=f"the operator {_readable(kernel)} ({', '.join(dtypes) or 'unknown dtype'}){inside} has no kernel in "
        f"{whose}, which {target.hardware} runs",
        file=str(at.get("file", "")),
        line=int(at.get("line") or 0),
        expected="operators with a kernel in the declared runtime",
        hint="compute the transform outside of forward(), in a pipeline step, or write it as a product with a constant matrix"
        if kernel.startswith(_FFT)
        else "write that line with other operators, or move it out of forward() into a pipeline step",
    )


def _readable(kernel: str) -> str:
    return kernel.replace("::", ".").removesuffix(".out")
