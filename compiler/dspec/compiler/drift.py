"""Drift: the population stability index of what a service saw against the fixtures it was built with.

PSI = Σ (aᵢ − eᵢ) · ln(aᵢ / eᵢ) over buckets i, with the shares expected (eᵢ) and actual (aᵢ): the symmetric form of Kullback
and Leibler's divergence (J of "On Information and Sufficiency", Annals of Mathematical Statistics 22, 1951), under this name and
with these thresholds in credit scoring: below 0.1 no shift, 0.1 to 0.25 a moderate one, above 0.25 a major one (Siddiqi,
"Credit Risk Scorecards", Wiley 2006).
"""

from __future__ import annotations

import json
import math
import re
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dspec.spec.errors import SpecError
from dspec.targets.shipped.serve.edges import FILE

MODERATE, MAJOR = 0.1, 0.25
LEAST_SHARE = 1e-4  # of an empty bucket, so that the logarithm exists
ENOUGH = 200  # values; with fewer, chance alone passes the thresholds
TIMEOUT_S = 10
MAX_BYTES = 16 << 20
_SAMPLE = re.compile(r"^dspec_values_total\{(?P<labels>.*)\} (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
Word = Literal["no shift", "moderate shift", "major shift", "too few values"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Drift:
    """One series: `psi` is None where nothing was counted; `values` is how many were."""

    series: str
    psi: float | None
    values: int
    verdict: Word


def drift(bundle: Path, metrics: Iterable[str], digest: str) -> tuple[Drift, ...]:
    """Every series of the bundle's fixtures against what `metrics` (texts of Prometheus) counted, added up.

    Raises SpecError E0720 where the bundle holds no statistics, E0721 where the metrics hold nothing about this bundle.
    """
    known = _statistics(bundle)
    counted: dict[str, dict[str, float]] = {}
    for text in metrics:
        for series, bucket, value in _samples(text, digest):
            buckets = counted.setdefault(series, {})
            buckets[bucket] = buckets.get(bucket, 0.0) + value
    if not counted:
        raise SpecError.of(
            "E0721",
            f"no count of bundle {digest} in the metrics",
            expected=f'lines dspec_values_total{{bundle="{digest}",…}}',
            hint="scrape /metrics of a service of this very bundle: the label `bundle` is the start of its digest",
        )
    return tuple(_of(name, found["edges"], found["expected"], counted.get(name, {})) for name, found in known.items())


def read_metrics(place: str) -> str:
    """The text of a file, or of an http(s) address. Raises SpecError E0721."""
    try:
        if place.startswith(("http://", "https://")):
            with urllib.request.urlopen(place, timeout=TIMEOUT_S) as answer:
                return str(answer.read(MAX_BYTES).decode())
        with Path(place).open("rb") as file:
            return file.read(MAX_BYTES).decode()
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise SpecError.of(
            "E0721", f"{place} can't be read: {error}", hint="name a file, or http://HOST:PORT/metrics"
        ) from error


def _statistics(bundle: Path) -> Mapping[str, Mapping[str, Sequence[float]]]:
    path = bundle / "golden" / FILE
    try:
        found: Mapping[str, Mapping[str, Sequence[float]]] = json.loads(path.read_text("utf-8"))["values"]
        for one in found.values():
            if len(one["expected"]) != len(one["edges"]) + 2:
                raise ValueError("edges and shares do not fit")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SpecError.of(
            "E0720",
            f"{bundle} holds no statistics of its fixtures ({type(error).__name__}: {error})",
            hint="build it with fixtures that are not private; bundles of dspec 0.1 have none",
        ) from error
    return found


def _samples(text: str, digest: str) -> Iterable[tuple[str, str, float]]:
    for line in text.splitlines():
        found = _SAMPLE.match(line)
        if found:
            labels = dict(_LABEL.findall(found["labels"]))
            if labels.get("bundle") == digest:
                yield labels.get("series", ""), labels.get("bucket", ""), float(found["value"])


def _of(name: str, edges: Sequence[float], expected: Sequence[float], counted: Mapping[str, float]) -> Drift:
    buckets = [*(f"{edge:.9g}" for edge in edges), "+Inf", "NaN"]
    actual = [counted.get(bucket, 0.0) for bucket in buckets]
    total = sum(actual)
    if not total:
        return Drift(series=name, psi=None, values=0, verdict="too few values")
    found = psi(expected, [count / total for count in actual])
    return Drift(series=name, psi=round(found, 4), values=int(total), verdict=_verdict(found, total))


def psi(expected: Sequence[float], actual: Sequence[float]) -> float:
    """The index over shares; those below LEAST_SHARE count as that, and buckets empty on both sides as nothing."""
    total = 0.0
    for share, found in zip(expected, actual, strict=True):
        if share or found:
            e, a = max(share, LEAST_SHARE), max(found, LEAST_SHARE)
            total += (a - e) * math.log(a / e)
    return total


def _verdict(found: float, values: float) -> Word:
    if values < ENOUGH:
        return "too few values"
    return "major shift" if found > MAJOR else "moderate shift" if found > MODERATE else "no shift"
