"""What Prometheus scrapes. Every series carries the first digits of the bundle's digest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric

STAGES = ("queue", "preprocess", "model", "postprocess", "total")
SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    def __init__(self, bundle: str, edges: Mapping[str, Sequence[float]]) -> None:
        registry = self._registry = CollectorRegistry()
        label = ("bundle",)
        seconds = Histogram(
            "dspec_request_seconds", "Seconds per stage of an answered request; model: of its batch",
            (*label, "stage"), buckets=SECONDS, registry=registry,
        )  # fmt: skip
        self._stages = tuple(seconds.labels(bundle, stage) for stage in STAGES)
        self._batches = Histogram(
            "dspec_batch_size",
            "Items that ran with a request, itself included",
            label,
            buckets=SIZES,
            registry=registry,
        ).labels(bundle)
        self._requests = Counter(
            "dspec_requests", "Answers by door and status", (*label, "door", "status"), registry=registry
        )
        self._errors = Counter("dspec_errors", "Answers that are errors, by code", (*label, "code"), registry=registry)
        self._restarts = Counter("dspec_worker_restarts", "Workers replaced", (*label, "why"), registry=registry)
        self.in_flight = Gauge(
            "dspec_in_flight", "Requests accepted and not answered", label, registry=registry
        ).labels(bundle)
        self.ready = Gauge("dspec_ready", "1 while requests are taken", label, registry=registry).labels(bundle)
        self.workers = Gauge("dspec_workers", "Workers that are ready", label, registry=registry).labels(bundle)
        self.unproved = Gauge(
            "dspec_unproved",
            "1: the golden vectors did not agree, and it serves because it was told to",
            label,
            registry=registry,
        ).labels(bundle)
        self.unproved.set(0)
        self._bundle = bundle
        self._values = _Values(bundle, edges)
        registry.register(self._values)
        self._counters: dict[tuple[str, str], Counter] = {}

    def answered(self, door: str, status: int, code: str = "") -> None:
        key = (door, str(status))
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = self._requests.labels(self._bundle, *key)
        counter.inc()
        if code:
            self._errors.labels(self._bundle, code).inc()

    def took(self, seconds: Sequence[float], batch: int) -> None:
        """Seconds of each of STAGES."""
        for histogram, value in zip(self._stages, seconds, strict=True):
            histogram.observe(value)
        self._batches.observe(batch)

    def restarted(self, why: str) -> None:
        self._restarts.labels(self._bundle, why).inc()

    def text(self, counts: Mapping[str, Sequence[int]]) -> bytes:
        """The exposition; `counts` are those of all workers together."""
        self._values.counts = counts
        return generate_latest(self._registry)


class _Values:
    """dspec_values_total: how many values of a series lay in each bucket of the fixtures."""

    def __init__(self, bundle: str, edges: Mapping[str, Sequence[float]]) -> None:
        self._bundle, self._edges = bundle, edges
        self.counts: Mapping[str, Sequence[int]] = {}

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(
            "dspec_values",
            "Values of inputs, outputs and sizes, by bucket of the fixtures: its greatest value, +Inf, or NaN for what is not finite",
            labels=("bundle", "series", "bucket"),
        )
        for name, counts in self.counts.items():
            buckets = [*(f"{edge:.9g}" for edge in self._edges.get(name, ())), "+Inf", "NaN"]
            for bucket, count in zip(buckets, counts, strict=False):
                family.add_metric((self._bundle, name, bucket), count)
        yield family
