"""Why somebody waits is said in words that name what is missing, and who has to do something."""

from typing import Any

import pytest

from autoscaler.admission.quota import cycle
from autoscaler.admission.quota.cache.books import Books, Tables
from autoscaler.admission.reporting import why_waiting
from autoscaler.admission.reporting.why_waiting import Why
from autoscaler.admission.workloads.workload import Workload
from tests.autoscaler.admission.builders import (
    NOW,
    cluster_queue,
    flavor,
    local_queue,
    slice_of,
    tables,
    time,
    usual,
    workload,
)


def why(made: Tables, uid: str = "u-a", *, now: float = NOW) -> Why | None:
    """Say why one waits after a cycle has looked at all."""
    books = Books(made)
    cycle.decide(books, now=now, most=100)
    found = books.get(uid)
    assert found is not None
    return why_waiting.of(books, found, now=now, blocked_by=why_waiting.blocker(books, "team", 20))


def test_it_says_what_is_missing_in_which_flavor_and_tells_the_job_nothing() -> None:
    want = Why(reason="NoRoom", message="needs 10 cpu of flavor spot, 9 are free: 1 missing")
    assert why(usual(workload("b", granted=1), workload("a", cpu=10))) == want
    assert want.event is None


@pytest.mark.parametrize(
    ("made", "reason", "is_told"),
    [
        (tables(workload("a")), "LocalQueueMissing", True),
        (tables(local_queue(), workload("a")), "ClusterQueueMissing", True),
        (tables(flavor(), cluster_queue(stop="Hold"), local_queue(), workload("a")), "ClusterQueueStopped", False),
        (
            tables(flavor(), cluster_queue(deleted=True), local_queue(), workload("a")),
            "ClusterQueueBeingDeleted",
            False,
        ),
        (tables(cluster_queue(), local_queue(), workload("a")), "FlavorsConflict", True),
    ],
)
def test_what_a_person_has_to_see_to_is_told_to_the_job_unless_it_is_the_queues(
    made: Tables, reason: str, *, is_told: bool
) -> None:
    found = why(made)
    assert found is not None
    assert (found.reason, found.needs_person, found.event is not None) == (reason, True, is_told)


def test_one_behind_the_first_of_a_strict_queue_is_told_whom_it_waits_for() -> None:
    strict = tables(flavor(), cluster_queue(strict=True), local_queue())
    for each in (workload("a", cpu=11, age=9), workload("b", cpu=1, age=8), workload("c", granted=1)):
        strict.workloads.seen(each)
    found = why(strict, "u-b")
    assert found == Why(reason="BehindAnother", message="waits behind team/a in ClusterQueue team")


@pytest.mark.accept("E11", part="who blocks a StrictFIFO queue")
def test_only_a_workload_of_a_strict_queue_that_was_looked_at_and_lacks_room_blocks_others() -> None:
    def blocker(*stored: Workload, strict: bool = True, looked_at: bool = True) -> str | None:
        books = Books(tables(flavor(), cluster_queue(strict=strict), local_queue(), *stored))
        if looked_at:
            cycle.decide(books, now=NOW, most=100)
        found = why_waiting.blocker(books, "team", 20)
        return None if found is None else found.uid

    grown, big = workload("c", granted=10, count=11), workload("a", cpu=11, age=9)
    odd = workload("odd", age=500, pod_sets=[{"name": "main", "count": 1, "requests": {"fpga": 1}}])
    assert blocker(grown, slice_of("c", age=50), odd, big) == "u-a"
    assert blocker(grown, slice_of("c", age=50), odd) is None
    assert blocker(big, strict=False) is None
    assert blocker(big, looked_at=False) is None


def test_a_slice_of_lower_priority_waits_behind_the_first_of_a_strict_queue_though_it_is_older() -> None:
    strict = tables(flavor(), cluster_queue(strict=True), local_queue())
    for each in (workload("a", cpu=11, age=9, priority=5), workload("c", granted=10, count=11), slice_of("c", age=50)):
        strict.workloads.seen(each)
    found = why(strict, "u-c-main-0")
    assert found is not None
    assert found.reason == "BehindAnother"


@pytest.mark.accept("E17", part="position and reason")
def test_a_job_that_can_never_fit_is_told_so() -> None:
    found = why(usual(workload("a", cpu=11)))
    assert found is not None
    assert (found.reason, found.needs_person, found.event is not None) == ("NoRoom", True, True)


def test_an_older_slice_does_not_wait_behind_the_first_of_a_strict_queue() -> None:
    strict = tables(flavor(), cluster_queue(strict=True), local_queue())
    parent = workload("c", granted=10, count=11, cpu=1)
    for each in (workload("a", cpu=11, age=9), parent, slice_of("c", age=50), slice_of("c", 1, age=5)):
        strict.workloads.seen(each)
    older, younger = why(strict, "u-c-main-0"), why(strict, "u-c-main-1")
    assert older is not None
    assert younger is not None
    assert (older.reason, younger.reason) == ("NoRoom", "BehindAnother")


def test_who_is_set_aside_is_told_so() -> None:
    inactive = why(usual(workload("a", active=False)))
    requeue: dict[str, dict[str, Any]] = {"requeue": {"count": 2, "at": time(-60), "flavorsTried": []}}
    backoff = why(usual(workload("a", status=requeue)))
    assert inactive is not None
    assert backoff is not None
    assert (inactive.reason, backoff.reason) == ("Inactive", "RequeueBackoff")
    assert "2 times: it is tried again at 2026-01-01T00:01:00Z" in backoff.message
    assert why_waiting.set_aside(workload("a", status=requeue), NOW + 60) is None
    once = why_waiting.set_aside(workload("a", status={"requeue": {**requeue["requeue"], "count": 1}}), NOW)
    assert once is not None
    assert "did not start in time once: " in once.message


def test_one_who_has_quota_is_told_nothing() -> None:
    assert why(usual(workload("a", granted=1))) is None
    assert why_waiting.set_aside(workload("a", granted=1, active=False), NOW) is None


def test_one_whom_nobody_has_looked_at_is_told_nothing() -> None:
    stored = workload("a")
    assert why_waiting.of(Books(usual(stored)), stored, now=NOW, blocked_by=None) is None


def test_one_far_back_is_told_in_words_that_stay_true() -> None:
    short = Why(reason="NoRoom", message="needs 11 cpu")
    told = why_waiting.among_many(short, workload("a"), shown=20)
    assert told.reason == "BehindAnother"
    assert "explain workload team/a" in told.message
    broken = Why(reason="LocalQueueMissing", message="", needs_person=True)
    assert why_waiting.among_many(broken, workload("a"), shown=20) == broken
    assert why_waiting.among_many(None, workload("a"), shown=20) == told
    inactive = why_waiting.set_aside(workload("a", active=False), NOW)
    assert why_waiting.among_many(inactive, workload("a"), shown=20) == inactive
