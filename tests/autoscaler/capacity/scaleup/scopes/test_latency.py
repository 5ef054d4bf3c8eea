"""Every pod begins before its deadline, or nothing can be done about it; and no slot is started in vain."""

import dataclasses
import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api import keys
from autoscaler.capacity.scaleup.scopes import latency
from autoscaler.capacity.scaleup.scopes.latency import Queued, Schedule, Slots, Target
from tests.autoscaler.capacity import books

NOW = 1_000_000.0
TARGETS = st.builds(
    Target,
    target_seconds=st.integers(0, 3000),
    boot_seconds=st.integers(0, 1000),
    duration_seconds=st.integers(1, 2000),
)
WAITED = st.lists(st.integers(0, 2000), max_size=30)
"""How long pods have waited."""
AGES = st.lists(st.integers(0, 3000), max_size=12)
"""How long pods have run."""


def new(found: Schedule) -> int:
    """Count the new slots."""
    return sum(each.count for each in found.new)


def waiting(*seconds: float, kind: int = 0) -> list[Queued]:
    return [Queued(kind=kind, since=NOW - each) for each in seconds]


def one_by_one(waited: list[int], ages: list[int], target: Target) -> int:
    """Count new slots as the rule says it, pod by pod."""
    assert target.target_seconds is not None
    mean = target.mean_seconds
    heap = [NOW + (mean - age if age < mean else mean) for age in ages]
    heapq.heapify(heap)
    count = 0
    for seconds in sorted(waited, reverse=True):
        deadline, new_at = NOW - seconds + target.target_seconds, NOW + target.boot_seconds
        starts = heap[0] if heap else float("inf")
        is_soon = target.target_seconds >= target.boot_seconds and starts <= new_at
        if starts <= deadline or is_soon:
            heapq.heapreplace(heap, starts + mean)
        else:
            count += 1
            heapq.heappush(heap, new_at + mean)
    return count


@pytest.mark.parametrize(
    ("target", "want"),
    [
        (Target(), 100),
        (Target(target_seconds=720, boot_seconds=120, duration_seconds=600), 50),  # one at once, one 600 s later
        (Target(target_seconds=719, boot_seconds=120, duration_seconds=600), 100),
        (Target(target_seconds=1320, boot_seconds=120, duration_seconds=600), 34),
        (Target(target_seconds=1320, boot_seconds=120), 34),  # no samples: 600 s
        (Target(target_seconds=119, boot_seconds=120, duration_seconds=1), 100),
        (Target(target_seconds=120, boot_seconds=120, duration_seconds=1), 100),
        (Target(target_seconds=100_000, boot_seconds=120, duration_seconds=1), 1),
        (Target(target_seconds=100_000, boot_seconds=120, duration_seconds=0), 1),
        (Target(target_seconds=100_000, duration_seconds=1, is_ephemeral=True), 100),
    ],
)
def test_slots_for_a_hundred_pods(target: Target, want: int) -> None:
    found = latency.schedule([Queued(kind=0, since=NOW, count=100)], (), target, now=NOW)
    assert new(found) == want
    assert new(found) + found.waiting == 100
    assert not found.late


TARGET = Target(target_seconds=120, boot_seconds=50, duration_seconds=600)


@pytest.mark.parametrize(
    ("age", "want"),
    [
        (490, 0),  # free in 110 s
        (470, 1),  # in 130 s: too late
        (0, 1),
        (600, 1),  # it has outlived what was expected: another 600 s
        (5000, 1),
    ],
)
def test_a_busy_slot_counts_when_it_should_be_free(age: float, want: int) -> None:
    assert new(latency.schedule(waiting(0), [latency.busy(NOW - age, TARGET, NOW)], TARGET, now=NOW)) == want


def test_a_pod_that_is_late_gets_a_new_slot_only_if_that_is_sooner() -> None:
    soon, later = (latency.busy(NOW - age, TARGET, NOW) for age in (555, 545))
    assert new(latency.schedule(waiting(500), [soon], TARGET, now=NOW)) == 0  # in 45 s, a new one in 50 s
    assert new(latency.schedule(waiting(500), [later], TARGET, now=NOW)) == 1


def test_where_nothing_new_is_in_time_each_pod_without_a_slot_in_time_gets_its_own() -> None:
    target = dataclasses.replace(TARGET, target_seconds=40)
    slots = [latency.busy(NOW - 570, target, NOW), latency.busy(NOW - 555, target, NOW)]  # in 30 s and in 45 s
    assert new(latency.schedule(waiting(0, 0, 0), slots, target, now=NOW)) == 2


def test_a_slot_that_a_waiting_pod_takes_first_serves_others_after_it() -> None:
    short = dataclasses.replace(TARGET, duration_seconds=60)
    idle, booting = latency.taken(NOW, short, NOW, 1), latency.taken(NOW + 30, short, NOW, 1)
    assert (idle.free_at, booting.free_at) == (NOW + 60, NOW + 90)
    assert new(latency.schedule(waiting(0, 0, 0, 0), [idle, booting], short, now=NOW)) == 1


def test_kinds_get_no_more_slots_than_they_may_and_the_rest_is_late() -> None:
    pods = [*waiting(0, 0), *waiting(1, 1, kind=1)]
    found = latency.schedule(pods, (), TARGET, now=NOW, most={0: 1, 1: 5})
    assert [(each.kind, each.count) for each in found.new] == [(1, 1), (1, 1), (0, 1)]
    assert [(each.kind, each.count) for each in found.late] == [(0, 1)]


def test_it_looks_again_when_a_pod_should_have_ended() -> None:
    found = latency.schedule(waiting(0), [latency.busy(NOW - 550, TARGET, NOW)], TARGET, now=NOW)
    assert found.wake_at == NOW + 50
    later = latency.schedule(waiting(50), [latency.busy(NOW - 600, TARGET, NOW)], TARGET, now=NOW)
    assert new(later) == 1


def test_it_looks_again_when_a_slot_that_does_not_come_would_be_too_late() -> None:
    short = dataclasses.replace(TARGET, duration_seconds=60)
    idle = latency.taken(NOW, short, NOW, 1)
    assert latency.schedule(waiting(0), [idle], short, now=NOW).wake_at == NOW + 60  # then it is free 120 s later
    booting = latency.taken(NOW + 20, short, NOW, 1)
    assert latency.schedule(waiting(0), [booting], short, now=NOW).wake_at == NOW + 20


def test_it_never_looks_more_often_than_once_a_second() -> None:
    found = latency.schedule(waiting(0), [latency.busy(NOW - 599.99, TARGET, NOW)], TARGET, now=NOW)
    assert found.wake_at == NOW + 1


def test_without_pods_that_wait_for_a_slot_it_does_not_look_again() -> None:
    assert latency.schedule(waiting(0), [latency.busy(NOW, TARGET, NOW)], TARGET, now=NOW).wake_at is None


@given(WAITED, AGES, TARGETS)
def test_pods_that_are_alike_are_taken_together_as_if_one_by_one(
    waited: list[int], ages: list[int], target: Target
) -> None:
    slots = [latency.busy(NOW - age, target, NOW) for age in ages]
    together = [Queued(kind=0, since=NOW - each, count=waited.count(each)) for each in set(waited)]
    found = latency.schedule(together, slots, target, now=NOW)
    assert new(found) == one_by_one(waited, ages, target)
    assert new(found) + found.waiting == len(waited)


@given(st.integers(0, 300), AGES, TARGETS, st.integers(0, 3000))
def test_a_lower_target_never_means_fewer_slots(count: int, ages: list[int], target: Target, lower: int) -> None:
    assert target.target_seconds is not None
    below = dataclasses.replace(target, target_seconds=min(lower, target.target_seconds))
    pods = [Queued(kind=0, since=NOW, count=count)]
    many, few = (
        latency.schedule(pods, [latency.busy(NOW - age, each, NOW) for age in ages], each, now=NOW)
        for each in (below, target)
    )
    assert new(many) >= new(few)


@given(WAITED, AGES, TARGETS)
def test_a_second_look_starts_nothing(waited: list[int], ages: list[int], target: Target) -> None:
    slots = [latency.busy(NOW - age, target, NOW) for age in ages]
    first = new(latency.schedule(waiting(*waited), slots, target, now=NOW))
    launched = [latency.taken(NOW + target.boot_seconds, target, NOW, first)] if first else []
    oldest_first = sorted(waited, reverse=True)
    assert new(latency.schedule(waiting(*oldest_first[first:]), [*slots, *launched], target, now=NOW)) == 0


def test_a_hundred_thousand_pods_of_one_age_are_taken_together() -> None:
    target = Target(target_seconds=1000, boot_seconds=100, duration_seconds=100)
    slots = [Slots(free_at=NOW + 100, stands_until=NOW + 100, count=5000)]
    found = latency.schedule([Queued(kind=0, since=NOW, count=100_000)], slots, target, now=NOW)
    assert found.new == (Queued(kind=0, since=NOW, count=5000),)  # ten pods on each slot


def test_a_busy_slot_counts_only_if_all_that_wait_fit_it() -> None:
    assert latency.makes_room({"cpu": 2000, "memory": 10}, [{"cpu": 1000}, {"cpu": 2000, "memory": 10}])
    assert not latency.makes_room({"cpu": 2000}, [{"cpu": 1000}, {"cpu": 1000, "nvidia.com/gpu": 1}])


@pytest.mark.parametrize(
    ("kind", "labels", "want"),
    [
        ("Job", {}, True),
        ("WorkerPool", {}, True),
        ("Job", {latency.COMPLETION_INDEX: "0"}, False),
        ("Job", {keys.QUEUE_NAME: "queue"}, False),
        ("ReplicaSet", {}, False),
        ("RayCluster", {}, False),
    ],
)
def test_only_pods_that_end_and_work_alone_may_wait(kind: str, labels: dict[str, str], want: bool) -> None:  # noqa: FBT001
    assert latency.may_wait(books.pod("one", owners=books.owner(kind), labels=labels)) is want


def test_pods_of_nobody_never_wait() -> None:
    assert not latency.may_wait(books.pod("one"))


def test_the_time_to_boot_is_that_of_most_instances() -> None:
    known = [
        books.instance(
            number,
            phase="Ready",
            providerID=f"aws:///a/i-{number}",
            instanceCreatedAt=books.date(books.START),
        ).resource
        for number in (1, 2, 3)
    ]
    nodes = {
        f"aws:///a/i-{number}": books.node("n", f"aws:///a/i-{number}", ready_at=books.START + seconds)
        for number, seconds in ((1, 50), (2, 70), (3, 90_000))
    }
    assert latency.boot_seconds(known, nodes) == 70
    assert latency.boot_seconds([], nodes) == latency.BOOT_SECONDS
