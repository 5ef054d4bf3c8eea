"""Growing and cleaning up: the seed's formula, and what can never happen, whatever pods there are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api.resources.worker_pools import PoolStatus
from autoscaler.workers import decide
from autoscaler.workers.model import Phase, Policy, Worker

workers = st.lists(
    st.builds(
        lambda phase, terminating: (phase, terminating),
        st.sampled_from(list(Phase)),
        st.booleans(),
    ),
    max_size=30,
).map(
    lambda made: [
        Worker(name=f"w-{number:02d}", phase=phase, terminating=terminating)
        for number, (phase, terminating) in enumerate(made)
    ]
)
policies = st.builds(
    lambda status, capacity, retain: Policy(status=status, capacity=capacity, retain_failed=retain),
    st.sampled_from(list(PoolStatus)),
    st.integers(0, 40),
    st.booleans(),
)


def pool(*, running: int = 0, pending: int = 0, succeeded: int = 0, failed: int = 0) -> list[Worker]:
    phases = [Phase.RUNNING] * running + [Phase.PENDING] * pending
    phases += [Phase.SUCCEEDED] * succeeded + [Phase.FAILED] * failed
    return [Worker(name=f"w-{number:02d}", phase=phase) for number, phase in enumerate(phases)]


def active(capacity: int = 20, *, retain_failed: bool = False) -> Policy:
    return Policy(status=PoolStatus.ACTIVE, capacity=capacity, retain_failed=retain_failed)


@pytest.mark.accept("W13")
@pytest.mark.parametrize(
    ("running", "pending", "capacity", "queue", "want"),
    [
        (1, 4, 20, 5, 1),  # the seed's own example: 15 more may come, and 1 does
        (0, 0, 20, 0, 0),
        (0, 0, 20, 7, 7),
        (0, 0, 5, 7, 5),
        (5, 0, 5, 7, 0),
        (0, 7, 20, 7, 0),
        (0, 9, 20, 7, 0),
        (6, 0, 5, 7, 0),  # capacity was lowered: nobody is killed, nobody is made
        (0, 0, 0, 7, 0),
    ],
)
def test_the_seeds_formula(running: int, pending: int, capacity: int, queue: int, want: int) -> None:
    assert decide.grow(pool(running=running, pending=pending), active(capacity), queue).create == want


def test_every_pod_takes_a_place_retained_failed_ones_too() -> None:
    there = pool(running=2, failed=3)
    assert decide.grow(there, active(10, retain_failed=True), 100).create == 5
    assert decide.counts(there, 10).capacity == 5
    assert decide.counts(there, 3).capacity == 0  # never negative


@pytest.mark.accept("W13")
@given(workers, policies, st.integers(0, 100))
def test_a_pool_never_outgrows_its_capacity_and_only_an_active_one_grows(
    there: list[Worker], policy: Policy, queue: int
) -> None:
    growth = decide.grow(there, policy, queue)
    assert growth.create >= 0
    assert growth.create == 0 or len(there) + growth.create <= policy.capacity
    assert growth.create == 0 or policy.status is PoolStatus.ACTIVE
    assert growth.create <= queue


@given(workers, policies, st.integers(0, 100))
def test_a_worker_that_leaves_is_no_help_to_the_queue(there: list[Worker], policy: Policy, queue: int) -> None:
    stayed = [Worker(name=one.name, phase=one.phase) for one in there]
    assert decide.grow(there, policy, queue).create >= decide.grow(stayed, policy, queue).create


@given(workers, policies)
def test_clean_up_removes_what_ended_and_nothing_that_works(there: list[Worker], policy: Policy) -> None:
    removed = set(decide.clean_up(there, policy).remove)
    for worker in there:
        ended = worker.phase is Phase.SUCCEEDED or (worker.phase is Phase.FAILED and not policy.retain_failed)
        want = not worker.terminating and (ended or policy.status is PoolStatus.SHUTDOWN)
        assert (worker.name in removed) == want


def test_shutdown_removes_all_and_grows_nothing() -> None:
    there = pool(running=2, pending=1, failed=1)
    policy = Policy(status=PoolStatus.SHUTDOWN, capacity=10, retain_failed=True)
    assert len(decide.clean_up(there, policy).remove) == 4
    assert decide.grow(there, policy, 100).create == 0


def test_paused_keeps_workers_and_grows_nothing() -> None:
    there = pool(running=2, succeeded=1)
    policy = Policy(status=PoolStatus.PAUSED, capacity=10)
    assert decide.clean_up(there, policy).remove == ("w-02",)
    assert decide.grow(there, policy, 100).create == 0


def test_workers_that_went_wrong_are_named_removed_or_not() -> None:
    there = [*pool(succeeded=1, failed=2), Worker(name="x", phase=Phase.PENDING, trouble="ErrImagePull")]
    kept = decide.clean_up(there, active(retain_failed=True))
    assert (kept.remove, kept.failed) == (("w-00",), ("w-01", "w-02"))
    assert [worker.name for worker in kept.stuck] == ["x"]
    assert decide.clean_up(there, active()).remove == ("w-00", "w-01", "w-02")


def test_jobs_without_a_place_are_counted() -> None:
    assert decide.grow(pool(running=3), active(5), 10).left_out == 8
    assert decide.grow(pool(running=3), active(5), 2).left_out == 0
