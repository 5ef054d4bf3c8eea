"""Nodes that do not take what they should are left out; a scheduler that is only slow teaches nothing."""

from collections.abc import Mapping

from autoscaler import clock
from autoscaler.api.node_groups import NodeGroupKey
from autoscaler.capacity import experience
from autoscaler.capacity.experience import PATIENCE_SECONDS, Experience, Waiting
from autoscaler.kube import objects
from tests.autoscaler.capacity import seen

A, B = (NodeGroupKey(pool="p", zone=zone, instance_type="m5.large") for zone in "ab")
GROUPS = {"a-1": A, "a-2": A, "b-1": B}
START = 1_000_000.0


def waiting(pod: objects.Pod) -> Waiting:
    return Waiting(pod.shape, pod.meta.key.namespace)


def lessons(pod: objects.Pod, *rooms: str, taking: experience.Taking | None = None) -> Experience:
    """Return what is learned from two plans, with as much time between them as the scheduler may take."""
    known: Mapping[Waiting, Experience] = {}
    for now in (START, START + PATIENCE_SECONDS):
        landed = {waiting(pod): frozenset(rooms)}
        known = experience.learn(known, landed, GROUPS, now=now, taking=taking)
    return known[waiting(pod)]


def test_a_node_that_did_not_take_a_pod_in_time_is_left_out_and_two_of_them_end_their_group() -> None:
    pod = seen.pod("waits")
    assert lessons(pod, "a-1").avoid == {"a-1"}
    assert lessons(pod, "a-1").missed() == {}
    assert lessons(pod, "a-1", "a-2", "b-1").missed().keys() == {A}


def test_nobody_is_given_up_while_nodes_of_the_group_take_such_pods() -> None:
    pod = seen.pod("waits")
    found = lessons(pod, "a-1", "b-1", taking={pod.shape: frozenset({A})})
    assert found.avoid == {"b-1"}
    assert found.landed == {"a-1": START + PATIENCE_SECONDS}


def test_a_group_takes_pods_while_one_of_that_shape_began_on_its_nodes_lately() -> None:
    fresh = seen.pod("fresh", node="a-1", status={"startTime": clock.to_rfc3339(START - 1)})
    old = seen.pod("old", node="b-1", status={"startTime": clock.to_rfc3339(START - PATIENCE_SECONDS)})
    elsewhere = seen.pod("elsewhere", node="static", status={"startTime": clock.to_rfc3339(START)})
    assert experience.taking([fresh, old, elsewhere], GROUPS, START) == {fresh.shape: frozenset({A})}


def test_pods_that_wait_no_more_are_forgotten() -> None:
    pod = seen.pod("waits")
    assert experience.learn({waiting(pod): Experience(avoid=frozenset({"a-1"}))}, {}, GROUPS, now=START) == {}
