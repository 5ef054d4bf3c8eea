"""Everything that is watched for admission, found by job."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from autoscaler.admission.jobs import KINDS
from autoscaler.admission.jobs.port import Job
from autoscaler.admission.state import known, priorities
from autoscaler.admission.state.job_state import Memory, Stage
from autoscaler.kube import objects, store
from tests.autoscaler.admission import builders, states

UID = states.UID


class Watched:
    """Tables that a test fills, and what is known from them."""

    def __init__(self, *stored: Any) -> None:
        quota = builders.usual()
        self.tables = known.Tables(
            workloads=quota.workloads,
            jobs={each.resource.kind: store.Table() for each in KINDS},
            pods=quota.pods,
            nodes=store.Table(),
            flavors=quota.flavors,
            cluster_queues=quota.cluster_queues,
            local_queues=quota.local_queues,
            namespaces=quota.namespaces,
            priority_classes=store.Table(),
        )
        self.known = known.Known(self.tables, KINDS)
        for each in stored:
            self.see(each)

    def see(self, stored: Any) -> None:
        if isinstance(stored, Job):
            self.tables.jobs["Job"].seen(stored)
        elif isinstance(stored, priorities.PriorityClass):
            self.tables.priority_classes.seen(stored)
        elif isinstance(stored, objects.Node):
            self.tables.nodes.seen(stored)
        else:
            builders.table_of(self.tables.of_quota, stored).seen(stored)

    def noted(self) -> list[str]:
        """Return the jobs about which something changed, and forget them."""
        found = list(self.known.dirty)
        self.known.dirty.clear()
        return found

    def state(self, uid: str = UID) -> Any:
        return self.known.state(uid, Memory())


def job(*, uid: str = UID, rv: int = 1, **more: Any) -> Job:
    made = states.job(**more)
    return msgspec.structs.replace(made, meta=msgspec.structs.replace(made.meta, uid=uid, resource_version=rv))


def priority(value: int, *, rv: int = 1, is_default: bool = True) -> priorities.PriorityClass:
    manifest = {"metadata": {**builders.metadata("usual", rv=rv)}, "value": value, "globalDefault": is_default}
    return priorities.decode(msgspec.json.encode(manifest))


def node(name: str = "node", *, ready: bool) -> objects.Node:
    condition = {"type": "Ready", "status": "True" if ready else "Unknown"}
    return objects.node(msgspec.json.encode({"metadata": {"name": name}, "status": {"conditions": [condition]}}))


# What is noted


@pytest.mark.parametrize(
    "stored",
    [job(), builders.workload(), builders.slice_of(), states.pod("p")],
    ids=["the job", "its Workload", "a slice", "a pod"],
)
def test_whatever_changes_about_a_job_is_noted(stored: Any) -> None:
    watched = Watched()
    watched.see(stored)
    assert watched.noted() == [UID]


@pytest.mark.accept("E15", part="whatever changes about a job is noted")
def test_it_is_noted_that_something_is_gone() -> None:
    watched = Watched(builders.workload())
    watched.noted()
    watched.tables.workloads.gone(builders.workload(rv=3).meta)
    assert watched.noted() == [UID]


def test_a_job_without_a_queue_is_not_noted_unless_it_had_one_or_has_a_workload() -> None:
    assert Watched(job(queue=None)).noted() == []
    left = Watched(job())
    left.noted()
    left.see(job(queue=None, rv=2))
    assert left.noted() == [UID]
    assert left.state().stage is Stage.UNKNOWN
    kept = Watched(builders.workload())
    kept.noted()
    kept.see(job(queue=None))
    assert kept.noted() == [UID]


def test_a_job_that_is_gone_or_made_anew_is_noted_by_its_old_uid_too() -> None:
    watched = Watched(job())
    watched.noted()
    watched.see(job(uid="u-new", rv=2))
    assert watched.noted() == [UID, "u-new"]
    assert watched.known.job(UID) is None
    watched.tables.jobs["Job"].gone(job(uid="u-new", rv=3).meta)
    assert watched.noted() == ["u-new"]
    assert watched.known.job("u-new") is None


def test_all_jobs_are_noted_when_a_priority_or_a_flavor_changes_and_only_then() -> None:
    watched = Watched(job(), builders.workload("b"))
    watched.noted()
    watched.see(priority(5))
    assert watched.noted() == [UID, "u-job-b"]
    watched.see(priority(5, rv=2))
    assert watched.noted() == []
    watched.see(priority(6, rv=3))
    assert watched.noted() == [UID, "u-job-b"]
    watched.see(priority(6, rv=4, is_default=False))
    assert watched.noted() == [UID, "u-job-b"]
    watched.see(builders.flavor(rv=2))
    assert watched.noted() == []
    watched.see(builders.flavor(rv=3, nodeLabels={"kind": "spot"}))
    assert watched.noted() == [UID, "u-job-b"]


# What belongs to a job


def test_a_job_is_found_with_all_that_is_its_own() -> None:
    mine = [job(), builders.workload(granted=1), states.pod("p")]
    others = [builders.workload("b"), builders.slice_of("b"), states.pod("q", job_uid="u-job-b")]
    state = Watched(*mine, *others, builders.slice_of(), priority(7)).state()
    assert state.job.meta.uid == UID
    assert state.workload.meta.uid == "u-a"
    assert _names(state.slices) == ["a-main-0"]
    assert set(state.pods.uids) == {"u-p"}
    assert state.priority == 7
    assert list(state.flavors) == ["spot"]
    odd = builders.workload(granted=1, flavors={"cpu": "deleted"})
    assert Watched(job(), odd).state().flavors == {}


@pytest.mark.accept("E3", part="slices are told from their parent")
def test_a_workload_is_told_from_its_slices_whichever_was_seen_first() -> None:
    watched = Watched(builders.slice_of(), builders.workload())
    found = watched.known.workload(UID)
    assert found is not None
    assert (found.meta.uid, watched.state().workload.meta.uid) == ("u-a", "u-a")


@pytest.mark.accept("E11", part="priority")
def test_a_job_has_the_priority_of_the_class_that_it_names() -> None:
    named = msgspec.structs.replace(job(), priority_class="usual")
    assert Watched(named, priority(7, is_default=False)).state().priority == 7
    assert Watched(job(), priority(7, is_default=False)).state().priority == 0


@pytest.mark.accept("E15", part="what is known of gates that do not open reaches the decision")
def test_what_is_remembered_of_a_job_is_part_of_its_state() -> None:
    memory = Memory(refused=["u-p"], touched=["u-q"], was_running=True)
    assert Watched(job()).known.state(UID, memory).memory is memory


@pytest.mark.accept("E8", part="a new leader reads Workloads and pods")
def test_workloads_and_pods_are_what_a_new_leader_reads_anew() -> None:
    tables = Watched().tables
    read = {each.resource.kind: each.table for each in tables.summed_up}
    assert read == {"Workload": tables.workloads, "Pod": tables.pods}


@pytest.mark.accept("E13", part="same-second timestamps tie-break by UID")
def test_slices_of_one_moment_and_number_are_in_the_order_of_their_uids() -> None:
    slices = [builders.slice_of(set_name=name, age=5) for name in ("more", "main")]
    assert _names(Watched(builders.workload(), *slices).state().slices) == ["a-main-0", "a-more-0"]


def test_slices_are_in_the_order_of_their_ages_and_then_of_their_numbers() -> None:
    ages = {10: 5, 2: 5, 0: 5, 7: 9}
    slices = [builders.slice_of(ordinal=ordinal, age=age) for ordinal, age in ages.items()]
    odd = builders.slice_of(ordinal="x", age=1)
    state = Watched(builders.workload(), *slices, odd).state()
    assert _names(state.slices) == ["a-main-7", "a-main-0", "a-main-2", "a-main-10", "a-main-x"]


def test_slices_of_an_earlier_workload_are_orphans() -> None:
    old = builders.slice_of(ordinal=1, parent_uid="u-earlier")
    state = Watched(builders.workload(), builders.slice_of(), old).state()
    assert (_names(state.slices), _names(state.orphans)) == (["a-main-0"], ["a-main-1"])
    alone = Watched(builders.slice_of()).state()
    assert (_names(alone.slices), _names(alone.orphans)) == ([], ["a-main-0"])


@pytest.mark.parametrize(
    ("nodes", "want"),
    [([], True), ([node(ready=False)], True), ([node(ready=True)], False)],
    ids=["gone", "away", "there"],
)
def test_a_node_is_lost_that_is_gone_or_not_ready(nodes: list[objects.Node], want: bool) -> None:  # noqa: FBT001
    watched = Watched(states.pod("p"), *nodes)
    assert ("node" in watched.state().lost_nodes) is want


def _names(stored: Iterable[Any]) -> list[str]:
    return [each.meta.key.name for each in stored]
