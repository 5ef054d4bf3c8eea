"""What is said of groups and their nodes is what looking at all of them says, and costs the groups that changed."""

import dataclasses
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.capacity.indexes import group_nodes
from autoscaler.capacity.scaledown import emptiness, node_repair, unfinished
from autoscaler.capacity.scaleup import learned_allocatable, supply
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects
from tests.autoscaler.capacity import seen

GROUPS, INSTANCES_EACH = 250, 40
ZONES = "abc"
LIFECYCLES = st.sampled_from(list(cloud.Lifecycle))
INSTANCE = st.none() | LIFECYCLES
NODE = st.none() | st.booleans() | st.just("tainted")
STEP = st.tuples(st.sampled_from(ZONES), st.integers(0, 2), INSTANCE, NODE)
NO_TAINTS: unfinished.Listed = {}
NOBODY = frozenset[cloud.InstanceId]()
DISTURBED = ({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},)


def instance(zone: str, number: int, lifecycle: cloud.Lifecycle) -> cloud.Instance:
    return cloud.Instance(id=cloud.InstanceId(f"i-{zone}-{number}"), zone=zone, lifecycle=lifecycle)


def node(zone: str, number: int, state: object) -> objects.Node:
    taints = DISTURBED if state == "tainted" else ()
    return seen.node(
        f"n-{zone}-{number}", instance=f"i-{zone}-{number}", zone=zone, ready=state is not False, taints=taints
    )


def slowly(groups: tuple[cloud.NodeGroup, ...], nodes: Mapping[str, objects.Node]) -> list[object]:
    """Say the same of each group, looking at all of it."""
    said: list[object] = []
    for group in groups:
        staying = [one for one in group.instances if one.lifecycle is not cloud.Lifecycle.LEAVING]
        with_node = {one.provider_id: nodes[one.provider_id] for one in staying if one.provider_id in nodes}
        members = {one.provider_id for one in group.members}
        ready = [
            (one.provider_id, nodes[one.provider_id])
            for one in group.instances
            if one.provider_id in nodes and nodes[one.provider_id].ready
        ]
        lacking = [(key, each) for key, each in ready if unfinished.lacks(each, group, {}, is_new=True) is not None]
        finished = [each.allocatable for key, each in ready if (key, each) not in lacking]
        said.append(
            (
                with_node,
                len(members - with_node.keys()),
                len(with_node.keys() - members),
                {each.meta.key.name for each in with_node.values() if each.ready},
                [one.id for one in group.members if one.provider_id not in nodes or not nodes[one.provider_id].ready],
                [each for each in with_node.values() if unfinished.lacks(each, group, {}, is_new=True) is not None],
                (tuple(finished[:1]), tuple((key, each.allocatable) for key, each in lacking)),  # all are of one type
            )
        )
    return said


def incrementally(groups: tuple[cloud.NodeGroup, ...], nodes: Mapping[str, objects.Node]) -> list[object]:
    snapshot = Snapshot(now=seen.NOW, groups=groups, by_provider=nodes)
    said: list[object] = []
    for group in groups:
        nodeless, strangers = supply._nodeless(groups, nodes)[group.name]
        said.append(
            (
                supply.nodes_of(snapshot, group),
                len(nodeless),
                strangers,
                emptiness._ready_of(groups, nodes)[group.name].keys(),
                [one.id for one, _ in node_repair._unready(groups, nodes)[group.name]],
                [each for _, each in unfinished._suspects(groups, nodes, NO_TAINTS)[group.name]],
                learned_allocatable._offers(groups, nodes, NOBODY, NO_TAINTS)[group.name],
            )
        )
    return said


@given(st.lists(STEP, max_size=25))
def test_whatever_changes_groups_say_what_all_their_instances_say(
    steps: list[tuple[str, int, cloud.Lifecycle | None, object]],
) -> None:
    listed: dict[str, dict[int, cloud.Instance]] = {zone: {} for zone in ZONES}
    nodes: dict[str, objects.Node] = {}
    for zone, number, lifecycle, state in steps:
        listed[zone].pop(number, None)
        if lifecycle is not None:
            listed[zone][number] = instance(zone, number, lifecycle)
        provider_id = f"aws:///{zone}/i-{zone}-{number}"
        nodes = {key: each for key, each in nodes.items() if key != provider_id}
        if state is not None:
            nodes[provider_id] = node(zone, number, state)
        groups = tuple(
            dataclasses.replace(seen.group(zone=zone), instances=tuple(there[key] for key in sorted(there)))
            for zone, there in listed.items()
        )
        assert incrementally(groups, nodes) == slowly(groups, nodes)
        some = groups[:1]  # what is asked of some in between spoils nothing
        assert incrementally(some, nodes) == slowly(some, nodes)


def test_of_10_000_instances_in_250_groups_the_one_group_that_changed_is_looked_at_anew() -> None:
    looked: list[cloud.GroupName] = []

    @group_nodes.ByGroup
    def count(there: group_nodes.GroupNodes) -> int:
        looked.append(there.group.name)
        return sum(node is not None for node in there.nodes)

    groups = tuple(
        seen.group(*(f"i-{number}-{each}" for each in range(INSTANCES_EACH)), pool=f"pool-{number}", minimum=0)
        for number in range(GROUPS)
    )
    one = seen.node()
    nodes = {each.provider_id: one for group in groups for each in group.instances}
    assert count(groups, nodes) == {group.name: INSTANCES_EACH for group in groups}
    assert len(looked) == GROUPS

    looked.clear()
    ended = groups[7].without(groups[7].instances[3].id, decrement=True)
    changed = (*groups[:7], ended, *groups[8:])
    assert count(changed, nodes)[ended.name] == INSTANCES_EACH
    assert looked == [ended.name]

    looked.clear()
    without = {key: each for key, each in nodes.items() if key != groups[9].instances[0].provider_id}
    assert count(changed, without)[groups[9].name] == INSTANCES_EACH - 1
    assert looked == [groups[9].name]

    looked.clear()
    again = tuple(dataclasses.replace(group) for group in changed)  # read again: others, and equal
    assert count(again, dict(without)) == count(changed, without)
    assert looked == []


def test_groups_that_are_gone_are_forgotten() -> None:
    @group_nodes.ByGroup
    def count(there: group_nodes.GroupNodes) -> int:
        return len(there.nodes)

    for number in range(4 * group_nodes.GONE_MAX):
        count((seen.group(pool=f"pool-{number}"),), {})
    assert len(count._last) <= group_nodes.GONE_MAX + 2
