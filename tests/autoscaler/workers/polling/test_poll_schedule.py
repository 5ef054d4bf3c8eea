"""The rhythm of polls: a fixed phase that nothing moves, and a backoff that stays in it and is bounded."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.workers.polling import poll_schedule

uids = st.uuids().map(str)
intervals = st.integers(1, 86_399)
moments = st.floats(1.7e9, 1.9e9)


def test_an_interval_is_read_as_hours_minutes_and_seconds() -> None:
    assert poll_schedule.seconds("01:02:03") == 3723
    assert poll_schedule.seconds("23:59:59") == 86_399


@given(moments, uids, intervals)
def test_the_next_poll_is_within_one_interval(now: float, uid: str, interval: int) -> None:
    due = poll_schedule.next_poll(now, uid=uid, interval_seconds=interval)
    assert now < due <= now + interval + 0.001


@given(moments, uids, intervals, st.integers(0, 40))
def test_all_polls_of_a_pool_are_in_one_phase_whatever_happened(
    now: float, uid: str, interval: int, failures: int
) -> None:
    first = poll_schedule.next_poll(1.8e9, uid=uid, interval_seconds=interval)
    due = poll_schedule.next_poll(now, uid=uid, interval_seconds=interval, failures=failures)
    apart = round((due - first) * 1000) % (interval * 1000)
    assert apart == 0


@given(moments, uids, intervals)
def test_a_queue_that_cannot_be_read_is_asked_less_and_less_often_but_never_given_up(
    now: float, uid: str, interval: int
) -> None:
    waits = [
        poll_schedule.next_poll(now, uid=uid, interval_seconds=interval, failures=failures) - now
        for failures in range(30)
    ]
    assert waits[0] == waits[1]
    assert all(before <= after for before, after in itertools.pairwise(waits))
    assert waits[-1] <= max(poll_schedule.BACKOFF_MAX_SECONDS, interval) + interval


def test_pools_are_spread_over_the_interval() -> None:
    due = [poll_schedule.next_poll(1.8e9, uid=f"uid-{number}", interval_seconds=10) - 1.8e9 for number in range(1000)]
    by_second = [sum(second <= each < second + 1 for each in due) for second in range(10)]
    assert min(by_second) > 60
