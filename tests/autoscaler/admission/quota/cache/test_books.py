"""Whatever comes, changes and goes, and in whatever order: the books say what reading all tables afresh would say."""

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.admission.quota.amounts import FlavorResource
from autoscaler.admission.quota.cache.books import Books
from autoscaler.kube import objects
from tests.autoscaler.admission import builders
from tests.autoscaler.admission.builders import NOW, admission, cluster_queue, pod, slice_of, workload
from tests.autoscaler.admission.quota import recomputing

pytestmark = pytest.mark.accept("E16", part="what is used and who waits, as the objects say")
COUNTS = st.integers(0, 3)
QUEUES = st.sampled_from(["team", "other"])
WORKLOADS = st.fixed_dictionaries(
    {"name": st.sampled_from("ab"), "count": COUNTS, "cpu": st.sampled_from([1, 2])},
    optional={
        "granted": COUNTS,
        "cluster_queue": QUEUES,
        "evicted": st.booleans(),
        "finished": st.booleans(),
        "deleted": st.booleans(),
        "active": st.booleans(),
        "priority": st.integers(0, 1),
        "queue": st.sampled_from(["door", "gone"]),
        "job_uid": st.sampled_from(["u-job-a", "u-job-b"]),
        "is_new": st.booleans(),
        "age": st.integers(1, 3),
        "status": st.fixed_dictionaries(
            {},
            optional={
                "foldedSlices": st.lists(st.sampled_from(["u-a-main-0", "u-b-main-1"]), unique=True),
                "claim": st.just(admission({"main": 2})),
                "requeue": st.builds(lambda ago: {"count": 1, "at": builders.time(ago)}, st.sampled_from([-9, 9])),
            },
        ),
    },
)
SLICES = st.fixed_dictionaries(
    {"parent": st.sampled_from("ab"), "ordinal": st.integers(0, 1), "count": COUNTS},
    optional={
        "granted": COUNTS,
        "deleted": st.booleans(),
        "parent_uid": st.sampled_from(["u-a", "u-b", "u-new-a"]),
        "status": st.fixed_dictionaries({}, optional={"claim": st.just(admission({"main": 1}))}),
    },
)
PODS = st.fixed_dictionaries(
    {"name": st.sampled_from("pq"), "job_uid": st.sampled_from(["u-job-a", "u-job-b"])},
    optional={"queue": QUEUES, "gated": st.booleans(), "phase": st.sampled_from(["Running", "Failed"]), "cpu": COUNTS},
)
KINDS: dict[str, Any] = {
    "workload": WORKLOADS,
    "slice": SLICES,
    "pod": PODS,
    "cluster_queue": st.fixed_dictionaries({"name": QUEUES}, optional={"cohort": st.just("all")}),
    "local_queue": st.fixed_dictionaries({"name": st.just("door"), "queue": QUEUES}),
}
MAKERS: dict[str, Any] = {
    "workload": lambda name, is_new=False, **more: builders.workload(
        name, uid=f"u-new-{name}" if is_new else "", **more
    ),
    "slice": builders.slice_of,
    "pod": builders.pod,
    "cluster_queue": builders.cluster_queue,
    "local_queue": builders.local_queue,
}
STEPS = st.sampled_from(sorted(KINDS)).flatmap(
    lambda kind: st.tuples(st.just(kind), st.sampled_from(["seen", "seen", "seen", "gone", "wake"]), KINDS[kind])
)


@given(st.lists(STEPS, max_size=25))
def test_the_books_say_what_reading_everything_afresh_gives(history: list[tuple[str, str, dict[str, Any]]]) -> None:
    tables = builders.tables()
    books, now = Books(tables), NOW - 5
    for version, (kind, what, chosen) in enumerate(history, start=2):
        made = MAKERS[kind](**chosen, rv=version)
        table = builders.table_of(tables, made)
        match what:
            case "seen":
                table.seen(made)
            case "gone":
                table.gone(made.meta)
            case _:
                now += 10
        books.wake(now)
        assert recomputing.read(books) == recomputing.recompute(tables, now)
    late = Books(tables)  # one that is made later knows what was there before
    late.wake(now)
    assert recomputing.read(late) == recomputing.read(books)


def used(*stored: Any) -> dict[str, int]:
    """Return the cpu that is used, by queue."""
    books = Books(builders.usual(*stored))
    return {queue: sum(total.values()) // 1000 for queue, total in books.usage.items()}


def test_a_workload_uses_what_it_was_granted_but_no_more_than_it_wants() -> None:
    assert used(workload("a", count=3, granted=2)) == {"team": 2}
    assert used(workload("a", count=2, granted=3)) == {"team": 2}
    assert used(workload("a", count=2)) == {}


@pytest.mark.parametrize("given", [{"evicted": True}, {"finished": True}, {"deleted": True}, {"active": False}])
def test_usage_is_kept_until_admission_is_cleared(given: dict[str, Any]) -> None:
    assert used(workload("a", granted=1, **given)) == {"team": 1}


@pytest.mark.accept("E8", part="usage: granted, and slices that are not folded yet")
def test_an_admitted_slice_counts_until_it_is_folded() -> None:
    grown, part = workload("a", count=3, granted=1), slice_of("a", 0, granted=1)
    assert used(grown, part) == {"team": 2}
    assert used(workload("a", count=3, granted=2, status={"foldedSlices": ["u-a-main-0"]}), part) == {"team": 2}
    assert used(grown, slice_of("a", 0)) == {"team": 1}


@pytest.mark.accept("E14", part="slices of an evicted parent grant nothing")
@pytest.mark.parametrize("given", [{"evicted": True}, {"finished": True}])
def test_slices_of_a_parent_that_gives_its_quota_back_count_nothing(given: dict[str, Any]) -> None:
    assert used(workload("a", count=3, granted=1, **given), slice_of("a", 0, granted=1)) == {"team": 1}


def test_slices_of_a_parent_without_quota_or_of_another_uid_count_nothing() -> None:
    assert used(workload("a", count=3), slice_of("a", 0, granted=1)) == {}
    assert used(slice_of("a", 0, granted=1)) == {}
    assert used(workload("a", granted=1), slice_of("a", 0, granted=1, parent_uid="u-before")) == {"team": 1}


@pytest.mark.accept("E14", part="pods that are done count nothing, terminating ones do")
def test_open_pods_whose_job_has_no_workload_count() -> None:
    assert used(pod(cpu=2, deleted=True)) == {"team": 2}
    assert used(pod(cpu=2, queue="other", flavors="cpu=spot,memory=spot")) == {"other": 2}
    done: list[dict[str, Any]] = [{"gated": True}, {"phase": "Succeeded"}, {"phase": "Failed"}]
    for each in done:
        assert used(pod(cpu=2, **each)) == {}


def test_pods_whose_job_has_an_admitted_workload_do_not_count_but_a_slice_is_none() -> None:
    assert used(pod(cpu=2), workload("a", granted=1)) == {"team": 1}
    assert used(pod(cpu=2), workload("b", job_uid="u-job-a", granted=1)) == {"team": 1}
    assert used(pod(cpu=2), workload("a")) == {"team": 2}
    assert used(pod(cpu=2), slice_of("a", 0)) == {"team": 2}


@pytest.mark.parametrize(("name", "want"), [(builders.NAMESPACE, True), ("elsewhere", False)])
def test_a_namespace_matters_where_it_has_a_local_queue(name: str, want: bool) -> None:  # noqa: FBT001
    tables = builders.usual()
    books = Books(tables)
    epochs = [books.epoch("team")]
    for rv, kind in ((8, "research"), (9, "sales")):
        tables.namespaces.seen(builders.namespace(name, rv=rv, kind=kind))
        epochs.append(books.epoch("team"))
    tables.namespaces.gone(builders.namespace(name, rv=10).meta)
    epochs.append(books.epoch("team"))
    assert [before != after for before, after in itertools.pairwise(epochs)] == [want] * 3


def test_only_workloads_may_be_displaced_and_only_while_they_have_quota() -> None:
    tables = builders.usual(workload("a", granted=1), slice_of("a", 0, granted=1))
    books = Books(tables)
    assert [each.uid for each in books.admitted.displaceable("team")] == ["u-a"]
    tables.workloads.seen(workload("a", rv=2))
    assert (books.admitted.displaceable("team"), books.admitted.leaving("team")) == ([], set())
    tables.workloads.seen(workload("a", granted=1, rv=3))
    assert [each.uid for each in books.admitted.displaceable("team")] == ["u-a"]


def test_what_is_given_back_and_granted_again_is_used_again() -> None:
    tables = builders.usual(workload("a", granted=1))
    books = Books(tables)
    tables.workloads.seen(workload("a", rv=2))
    assert books.usage == {}
    tables.workloads.seen(workload("a", granted=1, rv=3))
    assert books.usage == {"team": {FlavorResource("spot", "cpu"): 1000}}


def test_one_that_was_made_anew_under_the_same_name_is_another() -> None:
    tables = builders.usual(workload("a", granted=1))
    books = Books(tables)
    tables.workloads.seen(workload("a", uid="u-new", rv=2))
    books.wake(NOW)
    assert (books.usage, books.get("u-a"), books.is_waiting("u-new")) == ({}, None, True)


def test_it_wakes_for_the_first_of_those_who_still_wait_for_their_time() -> None:
    def later(name: str, seconds: float, **more: Any) -> Any:
        return workload(name, status={"requeue": {"count": 1, "at": builders.time(-seconds)}}, **more)

    tables = builders.usual(later("a", 60), later("b", 90), later("c", 120))
    books = Books(tables)
    books.wake(NOW)
    assert books.wake_at == NOW + 60
    tables.workloads.gone(workload("a", rv=2).meta)
    assert books.wake_at == NOW + 90
    tables.workloads.seen(later("b", 150, rv=2))
    assert books.wake_at == NOW + 120
    tables.workloads.seen(workload("c", rv=2))
    tables.workloads.seen(workload("b", granted=1, rv=3))
    assert books.wake_at is None


def test_those_who_are_leaving_are_known_until_they_are_gone() -> None:
    tables = builders.usual(workload("a", granted=1, evicted=True), workload("b", granted=1))
    books = Books(tables)
    assert books.admitted.leaving("team") == {"u-a"}
    assert [each.uid for each in books.admitted.displaceable("team")] == ["u-b"]
    tables.workloads.seen(workload("a", rv=2))
    assert books.admitted.leaving("team") == set()


def test_one_that_does_not_say_when_it_was_admitted_is_displaced_last() -> None:
    silent = workload("silent", status={"admission": admission({"main": 1})})
    books = Books(builders.usual(silent, workload("a", granted=1)))
    assert [each.uid for each in books.admitted.displaceable("team")] == ["u-a", "u-silent"]


def exact(*stored: Any) -> dict[FlavorResource, int]:
    return dict(Books(builders.usual(*stored)).usage.get("team", {}))


def test_pod_sets_of_one_flavor_add_up_and_one_that_is_gone_uses_nothing() -> None:
    sets = [builders.pod_set("head", 1), builders.pod_set("work", 3, cpu=2)]
    granted = workload("a", pod_sets=sets, granted={"head": 1, "work": 2, "gone": 5})
    assert exact(granted) == {FlavorResource("spot", "cpu"): 5000}


def test_what_is_stamped_on_a_pod_and_not_requested_is_not_used() -> None:
    assert exact(pod(flavors="cpu=spot,memory=spot")) == {FlavorResource("spot", "cpu"): 1000}
    assert exact(pod(flavors="")) == {}


def test_pods_that_were_not_opened_by_us_use_nothing() -> None:
    plain = objects.pod(msgspec.json.encode({"metadata": builders.metadata("plain"), "spec": {"containers": []}}))
    books = Books(builders.usual(plain))
    assert (books.usage, books._strays._jobs) == ({}, {})


def test_what_a_queue_lends_follows_its_quota_and_its_cohort() -> None:
    tables = builders.tables(cluster_queue("a", cohort="all"), cluster_queue("b", cohort="all"))
    tables.workloads.seen(workload("w", count=3, granted=3, cluster_queue="a"))
    books, key = Books(tables), FlavorResource("spot", "cpu")

    def free(name: str) -> int:
        return books.ledger.free(books.queues[name], key) // 1000

    assert (free("a"), free("b")) == (17, 17)
    tables.cluster_queues.seen(cluster_queue("a", cohort="all", flavors={"spot": {"cpu": 4}}, rv=2))
    assert (free("a"), free("b")) == (11, 11)
    tables.cluster_queues.seen(cluster_queue("a", cohort="other", flavors={"spot": {"cpu": 4}}, rv=3))
    assert (free("a"), free("b")) == (1, 10)
    tables.cluster_queues.gone(cluster_queue("a", rv=4).meta)
    assert free("b") == 10
    tables.workloads.seen(workload("w", count=2, granted=2, cluster_queue="a", rv=2))
    assert free("b") == 10
    tables.cluster_queues.seen(cluster_queue("a", cohort="all", rv=5))
    assert (free("a"), free("b")) == (18, 18)


def test_queues_without_a_cohort_lend_each_other_nothing() -> None:
    books, key = Books(builders.tables(cluster_queue("a"), cluster_queue("b"))), FlavorResource("spot", "cpu")
    assert [books.ledger.free(books.queues[name], key) // 1000 for name in "ab"] == [10, 10]


# One change after the other


def test_pods_count_while_no_workload_of_their_job_has_quota() -> None:
    tables = builders.usual()
    books = Books(tables)

    def total() -> int:
        return sum(books.usage.get("team", {}).values()) // 1000

    tables.pods.seen(pod("p", cpu=2))
    assert total() == 2
    tables.workloads.seen(workload("a", granted=1))
    assert total() == 1
    tables.workloads.seen(workload("b", granted=1, job_uid="u-job-a"))
    assert total() == 2
    tables.pods.seen(pod("q", cpu=3))
    tables.workloads.gone(workload("b", rv=2).meta)
    assert total() == 1
    tables.workloads.seen(workload("a", rv=2))
    assert total() == 5
    tables.pods.seen(pod("p", cpu=2, rv=2))
    assert total() == 5
    tables.pods.seen(pod("p", cpu=2, phase="Failed", rv=3))
    assert total() == 3
    tables.pods.gone(pod("q", rv=2).meta)
    assert (books.usage, books._strays._jobs, books._strays._workloads) == ({}, {}, {})
    tables.workloads.seen(slice_of("a", 0, granted=1))
    tables.pods.seen(pod("p", cpu=2, rv=4))
    assert total() == 2  # a slice is no Workload of its job


def test_slices_follow_whatever_becomes_of_their_workload() -> None:
    tables = builders.usual(workload("a", count=4, granted=1), slice_of("a", 0, granted=1), slice_of("a", 1))
    books = Books(tables)
    books.wake(NOW)

    def now(version: int, **changed: Any) -> tuple[int, bool]:
        """Return what is used, and whether the second slice waits."""
        tables.workloads.seen(workload("a", rv=version, **{"count": 4, "granted": 1, **changed}))
        return sum(books.usage.get("team", {}).values()) // 1000, books.is_waiting("u-a-main-1")

    assert now(2) == (2, True)
    assert now(3, evicted=True) == (1, False)
    assert now(4) == (2, True)
    assert now(5, finished=True) == (1, False)
    assert now(6, active=False) == (2, False)
    assert now(7, deleted=True) == (2, False)
    assert now(8, status={"foldedSlices": ["u-a-main-0", "u-gone"]}) == (1, True)
    assert now(9) == (2, True)
    assert now(10, granted=None) == (0, False)
    assert now(11, priority=7) == (2, True)
    assert books.waiting.first("team")[0].lowered_priority == -7
    assert now(12, cluster_queue="other") == (1, True)
    assert list(books.waiting.queues()) == ["other"]
    tables.workloads.gone(workload("a", rv=13).meta)
    assert (books.usage, books.is_waiting("u-a-main-1")) == ({}, False)


def _stands(books: Books) -> object:
    """Return how the slice waits, and in which class; None: it does not."""
    books.wake(NOW)
    if not books.is_waiting("u-a-main-0"):
        return None
    found = books.class_of("u-a-main-0")
    return found.key, found.queue, found.head


@pytest.mark.parametrize(
    "changed",
    [
        {"cluster_queue": "other"},
        {"flavors": {"cpu": "demand"}},
        {"granted": 0},
        {"priority": 7},
        {"active": False},
        {"deleted": True},
        {"evicted": True},
        {"finished": True},
    ],
    ids=str,
)
def test_a_slice_follows_each_single_thing_that_changes_of_its_workload(changed: dict[str, Any]) -> None:
    tables = builders.usual(workload("a", count=4, granted=1), slice_of("a", 0))
    books = Books(tables)
    before = _stands(books)
    tables.workloads.seen(workload("a", rv=2, **{"count": 4, "granted": 1, **changed}))
    assert before != _stands(books) == _stands(Books(tables))


def test_a_workload_waits_once_its_last_slice_is_gone() -> None:
    tables = builders.usual(slice_of("a", 0), slice_of("a", 1), workload("a"))
    books = Books(tables)
    books.wake(NOW)
    tables.workloads.gone(slice_of("a", 0, rv=2).meta)
    assert not books.is_waiting("u-a")
    tables.workloads.gone(slice_of("a", 1, rv=2).meta)
    assert books.is_waiting("u-a")
    assert list(books.waiting.queues()) == ["team"]


# Which queue one belongs to


def test_who_has_quota_belongs_to_the_queue_that_granted_it_wherever_its_local_queue_leads() -> None:
    moved = builders.local_queue(queue="other", rv=2)
    books = Books(builders.usual(moved, workload("a", granted=1), slice_of("a", 0), workload("b")))
    assert [books.queue_of(books.workload(uid)) for uid in ("u-a", "u-a-main-0", "u-b")] == ["team", "team", "other"]


def test_a_slice_without_a_parent_belongs_where_its_own_quota_is_from_or_its_local_queue_leads() -> None:
    granted = slice_of("a", 0, granted=1, cluster_queue="other")
    books = Books(builders.usual(granted, slice_of("a", 1), workload("b"), slice_of("b", 0)))
    uids = ("u-a-main-0", "u-a-main-1", "u-b-main-0")
    assert [books.queue_of(books.workload(uid)) for uid in uids] == ["other", "team", "team"]


def test_who_waits_before_a_local_queue_that_does_not_exist_belongs_to_no_queue() -> None:
    books = Books(builders.usual(workload("a", queue="gone")))
    assert books.queue_of(books.workload("u-a")) is None
