"""The reference: every fixture and shape point through the original module, and how exact and varied its answers are."""

from __future__ import annotations

import dataclasses
import itertools
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from dspec.compiler.capture.answers import structure_changed
from dspec.compiler.capture.eager import Eager
from dspec.compiler.capture.fixtures import Fixture, Fixtures
from dspec.compiler.capture.scaled import Scaled
from dspec.compiler.capture.shapes import Array, Arrays, at_sizes, shape_points, sizes_of, used_dims, words
from dspec.compiler.capture.shards import ReferenceWriter
from dspec.compiler.capture.spread import Varying
from dspec.compiler.capture.state import State
from dspec.spec.dims import ExpressionError, evaluate
from dspec.spec.errors import Diagnostic, ExportError
from dspec.spec.models import Dim
from dspec.spec.records import Interface, Spread
from dspec.targets.shipped.forward import Answers, StructureError

Report = Callable[[str], None]
POOL = 64  # fixtures at the door that shape points are made of
_POOL_BYTES = 256 * 2**20
_SIZE_HINT = "the declared dims promise this size: narrow model.dims, or correct the line"
_FIXTURE_HINT = "correct the fixture, and declare what may occur: `range` of the input, or narrower model.dims"
_NOISE = 16  # fixtures that also run in float64


@dataclass(kw_only=True)
class Seen:
    """What the fixtures showed. `odd`: output → the first fixture it was not finite on; `read`: files they name."""

    varying: dict[str, Varying]
    scaled: Scaled
    odd: dict[str, str] = field(default_factory=dict)
    read: set[Path] = field(default_factory=set)

    def add(self, fixture: Fixture, outputs: Arrays) -> None:
        for name, value in outputs.items():
            self.varying[name].add(value)
            if value.dtype.kind == "f" and not np.isfinite(value).all():
                self.odd.setdefault(name, fixture.id)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """Runs cases and writes them down.

    Attributes:
        state: what may hang on the module after the last call.
        fresh: the module as it was before the first call; it runs in float64.
        pool: the first fixtures at the door, of which shape points are made.
        example: the sizes that were exported.
    """

    eager: Eager
    answers: Answers
    state: State
    fresh: nn.Module
    interface: Interface
    fixtures: Fixtures
    pool: Sequence[Arrays]
    example: Mapping[str, int]

    def write(self, out: Path, report: Report) -> tuple[tuple[Diagnostic, ...], tuple[Path, ...]]:
        """Fill the reference folder; gives warnings and the files that fixtures name.

        Raises ExportError where the module can't run what the spec declares, SpecError for fixtures at fault. The module
        is in float64 afterwards: nothing may use it any more.
        """
        writer = ReferenceWriter(out)
        spec = self.fixtures.spec
        seen = Seen(varying={name: Varying() for name in self.answers.names}, scaled=Scaled.of(spec))
        self._run_fixtures(writer, seen, report)
        self._run_points(writer, report)
        self.state.check(self.eager.module)
        report("reference: noise floor in float64")
        spread = self._spread(seen.varying)
        warnings = (
            *(_not_finite(name, where) for name, where in seen.odd.items()),
            *seen.scaled.warnings(spec.preprocess),
        )
        writer.finish(
            {
                "spread": {name: found.model_dump(mode="json") for name, found in spread.items()},
                "torch": torch.__version__,
                "cpu": cpu_class(),
                "threads": torch.get_num_threads(),
                "warnings": [warning.message for warning in warnings],
            }
        )
        return warnings, tuple(sorted(seen.read))

    def _run_fixtures(self, writer: ReferenceWriter, seen: Seen, report: Report) -> None:
        fields = self.fixtures.pipeline.fields
        for number, fixture in enumerate(self.fixtures, start=1):
            if number % 100 == 0:
                report(f"reference: {number} fixtures")
            arrays = self.fixtures.door(fixture)
            outputs = self._run(arrays, f"fixture {fixture.id}", _FIXTURE_HINT)
            writer.add_fixture(fixture, fields)
            writer.add("fixture", fixture.id, sizes_of(arrays, self.eager.inputs), arrays, outputs)
            seen.add(fixture, outputs)
            seen.scaled.add(arrays)
            seen.read |= set(_named_files(fixture, fields))

    def _run_points(self, writer: ReferenceWriter, report: Report) -> None:
        for point in self._points():
            report(f"reference: {words(point)}")
            arrays = self._at(point)
            writer.add("shape", f"shape {words(point)}", point, arrays, self._run(arrays, words(point), at=point))

    def _dims(self) -> dict[str, Dim]:
        return used_dims(self.eager.inputs, self.interface.dims)

    def _points(self) -> tuple[dict[str, int], ...]:
        return shape_points(self._dims(), self.example)

    def _at(self, sizes: Mapping[str, int]) -> Arrays:
        return at_sizes(self.pool, self.eager.inputs, sizes, self.interface.batch)

    def _run(self, arrays: Arrays, where: str, hint: str = _SIZE_HINT, at: Mapping[str, int] | None = None) -> Arrays:
        """The answers; an error says at which sizes the module itself fails."""
        try:
            outputs = self.eager.answers(arrays, self.answers)
        except StructureError as error:
            raise structure_changed(str(error), f"at {where}") from error
        except Exception as error:
            code = self.eager.code
            limits = self._limits(at) if at else ()
            raise code.blame(
                error,
                f"PyTorch itself fails at {where}",
                kind=ExportError,
                code="E0453",
                hint=f"{'; '.join(limits)}, or correct the line" if limits else hint,
                key="model.dims",
            ) from error
        self._check_shapes(outputs, sizes_of(arrays, self.eager.inputs), where)
        return outputs

    def _limits(self, point: Mapping[str, int]) -> tuple[str, ...]:
        """What to narrow: for each dim too large for the module, the greatest size that it runs, found by halving.

        A table may have more rows than positions that can be used (RoBERTa's begin at 2), so no file tells this.
        """
        return tuple(
            f"narrow {name}.max to {most}, the most that PyTorch runs"
            for name, dim in self._dims().items()
            if point[name] > self.example[name] and (most := self._most(name, dim, point[name])) < point[name]
        )

    def _most(self, name: str, dim: Dim, failed: int) -> int:
        good, bad = self.example[name] // dim.multiple_of, failed // dim.multiple_of
        if self._runs({**self.example, name: bad * dim.multiple_of}):
            return failed
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (
                (middle, bad) if self._runs({**self.example, name: middle * dim.multiple_of}) else (good, middle)
            )
        return good * dim.multiple_of

    def _runs(self, sizes: Mapping[str, int]) -> bool:
        try:
            self.eager.answers(self._at(sizes), self.answers)
        except Exception:
            return False
        return True

    def _check_shapes(self, outputs: Arrays, sizes: Mapping[str, int], where: str) -> None:
        for name, array in outputs.items():
            declared = self.interface.outputs[name].shape
            try:
                wanted = [evaluate(size, sizes) for size in declared]
            except ExpressionError:
                continue  # a size that depends on the data
            if list(array.shape) != wanted:
                shape = f"[{', '.join(map(str, declared))}]"
                raise ExportError.of(
                    "E0425",
                    f"output {name} has shape {list(array.shape)} at {where}; {shape} is {wanted} there",
                    key=f"model.outputs.{name}",
                    hint="squeeze() without a dim drops the batch axis of one item; name the dim",
                )

    def _spread(self, varying: Mapping[str, Varying]) -> dict[str, Spread]:
        noise, reason = self._noise()
        return {name: found.spread(noise.get(name), reason) for name, found in varying.items()}

    def _noise(self) -> tuple[dict[str, float], str]:
        """Greatest |float32 − float64| per output, over some fixtures and the example sizes."""
        cases = [*self.pool[:_NOISE], self._at(self.example)]
        plain = [self.eager.answers(arrays, self.answers) for arrays in cases]
        default = torch.get_default_dtype()
        try:
            double = dataclasses.replace(self.eager, module=self.fresh.double())
            torch.set_default_dtype(torch.float64)
            exact = [self._in_float64(double, arrays) for arrays in cases]
        except Exception as error:
            return {}, f"float64 does not run: {next(iter(str(error).splitlines()), type(error).__name__)}"
        finally:
            torch.set_default_dtype(default)
        pairs = list(zip(plain, exact, strict=True))
        if any(one[name].shape != other[name].shape for one, other in pairs for name in self.answers.names):
            return {}, "float64 gives outputs of other shapes"
        return {name: max(_difference(a[name], b[name]) for a, b in pairs) for name in self.answers.names}, ""

    def _in_float64(self, eager: Eager, arrays: Arrays) -> Arrays:
        tensors = [tensor.double() if tensor.is_floating_point() else tensor for tensor in eager.tensors(arrays)]
        selected = self.answers.select(eager.result(tensors))
        return {name: tensor.double().numpy() for name, tensor in zip(self.answers.names, selected, strict=True)}


def read_pool(fixtures: Fixtures) -> list[Arrays]:
    """The first fixtures at the model's door, at most `POOL` and 256 MiB of them."""
    pool: list[Arrays] = []
    total = 0
    for fixture in itertools.islice(fixtures, POOL):
        arrays = fixtures.door(fixture)
        total += sum(array.nbytes for array in arrays.values())
        if pool and total > _POOL_BYTES:
            break
        pool.append(arrays)
    return pool


def cpu_class() -> str:
    """The instruction set that decides the reference's bits, as `x86-64-avx2`."""
    machine = {"x86_64": "x86-64", "AMD64": "x86-64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return f"{machine}-{torch.backends.cpu.get_cpu_capability().lower()}"


def _difference(one: Array, other: Array) -> float:
    both = np.isfinite(one) & np.isfinite(other)
    return float(np.abs(one[both].astype(np.float64) - other[both]).max(initial=0.0))


def _named_files(fixture: Fixture, fields: Mapping[str, Any]) -> Iterator[Path]:
    for name, field_ in fields.items():
        value = fixture.raw[name]
        if field_["type"] in ("image", "audio", "tensor"):
            named = (value.get("file") or value.get("npy")) if isinstance(value, Mapping) else value
            if isinstance(named, str):
                yield (fixture.folder / named).resolve()


def _not_finite(name: str, where: str) -> Diagnostic:
    return Diagnostic(
        code="E0455",
        message=f"PyTorch itself answers NaN or infinity in {name}, first on {where}",
        key="fixtures",
        severity="warning",
        hint="check the weights and the fixture: parity can only ask for the same NaN",
    )
