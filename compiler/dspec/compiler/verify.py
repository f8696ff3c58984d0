"""`dspec verify`: is this the bundle it says it is, and does it answer on this machine as it did for PyTorch?"""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from dspec.compiler.bundle import check_digests
from dspec.compiler.environment import clean_environment
from dspec.compiler.measure.smoke import clean_variables
from dspec.compiler.stage import Report
from dspec.spec.errors import GateError, MachineError, NotProvedError, SpecError
from dspec.spec.files import read_bounded
from dspec.spec.models import DType
from dspec.spec.records import Manifest

TIMEOUT_S = 600
LACKING = 4  # the bundle's own exit code for a missing library
MAX_ANSWERS_BYTES = 1 << 30
DTYPES = frozenset(get_args(DType)) - {"bfloat16"}  # that numpy can hold


@dataclass(frozen=True, kw_only=True, slots=True)
class Verified:
    """What was found: the manifest, how many golden vectors were replayed, and the lines that say how far off."""

    manifest: Manifest
    vectors: int
    lines: tuple[str, ...]


def verify(bundle: Path, report: Report) -> Verified:
    """Digests, then the golden vectors in a clean environment. Raises GateError E0712 or E0713."""
    manifest = check_digests(bundle)
    environment = clean_environment(bundle / "requirements.txt", manifest.cores, report)
    report("replaying the golden vectors")
    command = [str(environment.python), "-m", "dspec_bundle", "selftest", "--json"]
    try:
        done = subprocess.run(
            command, cwd=bundle, env=clean_variables(), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise GateError.of("E0713", f"{bundle} did not end its self-test within {TIMEOUT_S} s") from None
    if done.returncode == LACKING:
        raise MachineError.of("E0713", f"{bundle} lacks a library here: {done.stderr.strip()}")
    try:
        found = json.loads(done.stdout)
        lines = tuple(_line(case) for case in found["cases"])
        proved, failures = found["ok"] is True, tuple(map(str, found["failures"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):  # it is the bundle that speaks
        raise GateError.of(
            "E0713",
            f"{bundle} did not run its self-test",
            notes=tuple(done.stderr.splitlines()[-5:]),
        ) from None
    if not proved:
        raise GateError.of(
            "E0713",
            f"{bundle} answers otherwise on this machine than PyTorch did",
            hint="compare `dspec run --trace` with golden/; the toolchain and CPU of the reference are in bundle.json",
            notes=failures[:10],
        )
    check_any(len(lines), bundle)
    return Verified(manifest=manifest, vectors=len({case["id"] for case in found["cases"]}), lines=lines)


def check_any(vectors: int, bundle: Path) -> None:
    """Raise NotProvedError E0716 where there was nothing to replay: that is no success."""
    if not vectors:
        raise NotProvedError.of(
            "E0716",
            f"{bundle} carries no golden vectors, so its answers can't be checked here (the digests are right)",
            hint="set `golden` above 0 for a fixture file that is not private; or check `--digests` alone",
        )


def _line(case: Mapping[str, Any]) -> str:
    words = []
    for name, error in case["outputs"].items():
        worst = max((point["diff"] for point in error["frontier"]), default=0.0)
        words.append(f"{name} {error['broken'] or f'max |Δ| {worst:.3g}'}")
    return f"{case['id']} call {case['call']}: {', '.join(words)}"


def read_answers(path: Path) -> dict[str, Any]:
    """An answers file made elsewhere. Raises SpecError E0714 when it has another form.

    `{"answers": {golden id: {"outputs": {name: {"dtype", "shape", "data"}}, "ms": 3.2}}}`; `data` is flat and in C order.
    """
    try:
        found = json.loads(read_bounded(path, MAX_ANSWERS_BYTES))
        answers: dict[str, Any] = found["answers"]
        for answer in answers.values():
            _check_answer(answer)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SpecError.of(
            "E0714",
            f"{path} is not an answers file: {error}",
            expected='{"answers": {golden id: {"outputs": {name: {"dtype", "shape", "data"}}, "ms": 3.2}}}',
        ) from error
    return answers


def _check_answer(answer: Any) -> None:
    """ValueError, KeyError or TypeError where it is not what its reader takes for granted."""
    if not isinstance(answer["outputs"], dict):
        raise TypeError("`outputs` is no object")
    for name, packed in answer["outputs"].items():
        dtype, shape, data = packed["dtype"], packed["shape"], packed["data"]
        if dtype not in DTYPES or not isinstance(shape, list) or not isinstance(data, list):
            raise ValueError(f"output {name}: no dtype, shape and data")
        if any(type(size) is not int or size < 0 for size in shape) or math.prod(shape) != len(data):
            raise ValueError(f"output {name}: {len(data)} numbers for shape {shape}")
        for number in data:
            _check_number(number, dtype, name)
    if "ms" in answer and not 0 <= float(answer["ms"]) < math.inf:
        raise ValueError("`ms` is no duration")


def _check_number(number: Any, dtype: str, output: str) -> None:
    if isinstance(number, str) and number in ("nan", "inf", "-inf") and dtype.startswith("float"):
        return
    if type(number) is bool and dtype == "bool":
        return
    low, high = _bounds(dtype)
    if type(number) not in (int, float) or not (number != number or low <= number <= high):
        raise ValueError(f"output {output}: {str(number)[:40]} is no {dtype}")
    if type(number) is float and not dtype.startswith("float"):
        raise ValueError(f"output {output}: {number} is no {dtype}")


def _bounds(dtype: str) -> tuple[float, float]:
    if dtype.startswith("float"):
        return -math.inf, math.inf
    if dtype == "bool":
        return 0, 1
    bits = int(dtype.lstrip("uint"))
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
