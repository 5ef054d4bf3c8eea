"""Where one stands in its queue, and about how long it will wait."""

import pytest

from autoscaler.admission.quota import estimates
from autoscaler.admission.quota.cache import admitted
from autoscaler.admission.quota.cache.books import Books
from tests.autoscaler.admission.builders import NOW, usual, workload

pytestmark = pytest.mark.accept("E17", part="position and estimate are found")


def outlooks(books: Books, **more: int) -> list[tuple[str, int, int | None]]:
    found = estimates.first(books, "team", now=NOW, **more)
    return [(each.workload.meta.key.name, each.position, each.wait_seconds) for each in found]


def test_the_kth_waits_k_times_as_long_as_one_admission_took_lately() -> None:
    ran = [workload("x", granted=1, admitted_ago=60), workload("y", granted=1, admitted_ago=20)]
    books = Books(usual(*ran, workload("b", cpu=2, age=1), workload("a", cpu=1, age=2), workload("c", priority=1)))
    books.wake(NOW)
    assert outlooks(books) == [("c", 1, 30), ("a", 2, 60), ("b", 3, 90)]
    assert outlooks(books, most=1) == [("c", 1, 30)]


def test_nothing_is_said_of_the_wait_where_little_was_admitted() -> None:
    books = Books(usual(workload("x", granted=1), workload("a")))
    books.wake(NOW)
    assert outlooks(books) == [("a", 1, None)]


def test_an_estimate_counts_from_the_first_admission_that_is_remembered() -> None:
    ran = [workload("x", granted=1, admitted_ago=10), workload("y", granted=1, admitted_ago=0)]
    books = Books(usual(*ran, workload("a")))
    books.wake(NOW)
    assert outlooks(books) == [("a", 1, 5)]


@pytest.mark.parametrize("ago", [0, -5])
def test_nothing_is_said_of_the_wait_where_the_clock_is_behind(ago: int) -> None:
    ran = [workload(name, granted=1, admitted_ago=ago) for name in "xy"]
    books = Books(usual(*ran, workload("a")))
    books.wake(NOW)
    assert outlooks(books) == [("a", 1, None)]


def test_an_admission_is_remembered_once_whatever_changes_later() -> None:
    made = usual(workload("x", granted=1), workload("y", granted=1))
    books = Books(made)
    made.workloads.seen(workload("x", granted=1, priority=3, rv=2))
    assert len(books.admitted.recent("team")) == 2
    made.workloads.seen(workload("x", granted=1, cluster_queue="other", rv=3))
    assert (len(books.admitted.recent("team")), len(books.admitted.recent("other"))) == (2, 1)


def test_only_the_first_are_told_and_only_the_last_admissions_are_remembered() -> None:
    made = usual(*(workload(f"w{each}", granted=1, admitted_ago=each) for each in range(100)))
    for each in range(30):
        made.workloads.seen(workload(f"a{each}"))
    books = Books(made)
    books.wake(NOW)
    assert len(outlooks(books)) == estimates.SHOWN
    recent = books.admitted.recent("team")
    assert (len(recent), recent[0]) == (admitted.RECENT_MAX, NOW - admitted.RECENT_MAX + 1)
