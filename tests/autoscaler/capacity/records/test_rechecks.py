"""Indexes are made afresh a portion at a time, and what was different is told."""

from types import SimpleNamespace
from typing import Any, cast

from autoscaler import control
from autoscaler.capacity.indexes import afresh
from autoscaler.capacity.records import rechecks
from autoscaler.control import metrics


class Differing:
    """An index of a hundred objects, of which each portion differs."""

    def __init__(self) -> None:
        self.table, self.portion = range(100), 10
        self.taken: list[int] = []

    def go_on(self, count: int) -> bool:
        self.taken.append(count)
        return True


def test_each_portion_is_taken_in_its_time_and_a_difference_is_counted() -> None:
    times, measured = [1000.0], list[metrics.Measure]()
    context = SimpleNamespace(clock=SimpleNamespace(monotonic=lambda: times[-1]), measure=measured.append)
    index = Differing()
    indexes = cast("dict[str, afresh.Afresh[Any]]", {"pods": index})
    checks = rechecks.Rechecks(cast("control.ControllerContext", context), indexes)
    assert checks.go_on()
    assert not checks.go_on()
    times.append(1000.0 + rechecks.ALL_SECONDS / 10)
    assert checks.go_on()
    assert index.taken == [10, 10]
    (metric,) = measured[0]()
    assert "2" in str(metric)
