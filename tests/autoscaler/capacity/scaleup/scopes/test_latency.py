"""A lower target never means fewer places, and nobody gets more places than pods."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api import keys
from autoscaler.capacity.scaleup.scopes import latency
from autoscaler.capacity.scaleup.scopes.latency import Reason, Target
from tests.autoscaler.capacity import books

WAITING = st.integers(0, 5000)
BUSY = st.integers(0, 300)
SECONDS = st.integers(0, 20_000)
TARGETS = st.builds(
    Target,
    target_seconds=st.none() | SECONDS,
    boot_seconds=st.integers(0, 1000),
    duration_seconds=st.none() | SECONDS,
    is_ephemeral=st.booleans(),
)


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
def test_places_for_a_hundred_pods(target: Target, want: int) -> None:
    assert latency.needed(100, target) == want
    assert latency.patience(100, target, busy=0).places == want


def test_busy_places_count() -> None:
    target = Target(target_seconds=720, boot_seconds=120, duration_seconds=600)
    assert latency.patience(100, target, busy=10).places == 40


def test_busy_places_do_not_count_where_no_place_serves_twice() -> None:
    target = Target(target_seconds=720, boot_seconds=120, duration_seconds=600, is_ephemeral=True)
    assert latency.patience(100, target, busy=40).places == 100


def test_busy_places_do_not_count_where_nothing_is_in_time() -> None:
    target = Target(target_seconds=60, boot_seconds=120)
    assert latency.patience(100, target, busy=40).places == 100
    assert target.reason is Reason.TARGET_BELOW_BOOT


@given(WAITING, TARGETS, SECONDS, BUSY)
def test_a_lower_target_never_means_fewer_places(waiting: int, target: Target, lower: int, busy: int) -> None:
    higher = target.target_seconds
    below = Target(
        target_seconds=lower if higher is None else min(lower, higher),
        boot_seconds=target.boot_seconds,
        duration_seconds=target.duration_seconds,
        is_ephemeral=target.is_ephemeral,
    )
    if higher is not None:  # no target at all means room for all
        fewer = latency.patience(waiting, target, busy=busy).places
        assert latency.patience(waiting, below, busy=busy).places >= fewer


@given(WAITING, TARGETS, BUSY)
def test_pods_get_no_more_places_than_they_are(waiting: int, target: Target, busy: int) -> None:
    got = latency.patience(waiting, target, busy=busy)
    assert 0 <= got.places <= waiting
    assert got.left == waiting - got.places
    assert target.target_seconds is not None or got.left == 0


@given(WAITING, TARGETS, BUSY)
def test_the_places_that_pods_get_serve_them_all(waiting: int, target: Target, busy: int) -> None:
    got = latency.patience(waiting, target, busy=busy)
    assert latency.served(got.places, target, busy=busy) >= waiting


@given(st.integers(1, 3000), TARGETS)
def test_all_pods_are_served_in_time_by_the_places_that_are_needed(waiting: int, target: Target) -> None:
    places = latency.needed(waiting, target)
    assert (places - 1) * target.pods_per_place < waiting <= places * target.pods_per_place


@given(st.integers(1, 2000), st.integers(0, 5000), st.integers(1, 1000), st.integers(0, 500))
def test_pods_one_after_another_on_their_places_all_begin_within_the_target(
    waiting: int, spare: int, duration: int, boot: int
) -> None:
    target = Target(target_seconds=boot + spare, boot_seconds=boot, duration_seconds=duration)
    places = latency.needed(waiting, target)
    last_begins = boot + (-(-waiting // places) - 1) * duration
    assert last_begins <= boot + spare


@given(st.integers(0, 500), st.lists(st.integers(0, 100), max_size=8))
def test_shared_places_add_up(places: int, counts: list[int]) -> None:
    got = latency.shared(places, counts)
    assert sum(got) == min(places, sum(counts))
    assert all(part <= count for part, count in zip(got, counts, strict=True))
    assert places < len(counts) or all(part > 0 for part, count in zip(got, counts, strict=True) if count)


def test_places_are_shared_by_numbers_once_every_kind_has_one() -> None:
    assert latency.shared(10, [89, 1, 10]) == (7, 1, 2)
    assert latency.shared(2, [1, 0, 50, 50]) == (1, 0, 1, 0)


def test_a_busy_place_counts_only_if_all_that_wait_fit_it() -> None:
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
