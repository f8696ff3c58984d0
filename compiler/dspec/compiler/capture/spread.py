"""How much the reference's answers vary over the fixtures: a reference that does not proves nothing."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np

from dspec.compiler.capture.shapes import Array
from dspec.spec.records import Spread

_KEPT = 32  # answers held for pairwise cosines
_ELEMENTS = 2**18  # of each, from its start


@dataclass(kw_only=True)
class Varying:
    """The running spread of one output. Answers of different shapes are compared over their common leading part."""

    low: Array | None = None
    high: Array | None = None
    magnitude: float = 0.0
    kept: list[Array] = field(default_factory=list)

    def add(self, answer: Array) -> None:
        value = np.nan_to_num(answer.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
        self.magnitude = max(self.magnitude, float(np.abs(value).max(initial=0.0)))
        if len(self.kept) < _KEPT:
            self.kept.append(value if value.size <= _ELEMENTS else value.reshape(-1)[:_ELEMENTS].copy())
        if self.low is None or self.high is None:
            self.low, self.high = value.copy(), value.copy()
        else:
            mine, theirs = common([self.low, value])
            _, high = common([value, self.high])
            self.low, self.high = np.minimum(mine, theirs), np.maximum(high, theirs)

    def spread(self, noise: float | None, reason: str) -> Spread:
        """The whole, with the float32 noise floor found elsewhere."""
        span = 0.0 if self.low is None or self.high is None else float((self.high - self.low).max(initial=0.0))
        return Spread(span=span, cosine=self._cosine(), magnitude=self.magnitude, noise=noise, noise_reason=reason)

    def _cosine(self) -> float | None:
        ranks = {value.ndim for value in self.kept}
        same = self.kept if len(ranks) == 1 else [value.reshape(-1) for value in self.kept]
        flat = [value.reshape(-1) for value in common(same)]
        norms = [float(np.linalg.norm(value)) for value in flat]
        pairs = [(a, b) for a, b in itertools.combinations(range(len(flat)), 2) if norms[a] and norms[b]]
        cosines = [float(flat[a] @ flat[b]) / (norms[a] * norms[b]) for a, b in pairs]
        return max(-1.0, min(1.0, *cosines, 1.0)) if cosines else None


def common(values: list[Array]) -> list[Array]:
    """The leading part that arrays of one rank share."""
    shape = [min(sizes) for sizes in zip(*(value.shape for value in values), strict=True)]
    return [value[tuple(slice(size) for size in shape)] for value in values]
