"""log_mel: samples → a log-mel spectrogram."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..step import TENSOR, RequestError, Value, accept

LEAST_FLOOR = 1e-37  # of float32, whose numbers are whole down to here
DECIBELS = {1: 20.0, 2: 10.0}  # by power: the same decibels from magnitudes as from their squares


@dataclass(frozen=True, kw_only=True)
class LogMel:
    """Log-mel spectrogram of samples.

    Takes float32 samples; gives float32, frames x `mels` (`layout: frames_first`). Each frame of
    `window_length` samples is multiplied by a periodic window, set in the middle of `n_fft`
    samples, Fourier-transformed (not scaled), raised to `power`, and summed by triangular filters;
    of the sum at least `floor` the logarithm is taken. Filters and window are made in float64, the
    rest runs in float32.

    Attributes:
        rate: Hz, of the samples: what `resample` gives.
        n_fft: samples per Fourier transform.
        hop: samples from a frame to the next.
        window_length: samples under the window; absent: `n_fft`.
        window: `hann`, `hamming` or `rectangular`.
        center: pad n_fft // 2 samples at both ends (1 + samples // hop frames, where n_fft is
            even); otherwise whole frames alone.
        padding: what stands there: the sound mirrored (`reflect`) or `zeros`.
        power: 2: power spectrum; 1: magnitudes.
        mels: number of bands.
        low: Hz, where the first band begins.
        high: Hz, where the last band ends; absent: rate / 2.
        scale: mel scale: `htk` (2595 log10(1 + f / 700)) or `slaney` (linear to 1 kHz).
        norm: `none`: triangles of height 1; `slaney`: of area 1.
        log: `natural`, `log10`, or `db` (10 log10 of power, 20 log10 of magnitudes, against 1).
        floor: the least value before the logarithm.
        dynamic_range: values that lie farther than this below the greatest of the sound are
            raised to that bound, in the logarithm's units; absent: no such bound.
        layout: `frames_first`: frames x mels; `mels_first`: mels x frames.
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host",)
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    rate: int
    n_fft: int
    hop: int
    mels: int
    scale: Literal["htk", "slaney"]
    norm: Literal["none", "slaney"]
    log: Literal["natural", "log10", "db"]
    window_length: int | None = None
    window: Literal["hann", "hamming", "rectangular"] = "hann"
    center: bool = True
    padding: Literal["reflect", "zeros"] = "reflect"
    power: Literal[1, 2] = 2
    low: float = 0.0
    high: float | None = None
    floor: float = 1e-10
    dynamic_range: float | None = None
    layout: Literal["frames_first", "mels_first"] = "frames_first"

    def flow(self, value: Value) -> tuple[Value, ...]:
        accept(value, TENSOR)
        self._check()
        if value.shape is not None and len(value.shape) != 1:
            raise ValueError(f"takes one axis of samples, not shape {list(value.shape)}")
        if value.dtype not in (None, "float32"):
            raise ValueError(f"takes float32 samples, not {value.dtype}")
        samples = value.shape[0] if value.shape else None
        count = self._count(samples) if isinstance(samples, int) else None
        shape = (count, self.mels) if self.layout == "frames_first" else (self.mels, count)
        return (Value(TENSOR, "float32", shape),)

    def _check(self) -> None:
        if min(self.rate, self.n_fft, self.hop, self.mels) < 1:
            raise ValueError("rate, n_fft, hop and mels are at least 1")
        if not 1 <= self._length() <= self.n_fft:
            raise ValueError(f"window_length is {self.window_length}; from 1 to n_fft, {self.n_fft}")
        if not 0 <= self.low < self._high() <= self.rate / 2:
            raise ValueError(
                f"bands from {self.low} to {self._high()} Hz; they lie between 0 and rate / 2, {self.rate / 2}"
            )
        if not LEAST_FLOOR <= self.floor < math.inf:
            raise ValueError(f"floor is {self.floor}; at least {LEAST_FLOOR}")
        if self.dynamic_range is not None and not 0 < self.dynamic_range < math.inf:
            raise ValueError(f"dynamic_range is {self.dynamic_range}; above 0")

    def _length(self) -> int:
        return self.n_fft if self.window_length is None else self.window_length

    def _high(self) -> float:
        return self.rate / 2 if self.high is None else self.high

    def _margin(self) -> int:
        return self.n_fft // 2 if self.center else 0

    def _count(self, samples: int) -> int:
        return max(0, (samples + 2 * self._margin() - self.n_fft) // self.hop + 1)

    def open(self) -> Callable[[Any], Any]:
        import numpy as np

        weights, window = self._filters(), self._window()

        def log_mel(samples: Any) -> Any:
            padded = self._padded(samples)
            frames = np.lib.stride_tricks.sliding_window_view(padded, self.n_fft)[:: self.hop]
            spectrum = np.fft.rfft(frames * window, axis=1)
            with np.errstate(over="ignore", invalid="ignore"):
                bands = self._powered(spectrum) @ weights
            if not np.isfinite(bands).all():
                raise RequestError("", "samples whose power is beyond float32", "finite samples near -1 to 1")
            logarithms = self._bounded(self._log(np.maximum(bands, np.float32(self.floor))))
            return logarithms if self.layout == "frames_first" else logarithms.T

        return log_mel

    def _filters(self) -> Any:
        import numpy as np

        from ..mel import filters

        area, high = self.norm == "slaney", self._high()
        found = filters(
            rate=self.rate, n_fft=self.n_fft, bands=self.mels, low=self.low, high=high, scale=self.scale, area=area
        )
        return found.astype(np.float32)

    def _window(self) -> Any:
        import numpy as np

        from ..mel import window

        short, length = window(self.window, self._length()), self._length()
        before = (self.n_fft - length) // 2
        return np.pad(short, (before, self.n_fft - length - before)).astype(np.float32)

    def _padded(self, samples: Any) -> Any:
        import numpy as np

        if samples.ndim != 1:
            raise RequestError("", f"shape {list(samples.shape)}", "one axis of samples")
        margin, count = self._margin(), len(samples)
        mirrored = margin > 0 and self.padding == "reflect"
        least = max(1, self.n_fft - 2 * margin, margin + 1 if mirrored else 0)
        if count < least:
            raise RequestError("", f"{count} samples", f"at least {least}, for one frame of {self.n_fft}")
        return np.pad(samples, margin, mode="reflect" if mirrored else "constant") if margin else samples

    def _powered(self, spectrum: Any) -> Any:
        import numpy as np

        return spectrum.real**2 + spectrum.imag**2 if self.power == 2 else np.abs(spectrum)

    def _log(self, bands: Any) -> Any:
        import numpy as np

        if self.log == "natural":
            return np.log(bands)
        factor = DECIBELS[self.power] if self.log == "db" else 1.0
        return np.log10(bands) * np.float32(factor)

    def _bounded(self, logarithms: Any) -> Any:
        import numpy as np

        if self.dynamic_range is None:
            return logarithms
        return np.maximum(logarithms, logarithms.max() - np.float32(self.dynamic_range))


STEP = LogMel
