"""A pool's status: all fields, written only where they changed, with conditions that remember since when."""

from typing import Any

from autoscaler.api.resources.worker_pools import PoolStatus, WorkerPool
from autoscaler.workers.model import Counts, Growth, Problem
from autoscaler.workers.reporting import event_messages, status
from tests import builders

NOW = 1_767_225_600.0


def pool(**written: Any) -> WorkerPool:
    manifest = builders.resource("WorkerPool")
    return WorkerPool.model_validate({**manifest, "status": written})


def known(**changes: Any) -> status.Known:
    counts = Counts(running=1, pending=2, failed=3, total=7, capacity=23)
    plain: dict[str, Any] = {
        "managed_by": "prod-us",
        "generation": 4,
        "counts": counts,
        "queue_size": 5,
        "problem": None,
        "full": None,
    }
    return status.Known(**{**plain, **changes})


def test_all_seven_fields_of_the_seed_are_written() -> None:
    changes = status.changes(pool(), known(), NOW)
    want = {
        "currentCapacity": 23,
        "failedWorkers": 3,
        "managedBy": "prod-us",
        "pendingWorkers": 2,
        "queueEndpoint": "https://web-server/api/job/peek_queue",
        "queueSize": 5,
        "runningWorkers": 1,
    }
    assert {key: changes[key] for key in want} == want
    assert (changes["workers"], changes["selector"]) == (7, "sluice.dev/worker-pool=cloudworkers")
    assert changes["observedGeneration"] == 4


def test_what_is_written_already_is_not_written_again() -> None:
    written = status.changes(pool(), known(), NOW)
    assert status.changes(pool(**written), known(), NOW + 60) == {}
    assert status.changes(pool(**written), known(queue_size=6), NOW + 60) == {"queueSize": 6}


def test_a_queue_that_was_not_read_leaves_the_last_number() -> None:
    assert "queueSize" not in status.changes(pool(queueSize=9), known(queue_size=None), NOW)


def test_a_pool_that_is_shut_down_shows_no_old_number() -> None:
    shut = pool(queueSize=9).model_copy(deep=True)
    shut.spec.__dict__["status"] = PoolStatus.SHUTDOWN
    assert status.changes(shut, known(queue_size=None), NOW)["queueSize"] == 0


def test_a_condition_remembers_since_when_it_holds() -> None:
    written = status.changes(pool(), known(), NOW)
    problem = Problem(reason="Unreachable", message="GET … got no answer")
    later = status.changes(pool(**written), known(problem=problem), NOW + 60)
    conditions = {each["type"]: each for each in later["conditions"]}
    assert conditions["Ready"]["lastTransitionTime"] == "2026-01-01T00:01:00Z"
    assert (conditions["Ready"]["status"], conditions["Ready"]["reason"]) == ("False", "Unreachable")
    assert conditions["Active"]["lastTransitionTime"] == "2026-01-01T00:00:00Z"


def test_a_full_pool_says_so_with_the_numbers() -> None:
    full = event_messages.full(Growth(create=0, wanted=3, capacity=0), 5, [])
    changes = status.changes(pool(), known(full=full), NOW)
    (found,) = [each for each in changes["conditions"] if each["type"] == "AtCapacity"]
    assert (found["status"], found["reason"]) == ("True", "CapacityReached")
    assert "3 jobs" in found["message"]


def test_the_status_remembers_what_the_pool_was_told_last() -> None:
    assert status.was(pool()) is None
    assert status.was(pool(**status.changes(pool(), known(), NOW))) is PoolStatus.ACTIVE
