"""Numbers that a controller shows: values only. Gathered when somebody asks, they vanish with their object."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class MetricType(StrEnum):
    GAUGE = "gauge"
    COUNTER = "counter"
    SUMMARY = "summary"
    """Its samples are named `sum` and `count`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One number of a metric."""

    labels: Mapping[str, str]
    value: float
    part: str = ""
    """For a summary: which of its two numbers this is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """Numbers of one name, as they are now."""

    name: str
    text: str
    type: MetricType
    samples: tuple[Sample, ...]


Measure = Callable[[], Iterable[Metric]]
"""Gathers metrics when somebody asks for them."""
Numbers = Iterable[tuple[Mapping[str, str], float]]
"""Values with their labels."""


def gauge(name: str, text: str, numbers: Numbers) -> Metric:
    """Make a metric of numbers that go up and down."""
    return _metric(name, text, MetricType.GAUGE, numbers)


def counter(name: str, text: str, numbers: Numbers) -> Metric:
    """Make a metric of numbers that only grow."""
    return _metric(name, text, MetricType.COUNTER, numbers)


def summary(name: str, text: str, numbers: Iterable[tuple[Mapping[str, str], float, int]]) -> Metric:
    """Make a metric of sums, each with how many values it is of."""
    samples = [
        sample
        for labels, total, count in numbers
        for sample in (
            Sample(labels=labels, value=count, part="count"),
            Sample(labels=labels, value=total, part="sum"),
        )
    ]
    return Metric(name=name, text=text, type=MetricType.SUMMARY, samples=tuple(samples))


def _metric(name: str, text: str, kind: MetricType, numbers: Numbers) -> Metric:
    samples = tuple(Sample(labels=labels, value=value) for labels, value in numbers)
    return Metric(name=name, text=text, type=kind, samples=samples)
