"""The next step towards the launch template: one instance more, then one node drained, in one group at a time."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api import keys
from autoscaler.capacity import disruption_taint
from autoscaler.capacity.indexes import pod_index
from autoscaler.capacity.plan import Launch, Memory, Plan
from autoscaler.capacity.scaledown import drift
from autoscaler.capacity.scaledown.drift import Choice
from autoscaler.capacity.snapshot import Ceilings, Snapshot
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects
from tests.autoscaler.capacity import seen

NONE = Memory()
REPLACED = {"key": keys.REMOVING, "value": disruption_taint.Reason.REPLACED, "effect": "NoSchedule"}


def world(  # noqa: PLR0913  # a test sets what matters
    old: int = 2,
    new: int = 0,
    *,
    zone: str = "a",
    busy: bool = True,
    marked: int = 0,
    owner: str = "ReplicaSet",
    pods: tuple[objects.Pod, ...] = (),
    more: dict[str, Any] | None = None,
    **group: Any,
) -> Snapshot:
    """A group with instances of an old template, which work, and of the new one, which do not."""
    names = [f"old-{zone}-{number}" for number in range(old)] + [f"new-{zone}-{number}" for number in range(new)]
    nodes = [
        seen.node(name, instance=name, zone=zone, taints=[REPLACED] if number < marked else [])
        for number, name in enumerate(names)
    ]
    work = [seen.pod(f"pod-{name}", node=name, owner=owner) for name in names[:old] if busy]
    return seen.snapshot(
        groups=(seen.group(*names, zone=zone, **group),),
        nodes=nodes,
        pods=[*work, *pods],
        outdated=frozenset(map(cloud.InstanceId, names[:old])),
        **(more or {}),
    )


def both(one: Snapshot, other: Snapshot) -> Snapshot:
    """Put two groups of one pool together."""
    pods = {**one.pods, **other.pods}
    return dataclasses.replace(
        one,
        groups=one.groups + other.groups,
        nodes={**one.nodes, **other.nodes},
        by_provider={**one.by_provider, **other.by_provider},
        pods=pods,
        indexed=pod_index.indexed(pods.values()),
        outdated=one.outdated | other.outdated,
    )


def step(snapshot: Snapshot, plan: Plan | None = None, memory: Memory = NONE) -> tuple[list[int], list[str]]:
    """Return to what sizes groups grow, and which nodes are drained."""
    choice = drift.choose(snapshot, plan or Plan(), memory)
    return [surge.after for surge in choice.surges], [drain.node_name for drain in choice.drains]


def test_a_group_gets_one_instance_more_before_anything_is_drained() -> None:
    assert step(world()) == ([3], [])


@pytest.mark.parametrize("coming", [{"desired": 3}, {"new": 1}], ids=["asked for", "starting"])
def test_nothing_more_happens_until_it_is_ready(coming: dict[str, Any]) -> None:
    snapshot = world(**coming)
    starting = {key: node for key, node in snapshot.nodes.items() if key.name.startswith("old")}
    by_provider = {node.provider_id: node for node in starting.values()}
    assert step(dataclasses.replace(snapshot, nodes=starting, by_provider=by_provider)) == ([], [])


def test_one_node_is_drained_once_another_is_ready_and_that_one_is_kept() -> None:
    choice = drift.choose(world(new=1), Plan(), NONE)
    assert (choice.surges, [drain.node_name for drain in choice.drains]) == ((), ["old-a-0"])
    assert [pod.meta.key.name for pod in choice.drains[0].evict] == ["pod-old-a-0"]
    assert choice.drains[0].reason is disruption_taint.Reason.REPLACED
    assert choice.spares == {"new-a-0"}


def test_a_new_instance_that_waiting_pods_are_about_to_take_is_none_to_spare() -> None:
    assert step(world(new=1), Plan(needed=frozenset({"new-a-0"}))) == ([], [])


def test_a_new_instance_that_got_work_is_none_to_spare() -> None:
    taken = world(new=1, pods=(seen.pod("other", node="new-a-0"),))
    assert step(taken) == ([4], [])


def test_what_has_begun_goes_on_although_its_work_has_left_for_the_new_instance() -> None:
    moved = world(new=1, busy=False, marked=1, pods=(seen.pod("moved", node="new-a-0"),))
    assert step(moved) == ([], ["old-a-0"])


def test_an_old_instance_without_work_is_waited_for() -> None:
    """It goes by itself, and its group shrinks or gets a new one for it."""
    assert step(both(world(1), world(1, zone="b", busy=False))) == ([2], [])
    idle = world(2, busy=False, pods=(seen.pod("work", node="old-a-0"),))
    assert step(idle) == ([], [])


def test_one_group_of_a_pool_at_a_time() -> None:
    assert step(both(world(2), world(2, zone="b"))) == ([3], [])
    assert step(both(world(2), world(2, 1, zone="b"))) == ([], ["old-b-0"])
    assert step(both(world(2, 1), world(2, 1, zone="b", marked=1))) == ([], ["old-b-0"])


def test_a_group_that_cannot_have_one_more_is_passed_by() -> None:
    short: dict[str, Any] = {"suspended": frozenset({"Launch"})}
    choice = drift.choose(both(world(2, **short), world(2, zone="b")), Plan(), NONE)
    assert [surge.group for surge in choice.surges] == ["workers-b-m5.xlarge"]
    stuck = drift.choose(world(2, **short), Plan(), NONE)
    assert stuck.waits == {"workers": "somebody has suspended launches of the group"}


def test_a_full_group_is_drained_without_one_more() -> None:
    assert step(world(minimum=2, maximum=2)) == ([], ["old-a-0"])


def test_a_full_pool_is_drained_without_one_more() -> None:
    pools = {"workers": seen.pool(limits={"maxActiveInstances": 2})}
    assert step(world(more={"pools": pools})) == ([], ["old-a-0"])


@pytest.mark.parametrize(
    ("more", "want"),
    [
        ({"ceilings": Ceilings(nodes=2)}, "the cluster has 2 of at most 2 nodes"),
        ({"ceilings": Ceilings(cpu_millis=11_000)}, "the cluster has 8 of at most 11 cores"),
        (
            {"ceilings": Ceilings(launches_per_minute=1), "launched": 1},
            "1 of at most 1 instances were started within a minute",
        ),
        ({"pools": {"workers": seen.pool(enabled=False)}}, "the pool is disabled"),
        (
            {"pools": {"workers": seen.pool(limits={"targetMaxSecondsPerMonth": 10})}},
            "the pool may use 10 s of instances a month",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_holds_launches_back_holds_this_back_too_and_is_told(more: dict[str, Any], want: str) -> None:
    choice = drift.choose(world(more=more), Plan(), NONE)
    assert (choice.surges, choice.drains, choice.waits) == ((), (), {"workers": want})


def test_waiting_pods_come_first() -> None:
    snapshot = world()
    group = snapshot.groups[0]
    launch = Launch(key=group.key, group=group.name, before=2, after=3, maximum=10)
    assert step(snapshot, Plan(launches=(launch,))) == ([], [])


@pytest.mark.parametrize(
    "more",
    [
        {"pools": {"workers": seen.pool(ephemeral=True)}},
        {"leaving": {"workers": seen.NOW}},
        {"other_autoscaler": "somebody"},
    ],
    ids=["ephemeral", "leaving", "foreign"],
)
def test_instances_that_go_soon_anyway_or_are_anothers_are_left_alone(more: dict[str, Any]) -> None:
    assert step(world(new=1, more=more)) == ([], [])


def test_instances_of_a_group_that_leaves_are_not_replaced() -> None:
    snapshot = world(new=1)
    assert step(snapshot) != ([], [])
    leaving = {group.key: None for group in snapshot.groups}
    assert step(dataclasses.replace(snapshot, leaving_groups=leaving)) == ([], [])


def test_nodes_that_can_become_empty_go_first_and_of_them_the_one_with_the_least_work() -> None:
    bound = {"annotations": {objects.SAFE_TO_EVICT: "false"}}
    pods = (
        seen.pod("bound", node="old-a-0", owner="ReplicaSet", metadata=bound),
        seen.pod("one", node="old-a-1", owner="ReplicaSet"),
        seen.pod("two", node="old-a-1", owner="ReplicaSet"),
        seen.pod("three", node="old-a-2", owner="ReplicaSet"),
    )
    assert step(world(3, 1, busy=False, pods=pods)) == ([], ["old-a-2"])


def test_a_node_that_does_not_become_empty_rests_and_another_has_its_turn() -> None:
    snapshot = world(new=1, marked=1)
    begun = Memory(begun={"old-a-0": seen.NOW - drift.PATIENCE_SECONDS})
    choice = drift.choose(snapshot, Plan(), begun)
    assert [drain.node_name for drain in choice.drains] == ["old-a-1"]
    want = {"old-a-0": seen.NOW + drift.REST_SECONDS}
    assert choice.memory.postponed == want
    again = dataclasses.replace(snapshot, now=want["old-a-0"])
    assert step(again, memory=choice.memory) == ([], ["old-a-0"])


def test_pods_that_end_by_themselves_have_more_time() -> None:
    begun = Memory(begun={"old-a-0": seen.NOW - drift.PATIENCE_SECONDS})
    choice = drift.choose(world(new=1, marked=1, owner="Job"), Plan(), begun)
    assert [drain.node_name for drain in choice.drains] == ["old-a-0"]
    assert choice.spares == frozenset()  # nothing will leave for it: it may go if it is idle for too long
    assert choice.wake_at == seen.NOW - drift.PATIENCE_SECONDS + drift.ENDING_SECONDS


def test_a_node_that_is_drained_for_another_reason_or_not_ready_is_left_alone() -> None:
    interrupted = {**REPLACED, "value": disruption_taint.Reason.INTERRUPTED}
    snapshot = world(1, 1)
    for node in (seen.node("old-a-0", instance="old-a-0", taints=[interrupted]), seen.node("old-a-0", ready=False)):
        nodes = {**snapshot.nodes, node.meta.key: node}
        by_provider = {each.provider_id: each for each in nodes.values()}
        assert step(dataclasses.replace(snapshot, nodes=nodes, by_provider=by_provider)) == ([], [])


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "old": st.integers(0, 3),
                "new": st.integers(0, 2),
                "busy": st.booleans(),
                "marked": st.integers(0, 3),
                "maximum": st.integers(5, 7),
                "desired": st.none() | st.integers(0, 7),
            }
        ),
        min_size=1,
        max_size=3,
    )
)
def test_in_a_pool_at_most_one_thing_is_done_and_never_beyond_a_group_largest_size(
    drawn: list[dict[str, Any]],
) -> None:
    snapshot = world(**{**drawn[0], "marked": min(drawn[0]["marked"], drawn[0]["old"])})
    for zone, each in zip("bc", drawn[1:], strict=False):
        snapshot = both(snapshot, world(zone=zone, **{**each, "marked": min(each["marked"], each["old"])}))
    choice: Choice = drift.choose(snapshot, Plan(), NONE)
    assert len(choice.surges) + len(choice.drains) <= 1
    sizes = {group.name: group for group in snapshot.groups}
    assert all(surge.after <= sizes[surge.group].maximum for surge in choice.surges)
    for group in snapshot.groups:
        ready_and_free = [one for one in group.members if one.id.startswith("new")]
        assert not (ready_and_free and choice.surges and choice.surges[0].group == group.name)
