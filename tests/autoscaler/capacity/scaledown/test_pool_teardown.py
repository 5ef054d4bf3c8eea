"""Pools that leave: what is asked to go, what is waited for, and that nothing that ends by itself is ever asked."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api import keys
from autoscaler.capacity.disruption_taint import Reason
from autoscaler.capacity.scaledown import emptiness, node_repair, pool_teardown
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.kube import objects
from tests.autoscaler.capacity import seen

SINCE = seen.NOW - 60
EVERYTHING = {"operator": "Exists"}
OWNERS = ["", "Job", "WorkerPool", "ReplicaSet", "StatefulSet", "DaemonSet", "Node", "RayCluster"]


def world(*pods: objects.Pod, **more: Any) -> Snapshot:
    """Two nodes of a pool that leaves, and one of another."""
    nodes = [
        seen.node("one", instance="i-1", labels={keys.INSTANCE_POOL: "workers"}),
        seen.node("two", instance="i-2", labels={}),
        seen.node("other", instance="i-3", labels={keys.INSTANCE_POOL: "others"}),
    ]
    groups = (seen.group("i-1", "i-2"), seen.group("i-3", pool="others"))
    plain = {
        "nodes": nodes,
        "groups": groups,
        "pools": {"workers": seen.pool(drainSeconds=100), "others": seen.pool()},
        "leaving": {"workers": SINCE},
        "home": "sluice-system",
    }
    return seen.snapshot(pods=pods, **{**plain, **more})


def asked(snapshot: Snapshot) -> dict[str, set[str]]:
    return {each.node.name: set(each.asked) for each in pool_teardown.emptied(snapshot)}


def waited(snapshot: Snapshot) -> list[str]:
    return [key.name for key in pool_teardown.remainder(snapshot, "workers").pods]


def test_nodes_are_known_by_their_group_or_by_their_label() -> None:
    assert asked(world()) == {"one": set(), "two": set()}
    assert asked(world(groups=())) == {"one": set()}
    assert asked(world(leaving={})) == {}


@pytest.mark.parametrize(
    ("owner", "want_asked", "want_waited"),
    [
        ("", False, True),
        ("Job", False, True),
        ("WorkerPool", False, True),
        ("RayCluster", False, True),  # nobody knows that another would come for it
        ("ReplicaSet", True, True),
        ("StatefulSet", True, True),
        ("DaemonSet", False, False),
        ("Node", False, False),
    ],
)
def test_what_lives_for_ever_is_asked_and_what_ends_is_waited_for(
    owner: str,
    want_asked: bool,  # noqa: FBT001
    want_waited: bool,  # noqa: FBT001
) -> None:
    snapshot = world(seen.pod("p", node="one", owner=owner))
    assert asked(snapshot)["one"] == ({"p"} if want_asked else set())
    assert waited(snapshot) == (["p"] if want_waited else [])


def test_pods_that_ended_or_only_wait_for_the_node_are_no_work() -> None:
    ended = seen.pod("ended", node="one", status={"phase": "Succeeded"})
    nominated = seen.pod("nominated", status={"nominatedNodeName": "one"})
    assert waited(world(ended, nominated)) == []


def test_a_pod_that_was_asked_already_is_waited_for_and_not_asked_again() -> None:
    going = seen.pod("p", node="one", owner="ReplicaSet", metadata={"deletionTimestamp": seen.STAMP})
    assert asked(world(going))["one"] == set()
    assert waited(world(going)) == ["p"]


def test_the_runtime_itself_and_kubernetes_own_pods_are_not_waited_for() -> None:
    own = {"namespace": "sluice-system", "labels": {keys.VERSION: "1"}}
    runtime = seen.pod("runtime", node="one", owner="ReplicaSet", metadata=own)
    dns = seen.pod("dns", node="one", owner="ReplicaSet", metadata={"namespace": "kube-system"})
    neighbour = seen.pod("worker", node="one", owner="WorkerPool", metadata={"namespace": "sluice-system"})
    snapshot = world(runtime, dns, neighbour)
    assert asked(snapshot)["one"] == {"dns"}  # never the runtime: it would not live to see the end
    assert waited(snapshot) == ["worker"]


def test_a_pod_that_would_come_back_to_the_same_node_is_left_alone() -> None:
    stubborn = seen.pod("p", node="one", owner="ReplicaSet", tolerations=[EVERYTHING])
    assert asked(world(stubborn))["one"] == set()
    assert waited(world(stubborn)) == []
    job = seen.pod("j", node="one", owner="Job", tolerations=[EVERYTHING])
    assert waited(world(job)) == ["j"]


def test_a_whole_stack_that_leaves_waits_for_what_ends_and_asks_nobody() -> None:
    service = seen.pod("service", node="one", owner="ReplicaSet")
    job = seen.pod("job", node="two", owner="Job")
    snapshot = world(service, job, dissolving=True)
    assert asked(snapshot) == {"one": set(), "two": set()}
    assert waited(snapshot) == ["job"]
    closing = world(service, dissolving=True, closing_since=seen.NOW)
    assert asked(closing) == {"one": {"service"}, "two": set()}
    assert waited(closing) == []
    assert pool_teardown.services(closing) == {service.meta.key}


def test_where_the_runtime_runs_nodes_go_on_taking_pods_until_the_stack_has_left() -> None:
    own = {"namespace": "sluice-system", "labels": {keys.VERSION: "1"}}
    runtime = seen.pod("runtime", node="one", owner="ReplicaSet", metadata=own)
    assert asked(world(runtime, dissolving=True)) == {}
    assert asked(world(runtime)) == {"one": set(), "two": set()}


def test_a_node_that_was_emptied_stays_so_when_its_pool_is_gone() -> None:
    mark = {"key": keys.REMOVING, "value": Reason.EMPTIED, "effect": "NoSchedule"}
    node = seen.node("left", instance="i-9", taints=[mark], labels={keys.INSTANCE_POOL: "workers"})
    assert asked(world(nodes=[node], groups=(), pools={}, leaving={})) == {"left": set()}
    assert asked(world(nodes=[node], groups=(), leaving={})) == {}


def test_instances_that_start_are_waited_for_but_not_for_ever() -> None:
    groups = (seen.group("i-1", "i-2", "i-8"),)
    young = world(groups=groups, launched_at={"i-8": seen.NOW - 10})
    assert (pool_teardown.remainder(young, "workers").starting, pool_teardown.remainder(young, "workers").is_empty) == (
        1,
        False,
    )
    old = world(groups=groups, launched_at={"i-8": seen.NOW - 900})
    assert pool_teardown.remainder(old, "workers").is_empty


def test_what_is_left_is_told_with_a_few_names_and_is_overdue_after_a_while() -> None:
    pods = [seen.pod(f"job-{number}", node="one", owner="Job") for number in range(5)]
    left = pool_teardown.remainder(world(*pods), "workers")
    want = "5 pods still run: default/job-0, default/job-1, default/job-2 and 2 more; the pool has been leaving since"
    assert str(left).startswith(want)
    assert left.reason(seen.NOW) is pool_teardown.Reason.WAITING
    assert left.wake_at == SINCE + 100
    assert left.reason(SINCE + 100) is pool_teardown.Reason.OVERDUE
    assert pool_teardown.remainder(world(), "workers").reason(SINCE + 1000) is pool_teardown.Reason.DRAINED


def test_what_a_disruption_budget_holds_is_told() -> None:
    pods = [seen.pod(f"web-{number}", node="one", owner="ReplicaSet") for number in range(2)]
    left = pool_teardown.remainder(world(*pods, held=frozenset({"web-1", "gone"})), "workers")
    assert "default/web-1; a PodDisruptionBudget holds 1 of them; the pool has been leaving" in str(left)


def test_instances_that_leave_are_not_replaced() -> None:
    snapshot = world(groups=(seen.group("i-1", minimum=1),), spent=frozenset({"i-1"}), outdated=frozenset({"i-1"}))
    assert emptiness.choose(snapshot, {"one": 0.0}, frozenset()).removals == ()
    above = world(groups=(seen.group("i-1"),), spent=frozenset({"i-1"}))
    [chosen] = emptiness.choose(above, {"one": 0.0}, frozenset()).removals
    assert (chosen.reason, chosen.decrement) == (Reason.LEAVING, True)
    lost = world(nodes=[], groups=(seen.group("i-1", minimum=1),), launched_at={"i-1": 0.0})
    assert node_repair.choose(lost).replacements == ()
    staying = world(nodes=[], groups=(seen.group("i-1", minimum=1),), launched_at={"i-1": 0.0}, leaving={})
    assert len(node_repair.choose(staying).replacements) == 1


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["one", "two", "other", ""]),
            st.sampled_from(OWNERS),
            st.sampled_from(["default", "kube-system", "sluice-system"]),
            st.booleans(),
        ),
        max_size=12,
    ),
    st.booleans(),
)
def test_only_what_is_made_anew_elsewhere_is_asked_and_nothing_that_ends_is_overlooked(
    rows: list[tuple[str, str, str, bool]],
    dissolving: bool,  # noqa: FBT001
) -> None:
    pods = [
        seen.pod(
            f"p-{number}",
            node=node,
            owner=owner,
            metadata={"namespace": namespace, "labels": {keys.VERSION: "1"} if stamped else {}},
        )
        for number, (node, owner, namespace, stamped) in enumerate(rows)
    ]
    snapshot = world(*pods, dissolving=dissolving)
    owners = {pod.meta.uid: pod.meta.controller for pod in pods}
    for uids in asked(snapshot).values():
        kinds = {owner.kind for uid in uids if (owner := owners[uid]) is not None}
        assert kinds <= {"ReplicaSet", "StatefulSet"}
        assert all(owners[uid] is not None for uid in uids)
    finite = {
        pod.meta.key.name
        for pod, (node, owner, namespace, stamped) in zip(pods, rows, strict=True)
        if node in {"one", "two"}
        and owner in {"", "Job", "WorkerPool", "RayCluster"}
        and namespace != "kube-system"
        and not (namespace == "sluice-system" and stamped)
    }
    assert finite <= set(waited(snapshot))
    assert not {pod for pod in waited(snapshot) if rows[int(pod[2:])][0] not in {"one", "two"}}


def test_pools_that_stay_are_held_and_those_that_leave_are_let_go_once_empty_for_a_while() -> None:
    names = frozenset({"workers", "others"})
    assert pool_teardown.decide(world(unheld=names)).held == ("others",)
    assert pool_teardown.decide(world(unheld=names, dissolving=True)).held == ()
    deleted, since = frozenset({"workers"}), {"workers": seen.NOW - 5}
    assert pool_teardown.decide(world(deleted=deleted, empty_since=since)).let_go == ("workers",)
    assert pool_teardown.decide(world(empty_since=since)).let_go == ()
    early = pool_teardown.decide(world(deleted=deleted))
    assert (early.let_go, early.wake_at) == ((), seen.NOW + 5)
    works = pool_teardown.decide(world(seen.pod(node="one", owner="Job"), deleted=deleted, empty_since=since))
    assert (works.let_go, works.wake_at) == ((), SINCE + 100)


def test_a_stack_is_over_once_all_its_pools_are_empty_and_leaves_once_services_had_their_time() -> None:
    service = seen.pod("service", node="one", owner="ReplicaSet")
    more: dict[str, Any] = {"dissolving": True, "empty_since": {"workers": seen.NOW - 5}}
    assert not pool_teardown.decide(world(seen.pod(node="one", owner="Job"), **more)).is_over
    assert pool_teardown.decide(world(**more)).leaves
    waits = pool_teardown.decide(world(service, **more))
    assert (waits.is_over, waits.leaves) == (True, False)
    assert not pool_teardown.decide(world(service, **more, closing_since=seen.NOW - 59)).leaves
    assert pool_teardown.decide(world(service, **more, closing_since=seen.NOW - 60)).leaves
