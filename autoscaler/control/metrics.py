"""Numbers that a controller shows, as Prometheus takes them: gathered when asked for, they vanish with their object."""

import bisect
import itertools
import math
from collections.abc import Callable, Container, Iterable, Mapping

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


class Histogram:
    """Counts values by how large they are, for each value of one label."""

    def __init__(self, name: str, text: str, label: str, buckets: Iterable[float]) -> None:
        self._name, self._text, self._label = name, text, label
        self._bounds = (*buckets, math.inf)
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}

    def observe(self, of: str, value: float) -> None:
        """Count one value."""
        counts = self._counts.setdefault(of, [0] * len(self._bounds))
        counts[bisect.bisect_left(self._bounds, value)] += 1
        self._sums[of] = self._sums.get(of, 0.0) + value

    def keep(self, those: Container[str]) -> None:
        """Forget whoever is gone."""
        self._counts = {of: counts for of, counts in self._counts.items() if of in those}
        self._sums = {of: total for of, total in self._sums.items() if of in those}

    def metric(self) -> Metric:
        """Return it as Prometheus takes it."""
        return _metric(self._name, self._text, "histogram", self._samples())

    def _samples(self) -> Iterable[tuple[str, Mapping[str, str], float]]:
        for of, counts in sorted(self._counts.items()):
            labels = {self._label: of}
            for bound, count in zip(self._bounds, itertools.accumulate(counts), strict=True):
                yield f"{self._name}_bucket", {**labels, "le": "+Inf" if math.isinf(bound) else f"{bound:g}"}, count
            yield f"{self._name}_count", labels, sum(counts)
            yield f"{self._name}_sum", labels, self._sums[of]


def _metric(name: str, text: str, kind: str, samples: Iterable[tuple[str, Mapping[str, str], float]]) -> Metric:
    metric = Metric(name, text, kind)
    for sample, labels, value in samples:
        metric.add_sample(sample, dict(labels), value)
    return metric
