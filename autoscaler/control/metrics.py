"""Numbers that a controller shows, as Prometheus takes them: gathered when asked for, they vanish with their object."""

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import core

Metric = core.Metric
Measure = Callable[[], Iterable[Metric]]
"""Gathers metrics when somebody asks for them."""
Numbers = Iterable[tuple[Mapping[str, str], float]]
"""Values with their labels."""


def gauge(name: str, text: str, numbers: Numbers) -> Metric:
    """Make a metric of numbers that go up and down."""
    return _metric(name, text, "gauge", ((name, labels, value) for labels, value in numbers))


def counter(name: str, text: str, numbers: Numbers) -> Metric:
    """Make a metric of numbers that only grow."""
    return _metric(name, text, "counter", ((f"{name}_total", labels, value) for labels, value in numbers))


def summary(name: str, text: str, numbers: Iterable[tuple[Mapping[str, str], float, int]]) -> Metric:
    """Make a metric of sums, each with how many values it is of."""
    samples = (
        sample
        for labels, total, count in numbers
        for sample in ((f"{name}_count", labels, count), (f"{name}_sum", labels, total))
    )
    return _metric(name, text, "summary", samples)


def _metric(name: str, text: str, kind: str, samples: Iterable[tuple[str, Mapping[str, str], float]]) -> Metric:
    metric = Metric(name, text, kind)
    for sample, labels, value in samples:
        metric.add_sample(sample, dict(labels), value)
    return metric
