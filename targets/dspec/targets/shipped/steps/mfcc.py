"""mfcc: a log-mel spectrogram → cepstral coefficients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal

from ..step import TENSOR, RequestError, Value, accept


@dataclass(frozen=True, kw_only=True)
class Mfcc:
    """Mel-frequency cepstral coefficients: the discrete cosine transform over the bands of `log_mel`.

    Takes float32, frames x mels; gives float32, frames x `coefficients`. DCT-II, computed in
    float32: c[k] = scale[k] * sum over m of x[m] cos(pi k (2 m + 1) / (2 mels)).

    Attributes:
        coefficients: how many, from the 0th on.
        norm: `ortho`: scale sqrt(1 / mels) for k = 0, sqrt(2 / mels) for the others (librosa,
            torchaudio); `htk`: sqrt(2 / mels) for all; `none`: 2 for all (scipy's default).
        lifter: L: coefficient k is multiplied by 1 + L / 2 sin(pi k / L) (HTK, Kaldi); 0: not at
            all.
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host",)
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    coefficients: int
    norm: Literal["ortho", "htk", "none"] = "ortho"
    lifter: float = 0.0

    def flow(self, value: Value) -> tuple[Value, ...]:
        accept(value, TENSOR)
        if self.coefficients < 1:
            raise ValueError(f"coefficients is {self.coefficients}; at least 1")
        if not 0 <= self.lifter < float("inf"):
            raise ValueError(f"lifter is {self.lifter}; 0 or more")
        if value.shape is None:
            return (Value(TENSOR, "float32", (None, self.coefficients)),)
        if len(value.shape) != 2:
            raise ValueError(f"takes frames x mels, not shape {list(value.shape)}")
        frames, mels = value.shape
        if isinstance(mels, int) and mels < self.coefficients:
            raise ValueError(f"{self.coefficients} coefficients of {mels} mels; at most as many as mels")
        return (Value(TENSOR, "float32", (frames, self.coefficients)),)

    def open(self) -> Callable[[Any], Any]:
        import numpy as np

        matrix = lru_cache(maxsize=4)(self._matrix)

        def mfcc(spectrogram: Any) -> Any:
            if spectrogram.ndim != 2 or spectrogram.shape[1] < self.coefficients:
                expected = f"frames x mels, {self.coefficients} mels or more"
                raise RequestError("", f"shape {list(spectrogram.shape)}", expected)
            return spectrogram.astype(np.float32, copy=False) @ matrix(spectrogram.shape[1])

        return mfcc

    def _matrix(self, mels: int) -> Any:
        """The transform and the lifter, float32 [mels, coefficients]."""
        import numpy as np

        k = np.arange(self.coefficients)
        cosines = np.cos(np.pi * k * (2 * np.arange(mels)[:, None] + 1) / (2 * mels))
        scale = np.full(len(k), 2.0 if self.norm == "none" else np.sqrt(2 / mels))
        if self.norm == "ortho":
            scale[0] = np.sqrt(1 / mels)
        lift = 1 + self.lifter / 2 * np.sin(np.pi * k / self.lifter) if self.lifter else 1.0
        return (cosines * scale * lift).astype(np.float32)


STEP = Mfcc
