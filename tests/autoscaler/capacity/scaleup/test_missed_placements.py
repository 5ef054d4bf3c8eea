"""Nodes that do not take what they should are left out; a scheduler that is only slow teaches nothing."""

from collections.abc import Mapping
from typing import Any

from autoscaler import clock
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.capacity.scaleup import missed_placements
from autoscaler.capacity.scaleup.missed_placements import PATIENCE_SECONDS, MissedPlacement, Waiting
from autoscaler.kube import objects
from tests.autoscaler.capacity import seen

A, B = (NodeGroupKey(pool="p", zone=zone, instance_type="m5.large") for zone in "ab")
GROUPS = {"a-1": A, "a-2": A, "b-1": B}
START = 1_000_000.0


def waiting(pod: objects.Pod) -> Waiting:
    return Waiting(pod.shape, pod.meta.key.namespace)


def lessons(pod: objects.Pod, *rooms: str, **more: Any) -> MissedPlacement:
    """Return what is learned from two plans, with as much time between them as the scheduler may take."""
    known: Mapping[Waiting, MissedPlacement] = {}
    for now in (START, START + PATIENCE_SECONDS):
        landed = {waiting(pod): frozenset(rooms)}
        known = missed_placements.learn(known, landed, GROUPS, now=now, **more)
    return known[waiting(pod)]


def test_a_node_that_did_not_take_a_pod_in_time_is_left_out_and_one_that_was_empty_is_told_of() -> None:
    pod = seen.pod("waits")
    assert lessons(pod, "a-1").avoid == {"a-1"}
    assert lessons(pod, "a-1", "b-1").refused_by == A
    assert lessons(pod, "a-1", "b-1", working={"a-1"}).refused_by == B
    assert lessons(pod, "a-1", "static", working={"a-1"}).refused_by is None


def test_nobody_has_waited_before_the_cluster_was_seen_again() -> None:
    pod = seen.pod("waits")
    assert lessons(pod, "a-1", settled_at=START + 1).avoid == set()
    assert lessons(pod, "a-1", settled_at=START).avoid == {"a-1"}


def test_nobody_is_given_up_while_nodes_of_the_group_take_such_pods() -> None:
    pod = seen.pod("waits")
    found = lessons(pod, "a-1", "b-1", taking={pod.shape: frozenset({A})})
    assert found.avoid == {"b-1"}
    assert found.landed == {"a-1": START + PATIENCE_SECONDS}


def test_a_group_takes_pods_while_one_of_that_shape_began_on_its_nodes_lately() -> None:
    fresh = seen.pod("fresh", node="a-1", status={"startTime": clock.to_rfc3339(START - 1)})
    old = seen.pod("old", node="b-1", status={"startTime": clock.to_rfc3339(START - PATIENCE_SECONDS)})
    elsewhere = seen.pod("elsewhere", node="static", status={"startTime": clock.to_rfc3339(START)})
    assert missed_placements.taking([fresh, old, elsewhere], GROUPS, START) == {fresh.shape: frozenset({A})}


def test_pods_that_wait_no_more_are_forgotten() -> None:
    pod = seen.pod("waits")
    assert (
        missed_placements.learn({waiting(pod): MissedPlacement(avoid=frozenset({"a-1"}))}, {}, GROUPS, now=START) == {}
    )
