"""Whatever comes, changes and goes, and in whatever order: the books say what reading all tables afresh would say."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.admission.quota import recomputing
from autoscaler.admission.quota.books import Books
from tests.autoscaler.admission import builders
from tests.autoscaler.admission.builders import NOW, admission

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
