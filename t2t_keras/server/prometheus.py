"""Prometheus metrics with TensorFlow Serving's names."""

import prometheus_client
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

PATH = "/monitoring/prometheus/metrics"

_MICROS = [10 * 2**n for n in range(0, 24)]
"""Bucket bounds of the histograms, 10 microseconds to 84 seconds."""


class _Counts(Collector):
    """A counter whose samples do not have the suffix `_total`."""

    def __init__(self, name: str, help_: str, labels: tuple[str, ...]) -> None:
        self._name, self._help, self._labels = name, help_, labels
        self._counter = prometheus_client.Counter("c", help_, labels, registry=None)

    def inc(self, *labels: str) -> None:
        self._counter.labels(*labels).inc()

    def collect(self) -> list[Metric]:
        # The library adds the suffix to metrics of type "counter".
        metric = Metric(self._name, self._help, "unknown")
        for counted in self._counter.collect():
            for sample in counted.samples:
                if sample.name.endswith("_total"):
                    metric.add_sample(self._name, sample.labels, sample.value)
        return [metric]


class Metrics:
    """Metrics of a server; latencies are in microseconds.

    Attributes:
        request_count: Number of requests by model and status.
        request_latency: Latency from request to response, by model, API and entry
            point.
        runtime_latency: Latency of the model alone, by model, API and runtime.
        queuing_latency: Time that requests wait for a batch.
        batch_size: Number of rows of the batch of each request.
        load_attempt_count: Number of attempts to load a version, by path and status.
        load_latency: Time to load a version, by path.
    """

    def __init__(self) -> None:
        prometheus_client.disable_created_metrics()
        self._registry = prometheus_client.CollectorRegistry()
        self.request_count = self._counts(
            ":tensorflow:serving:request_count",
            "Number of requests by model and status.",
            ("model_name", "status"),
        )
        self.load_attempt_count = self._counts(
            ":tensorflow:cc:saved_model:load_attempt_count",
            "Number of attempts to load a version.",
            ("model_path", "status"),
        )
        self.request_latency = self._histogram(
            ":tensorflow:serving:request_latency",
            "Microseconds from request to response.",
            ("model_name", "API", "entrypoint"),
        )
        self.runtime_latency = self._histogram(
            ":tensorflow:serving:runtime_latency",
            "Microseconds spent in the model.",
            ("model_name", "API", "runtime"),
        )
        self.queuing_latency = self._histogram(
            ":tensorflow:serving:batching_session:queuing_latency",
            "Microseconds that requests wait for their batch.",
        )
        self.batch_size = prometheus_client.Histogram(
            ":tensorflow:serving:batching_session:processed_batch_size",
            "Number of rows of a request's batch.",
            buckets=[2**n for n in range(13)],
            registry=self._registry,
        )
        self.load_latency = self._histogram(
            ":tensorflow:cc:saved_model:load_latency",
            "Microseconds to load a version.",
            ("model_path",),
        )

    def _counts(self, name: str, help_: str, labels: tuple[str, ...]) -> _Counts:
        counts = _Counts(name, help_, labels)
        self._registry.register(counts)
        return counts

    def _histogram(
        self, name: str, help_: str, labels: tuple[str, ...] = ()
    ) -> prometheus_client.Histogram:
        return prometheus_client.Histogram(
            name, help_, labels, buckets=_MICROS, registry=self._registry
        )

    def observe_queue(self, micros: float, rows: int) -> None:
        """Records a request's wait and the rows of its batch; see `Batcher`."""
        self.queuing_latency.observe(micros)
        self.batch_size.observe(rows)

    def text(self) -> bytes:
        """Returns all metrics in Prometheus's text format."""
        return prometheus_client.generate_latest(self._registry)
