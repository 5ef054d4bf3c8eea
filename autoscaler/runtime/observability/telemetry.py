"""What the process tells about itself: JSON log lines and Prometheus metrics named sluice_*.

Numbers that belong to objects are collected when asked for, so that they vanish with the object.
"""

import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import prometheus_client
import structlog
from prometheus_client import core, registry

from autoscaler.api import names, version
from autoscaler.control import metrics

BUCKETS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


def configure_logging(level: str) -> None:
    """Write one JSON object per event to standard output."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # Without local variables: they hold credentials.
            structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False)),
            structlog.processors.JSONRenderer(default=str),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(sys.stdout),
        cache_logger_on_first_use=True,
    )


class Metrics(registry.Collector):
    """The metrics of this process."""

    def __init__(self, cluster: str = "") -> None:
        """Make them, all with the name of the cluster: one Prometheus may watch many."""
        self._cluster = cluster
        self.registry = prometheus_client.CollectorRegistry()
        self._cycles = prometheus_client.Histogram(
            "sluice_reconcile_duration_seconds",
            "How long cycles take, by controller and outcome.",
            ("controller", "outcome"),
            buckets=BUCKETS,
            registry=self.registry,
        )
        prometheus_client.Info("sluice_build", "The version that runs.", registry=self.registry).info(
            {"version": version.VERSION}
        )
        self._measures: list[metrics.Measure] = []
        self.registry.register(self)

    def cycle(self, controller: str, outcome: str, seconds: float) -> None:
        """Count one cycle of a controller."""
        self._cycles.labels(controller, outcome).observe(seconds)

    def measure(self, measure: metrics.Measure) -> None:
        """Ask this for numbers at each scrape; those of one name from several become one metric."""
        self._measures.append(measure)

    def collect(self) -> Iterator[core.Metric]:
        """Gather what was added."""
        yield from _joined(metric for measure in self._measures for metric in measure())

    def render(self) -> bytes:
        """Write all metrics in Prometheus' text format."""
        labels = {names.CLUSTER_LABEL: self._cluster} if self._cluster else {}
        return prometheus_client.generate_latest(_Labelled(self.registry, labels))


class _Labelled(prometheus_client.CollectorRegistry):
    """Another registry, each of whose samples has some labels more."""

    def __init__(self, registry: prometheus_client.CollectorRegistry, labels: Mapping[str, str]) -> None:
        super().__init__()
        self._registry = registry
        self._labels = labels

    def collect(self) -> Iterator[core.Metric]:
        for metric in self._registry.collect():
            metric.samples = [each._replace(labels={**each.labels, **self._labels}) for each in metric.samples]
            yield metric


def _joined(measured: Iterable[core.Metric]) -> Iterable[core.Metric]:
    made: dict[str, core.Metric] = {}
    for metric in measured:
        family = made.setdefault(metric.name, core.Metric(metric.name, metric.documentation, metric.type))
        family.samples.extend(metric.samples)
    return made.values()
