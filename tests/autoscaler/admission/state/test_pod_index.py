"""The pods of every job, kept current by each change."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.admission.jobs import KINDS
from autoscaler.admission.state import pod_index
from autoscaler.kube import objects, store
from tests.autoscaler.admission import states

JOBS = ("one", "two")


def facts(pods: pod_index.JobPods) -> dict[str, Any]:
    """Return everything that is known of a job's pods, without what is empty."""
    found = {
        name: {
            "open": set(each.open),
            "leaving": set(each.leaving),
            "gated": set(each.gated),
            "ready": set(each.ready),
            "unstarted": set(each.unstarted),
        }
        for name, each in pods.pod_sets.items()
    }
    return {"uids": dict(pods.uids), "sets": {name: each for name, each in found.items() if any(each.values())}}


@st.composite
def changes(draw: st.DrawFn) -> list[tuple[str, Any]]:
    """Pods that come, change in any way and go."""
    names = st.sampled_from(["p0", "p1", "p2"])
    shape = st.fixed_dictionaries(
        {
            "gated": st.booleans(),
            "phase": st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
            "ready": st.booleans(),
            "ends_in": st.sampled_from([None, 5.0]),
            "set_name": st.sampled_from(["main", "more"]),
            "job_uid": st.sampled_from(JOBS),
        }
    )
    return draw(st.lists(st.tuples(names, st.one_of(st.none(), shape)), max_size=20))


@given(changes())
def test_what_is_known_is_what_reading_all_pods_afresh_says(told: list[tuple[str, Any]]) -> None:
    table: store.Table[objects.Pod] = store.Table()
    index = pod_index.index(table, states.KINDS)
    there: dict[str, objects.Pod] = {}
    for version, (name, shape) in enumerate(told, start=1):
        if shape is not None:
            there[name] = states.pod(name, rv=version, **shape)
            table.seen(there[name])
        elif name in there:
            table.gone(there.pop(name).meta)
    want = {job: facts(pods) for job, pods in index.recomputed().items()}
    assert {job: facts(pods) for job, pods in index.as_dict().items()} == want
    for job in JOBS:
        own = [pod for pod in there.values() if pod.meta.controller and pod.meta.controller.uid == job]
        assert {each.meta.uid for each in own if not each.is_terminal} == set((index.get(job) or pod_index.NOBODY).uids)


def test_a_pod_that_is_ready_no_more_is_not_known_as_such() -> None:
    there = pod_index.JobPods(kinds=states.KINDS)
    there.add(states.pod("p"))
    there.remove(states.pod("p"))
    there.add(states.pod("p", ready=False))
    assert facts(there)["sets"]["main"]["ready"] == set()


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        (states.pod("p"), {"open", "ready"}),
        (states.pod("p", ready=False), {"open"}),
        (states.pod("p", phase="Pending"), {"open", "unstarted"}),
        (states.pod("p", gated=True), {"gated"}),
        (states.pod("p", gated=True, ends_in=5), set()),
        (states.pod("p", ends_in=5), {"open", "leaving"}),
        (states.pod("p", phase="Pending", ends_in=5), {"open", "leaving"}),
        (states.pod("p", phase="Succeeded"), set()),
        (states.pod("p", phase="Failed"), set()),
    ],
    ids=["runs", "not ready", "not started", "gated", "gated, ends", "ends", "ends early", "succeeded", "failed"],
)
def test_a_pod_counts_by_its_gate_phase_and_deletion(pod: objects.Pod, want: set[str]) -> None:
    there = pod_index.JobPods(kinds=states.KINDS)
    there.add(pod)
    found = facts(there)["sets"].get("main", {})
    assert {group for group, uids in found.items() if uids} == want


@pytest.mark.parametrize(
    ("owners", "want"),
    [
        ([objects.Owner("Job", "a", "u", True, "batch/v1")], ("u",)),
        ([objects.Owner("Job", "a", "u", False, "batch/v1")], ()),
        ([objects.Owner("Job", "a", "u", True, "example.com/v1")], ()),
        ([objects.Owner("ReplicaSet", "a", "u", True, "apps/v1")], ()),
        ([], ()),
    ],
    ids=["a Job's", "not its controller", "another group's", "another kind's", "nobody's"],
)
def test_only_pods_whose_controller_is_a_job_belong_to_one(owners: list[objects.Owner], want: tuple[str, ...]) -> None:
    pod = states.pod("p")
    owned = msgspec.structs.replace(pod, meta=msgspec.structs.replace(pod.meta, owners=tuple(owners)))
    assert pod_index.PodKinds(KINDS).job_of(owned) == want
