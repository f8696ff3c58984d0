"""The module fails at the example sizes although they are declared: which rule over sizes does it need?"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dspec.compiler.capture.eager import Eager
from dspec.compiler.capture.shapes import Arrays, Sizes, at_sizes, greatest
from dspec.spec.errors import DspecError, ExportError
from dspec.spec.models import Dim

_MULTIPLES = (2, 4, 8, 16, 32, 64, 3, 6, 14)  # strides that networks have


@dataclass(frozen=True, kw_only=True, slots=True)
class Trials:
    """Calls the module at other sizes made of the same fixtures."""

    eager: Eager
    pool: Sequence[Arrays]
    dims: Mapping[str, Dim]
    batch: str | None

    def works(self, sizes: Sizes) -> bool:
        arrays = at_sizes(self.pool, self.eager.inputs, sizes, self.batch)
        return self.works_on(arrays)

    def works_on(self, arrays: Arrays) -> bool:
        try:
            self.eager.result(self.eager.tensors(arrays))
        except Exception:  # whatever it is: the size does not work
            return False
        return True

    def explain(self, error: Exception, sizes: Sizes, where: str) -> DspecError:
        """The error for the user: a multiple or an equality that is needed, a lying range, or the code's own mistake."""
        code, hint = self.eager.code, "run the line by itself in Python; the error is the code's own"
        number, what, dim = "E0403", f"forward at {where}", ""
        if (pair := next(self._equalities(sizes), None)) is not None:
            number, what, dim = "E0443", f"`{pair[0]}` and `{pair[1]}` must be equal: forward at {where}", pair[1]
            hint = "declare one dim for both, or change the line"
        elif (step := next(self._multiples(sizes), None)) is not None:
            names, k = step
            both = " and ".join(f"`{name}`" for name in names)
            number, what, dim = "E0445", f"{both} must be a multiple of {k}: forward at {where}", names[0]
            hint = f"declare multiple_of: {k} for {', '.join(names)}, or change the line"
        elif (fixed := next(self._fixed(sizes), None)) is not None:
            dim, size = fixed
            number, what = "E0442", f"`{dim}` must be {size}: forward at {where}"
            hint = f"a table of {size} is hard-coded: declare {size} instead of {dim}, or cut the table to x.shape[…]"
        elif (place := self._fixture_at_fault()) and self.works_on(self.pool[0]):
            number, what = "E0453", f"PyTorch itself fails on fixture {place} of the first {len(self.pool)}"
            hint = "correct the fixture, and declare what values may occur: `range` of the input"
        elif self.works_on(self.pool[0]):
            number, what = "E0453", f"PyTorch itself fails at {where}"
            hint = "the declared dims promise this size: narrow model.dims, or correct the line"
        key = f"model.dims.{dim}" if dim else "model.dims"
        return code.blame(error, what, kind=ExportError, code=number, hint=hint, key=key)

    def _multiples(self, sizes: Sizes) -> Iterator[tuple[tuple[str, ...], int]]:
        """Dims of which exactly the multiples of k work, as far as a few tries show."""
        spatial = tuple(name for name in self.dims if name != self.batch)
        groups = [*((name,) for name in self.dims), *([spatial] if len(spatial) > 1 else [])]
        for names, k in itertools.product(groups, _MULTIPLES):
            steps = [self._moved(sizes, names, k, more) for more in (0, 1)]
            if all(step is not None and self.works(step) for step in steps):
                yield names, k

    def _fixed(self, sizes: Sizes) -> Iterator[tuple[str, int]]:
        """A dim of which only the size of some tensor on the module works, and neither of its neighbours."""
        module = self.eager.module
        known = sorted({size for value in (*module.parameters(), *module.buffers()) for size in value.shape})
        for name, dim in self.dims.items():
            most, step = greatest(dim), dim.multiple_of
            for size in known:
                inside = 2 <= dim.min <= size or dim.min < 2 <= size
                if not inside or size % step or (most is not None and size > most):
                    continue
                beside = [size - step, size + step]
                if self.works({**sizes, name: size}) and not any(self.works({**sizes, name: one}) for one in beside):
                    yield name, size

    def _fixture_at_fault(self) -> int:
        """The first fixture, counted from 1, that the module can't run by itself; 0 where it runs them all."""
        return next((number for number, one in enumerate(self.pool, 1) if not self.works_on(one)), 0)

    def _moved(self, sizes: Sizes, names: Sequence[str], k: int, more: int) -> dict[str, int] | None:
        """The sizes with `names` raised to a multiple of k, or None where the range has none."""
        moved = dict(sizes)
        for name in names:
            step = max(k, self.dims[name].multiple_of)
            moved[name] = (-(-sizes[name] // step) + more) * step
            most = greatest(self.dims[name])
            if moved[name] % self.dims[name].multiple_of or (most is not None and moved[name] > most):
                return None
        return moved

    def _equalities(self, sizes: Sizes) -> Iterator[tuple[str, str]]:
        for one, other in itertools.combinations(self.dims, 2):
            same = {**sizes, other: sizes[one]}
            most = greatest(self.dims[other])
            fits = sizes[one] >= self.dims[other].min and (most is None or sizes[one] <= most)
            if fits and not sizes[one] % self.dims[other].multiple_of and self.works(same):
                yield one, other
