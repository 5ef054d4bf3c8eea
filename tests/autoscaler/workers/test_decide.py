"""Growing and cleaning up: the seed's formula, and what can never happen, whatever pods there are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api.resources.worker_pools import PoolStatus, WorkerPoolSpec
from autoscaler.control import plans
from autoscaler.kube import objects
from autoscaler.workers import decide
from autoscaler.workers.model import Cause, Phase, Plan
from autoscaler.workers.worker_index import PoolWorkers
from tests.autoscaler.workers import workers as builders
from tests.autoscaler.workers.workers import NOW, worker

everybody = st.lists(st.tuples(st.sampled_from(list(Phase)), st.booleans()), max_size=30).map(
    lambda made: [
        worker(f"w-{number:02d}", phase=phase, terminating=terminating)
        for number, (phase, terminating) in enumerate(made)
    ]
)
policies = st.builds(
    lambda status, capacity, retain: wanted(capacity, status, retain_failed=retain),
    st.sampled_from(list(PoolStatus)),
    st.integers(0, 40),
    st.booleans(),
)


def pool(*, running: int = 0, pending: int = 0, succeeded: int = 0, failed: int = 0) -> PoolWorkers:
    phases = [Phase.RUNNING] * running + [Phase.PENDING] * pending
    phases += [Phase.SUCCEEDED] * succeeded + [Phase.FAILED] * failed
    return builders.pool(worker(f"w-{number:02d}", phase=phase) for number, phase in enumerate(phases))


def wanted(
    capacity: int = 20,
    status: PoolStatus = PoolStatus.ACTIVE,
    *,
    retain_failed: bool = False,
    failed_limit: int | None = None,
) -> WorkerPoolSpec:
    worker_spec = {"retainFailedWorkers": retain_failed, "failedWorkersLimit": failed_limit}
    changes = {f"workerSpec__{field}": value for field, value in worker_spec.items()}
    return builders.resource(poolCapacity=capacity, status=status, **changes).resource.spec


def removed(there: PoolWorkers, policy: WorkerPoolSpec, template: str | None = None) -> dict[str, Cause]:
    return dict(decide.clean_up(there, policy, now=NOW, template=template).remove)


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
    assert decide.grow(pool(running=running, pending=pending), wanted(capacity), queue).create == want


def test_every_pod_counts_retained_failed_ones_too_and_those_that_may_come() -> None:
    there = pool(running=2, failed=3)
    assert decide.grow(there, wanted(10, retain_failed=True), 100).create == 5
    assert decide.grow(there, wanted(10, retain_failed=True), 100, unanswered=2).create == 3
    assert decide.grow(there, wanted(10, retain_failed=True), 3, unanswered=2).create == 1
    assert decide.counts(there, 10).capacity == 5
    assert decide.counts(there, 10, unanswered=2).pending == 2
    assert decide.counts(there, 3).capacity == 0  # never negative


@pytest.mark.accept("W13")
@given(everybody, policies, st.integers(0, 100))
def test_a_pool_never_outgrows_its_capacity_and_only_an_active_one_grows(
    there: list[objects.Pod], policy: WorkerPoolSpec, queue: int
) -> None:
    growth = decide.grow(builders.pool(there), policy, queue)
    assert growth.create >= 0
    assert growth.create == 0 or len(there) + growth.create <= policy.pool_capacity
    assert growth.create == 0 or policy.status is PoolStatus.ACTIVE
    assert growth.create <= queue


@given(everybody, policies, st.integers(0, 100))
def test_a_worker_that_leaves_is_no_help_to_the_queue(
    there: list[objects.Pod], policy: WorkerPoolSpec, queue: int
) -> None:
    stayed = [worker(pod.meta.key.name, phase=pod.phase) for pod in there]
    now, otherwise = (decide.grow(builders.pool(each), policy, queue).create for each in (there, stayed))
    assert now >= otherwise


@given(everybody, policies)
def test_clean_up_removes_what_ended_and_nothing_that_works(there: list[objects.Pod], policy: WorkerPoolSpec) -> None:
    gone = removed(builders.pool(there), policy)
    for pod in there:
        ended = pod.phase == "Succeeded" or (pod.phase == "Failed" and not policy.worker_spec.retain_failed_workers)
        want = pod.meta.deleted_at is None and (ended or policy.status is PoolStatus.SHUTDOWN)
        assert (pod.meta.key.name in gone) == want


def test_shutdown_removes_all_and_grows_nothing() -> None:
    there = pool(running=2, pending=1, failed=1)
    policy = wanted(10, PoolStatus.SHUTDOWN, retain_failed=True)
    assert set(removed(there, policy).values()) == {Cause.SHUTDOWN}
    assert len(removed(there, policy)) == 4
    assert decide.grow(there, policy, 100).create == 0


def test_paused_keeps_workers_and_grows_nothing() -> None:
    there = builders.pool([worker("done", phase="Succeeded"), worker("late", phase="Pending", bound_ago=9999)])
    policy = wanted(10, PoolStatus.PAUSED)
    assert removed(there, policy, template="other") == {"done": Cause.ENDED}
    assert decide.grow(there, policy, 100).create == 0


def test_workers_that_went_wrong_are_named_removed_or_not() -> None:
    there = pool(succeeded=1, failed=2)
    there.add(worker("x", phase="Pending", trouble="ErrImagePull", init=True))
    kept = decide.clean_up(there, wanted(retain_failed=True), now=NOW)
    assert (kept.remove, kept.failed) == ((("w-00", Cause.ENDED),), ("w-01", "w-02"))
    assert [(each.name, each.trouble) for each in kept.stuck] == [("x", "ErrImagePull")]
    assert removed(there, wanted()) == {"w-00": Cause.ENDED, "w-01": Cause.FAILED, "w-02": Cause.FAILED}


def test_jobs_without_a_place_are_counted() -> None:
    assert decide.grow(pool(running=3), wanted(5), 10).left_out == 8
    assert decide.grow(pool(running=3), wanted(5), 2).left_out == 0


@pytest.mark.accept("W25")
@pytest.mark.parametrize(
    ("limit", "want"), [(None, set()), (3, set()), (2, {"a"}), (1, {"a", "c"}), (0, {"a", "b", "c"})]
)
def test_of_failed_workers_that_are_kept_the_oldest_beyond_the_limit_go(limit: int | None, want: set[str]) -> None:
    ages = {"a": 300.0, "b": 100.0, "c": 200.0}
    there = builders.pool(worker(name, phase="Failed", ended_ago=ago) for name, ago in ages.items())
    assert set(removed(there, wanted(retain_failed=True, failed_limit=limit))) == want
    assert set(removed(there, wanted(failed_limit=limit))) == set(ages)  # nobody asked to keep them


@pytest.mark.accept("W24", part="which workers go, by template and time")
@pytest.mark.parametrize(
    ("pod", "want"),
    [
        (worker(phase="Pending", template="before"), Cause.OTHER_TEMPLATE),
        (worker(phase="Pending", template="before", bound_ago=1), Cause.OTHER_TEMPLATE),
        (worker(phase="Pending", template="now"), None),
        (worker(phase="Pending", template=""), None),  # made by an older version: nobody knows from what
        (worker(phase="Running", template="before"), None),
        (worker(phase="Pending", template="before", terminating=True), None),
        (worker(phase="Pending", bound_ago=899), None),
        (worker(phase="Pending", bound_ago=900), Cause.NOT_STARTED),
        (worker(phase="Running", bound_ago=9999), None),
    ],
)
def test_a_worker_that_never_started_is_replaced_when_its_template_changed_or_it_takes_too_long(
    pod: objects.Pod, want: Cause | None
) -> None:
    assert removed(builders.pool([pod]), wanted(), template="now").get("w") == want
    if want is Cause.OTHER_TEMPLATE:
        assert removed(builders.pool([pod]), wanted(), template=None) == {}  # nobody knows the template


def test_a_plan_says_what_is_done_and_why() -> None:
    there = builders.pool([worker("pool-x7k2p", phase="Succeeded")])
    chosen, grown = decide.clean_up(there, wanted(3), now=NOW), decide.grow(there, wanted(3), 5)
    plan = Plan(pool=objects.Key("a", "pool"), clean_up=chosen, growth=grown)
    why = "the queue asks for 5 more, and the pool may have 2 more"
    assert list(plan.commands()) == [
        plans.Command(verb="delete", what="pod a/pool-x7k2p", why="it ended"),
        plans.Command(verb="create", what="2 pods of workerpool a/pool", why=why),
    ]
