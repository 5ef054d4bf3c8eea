"""Groups that leave while their pool stays: who they are by the lists, what is done with them, and what is told."""

import dataclasses
from typing import Any

import msgspec
import pytest

from autoscaler.api import keys, names
from autoscaler.api.settings import group_list
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.capacity import model
from autoscaler.capacity.disruption_taint import Reason
from autoscaler.capacity.plan import Plan, commands
from autoscaler.capacity.scaledown import emptiness, group_lists, node_repair, pool_teardown
from autoscaler.capacity.scaleup.limits import offers
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import port as cloud
from tests.autoscaler.capacity import seen

SINCE, EARLIER = seen.NOW - 60, seen.NOW - 120
STAMPS = {SINCE: "2025-12-31T23:59:00Z", EARLIER: "2025-12-31T23:58:00Z"}
A, B, C = (NodeGroupKey(pool="workers", zone=zone, instance_type="m5.xlarge") for zone in "abc")


def config_map(data: dict[str, str] | None, *, label: bool = True, deleted_at: float | None = None) -> bytes:
    metadata: dict[str, Any] = {"name": "list", "namespace": "sluice-system", "uid": "u", "resourceVersion": "1"}
    metadata["labels"] = {keys.GROUP_LIST: "workers"} if label else {}
    if deleted_at is not None:
        metadata["deletionTimestamp"] = STAMPS[deleted_at]
    return msgspec.json.encode({"metadata": metadata, **({} if data is None else {"data": data})})


def listed(*groups: NodeGroupKey, deleted_at: float | None = None, cluster: str = "bench") -> group_lists.Listed:
    text = group_list.GroupList(cluster=cluster, pool="workers", groups=groups).to_json()
    return group_lists.decode(config_map({group_list.FIELD: text}, deleted_at=deleted_at))


def made(key: NodeGroupKey, cluster: str = "bench") -> cloud.NodeGroup:
    """A group that the stack made."""
    name = names.node_group(cluster, pool=key.pool, zone=key.zone, instance_type=key.instance_type)
    return dataclasses.replace(seen.group(zone=key.zone, pool=key.pool), name=cloud.GroupName(name))


def test_what_a_deleted_list_has_and_no_other_has_leaves() -> None:
    lists = [listed(A, B, C, deleted_at=SINCE), listed(A, C)]
    assert group_lists.leaving(lists, [made(A), made(B), made(C)]) == {B: SINCE}
    assert group_lists.leaving(lists, []) == {B: SINCE}  # also while nobody can tell which groups there are
    assert group_lists.leaving([listed(A, B)], [made(A), made(B)]) == {}
    assert group_lists.leaving([listed(A, B, deleted_at=SINCE), listed(A, B, C)], [made(A), made(B)]) == {}
    assert group_lists.leaving([listed(A, deleted_at=SINCE)], [made(A)]) == {A: SINCE}


def test_it_leaves_since_the_first_list_that_had_it_was_deleted() -> None:
    one, other = listed(A, B, deleted_at=SINCE), listed(B, C, deleted_at=EARLIER)
    want = {A: SINCE, B: EARLIER, C: EARLIER}
    assert group_lists.leaving([one, other], []) == group_lists.leaving([other, one], []) == want


def test_a_group_of_the_stack_that_no_list_has_leaves_and_nobody_waits_for_it() -> None:
    assert group_lists.leaving([listed(A)], [made(A), made(B)]) == {B: None}
    assert group_lists.leaving([listed(A)], [made(B, cluster="other")]) == {}  # somebody else made it
    assert group_lists.leaving([listed(A)], [seen.group(zone="b")]) == {}
    assert group_lists.leaving([listed(A)], [made(B.model_copy(update={"pool": "others"}))]) == {}
    assert group_lists.leaving([], [made(A), made(B)]) == {}


@pytest.mark.parametrize(
    "raw",
    [
        config_map({group_list.FIELD: "{}"}),
        config_map({group_list.FIELD: "no JSON"}),
        config_map({"other": "{}"}),
        config_map(None),
        config_map({group_list.FIELD: '{"cluster":"c","pool":"workers","groups":[]}'}, label=False),
    ],
    ids=["empty", "no JSON", "another field", "no data", "no list"],
)
def test_what_is_no_list_or_makes_no_sense_lists_nothing(raw: bytes) -> None:
    assert group_lists.decode(raw).groups is None


# What is done with them


def world(**more: Any) -> Snapshot:
    """A pool with nodes in two zones, of which one leaves."""
    nodes = [
        seen.node("stays", instance="i-1", zone="a", labels={keys.INSTANCE_POOL: "workers"}),
        seen.node("goes", instance="i-2", zone="b", labels=labels("b")),
    ]
    groups = (seen.group("i-1", zone="a"), seen.group("i-2", zone="b"))
    pods = [seen.pod("here", node="stays", owner="Job"), seen.pod("there", node="goes", owner="Job")]
    pools = {"workers": seen.pool(drainSeconds=100)}
    plain = {"nodes": nodes, "groups": groups, "pods": pods, "pools": pools, "leaving_groups": {B: SINCE}}
    return seen.snapshot(**{**plain, **more})


def labels(zone: str) -> dict[str, str]:
    return {keys.INSTANCE_POOL: "workers", keys.ZONE: zone, keys.INSTANCE_TYPE: "m5.xlarge"}


def emptied(snapshot: Snapshot) -> list[str]:
    return [each.node.name for each in pool_teardown.emptied(snapshot)]


def test_their_nodes_alone_are_emptied_known_by_group_or_by_labels() -> None:
    assert emptied(world()) == ["goes"]
    assert emptied(world(groups=())) == ["goes"]
    assert emptied(world(leaving_groups={B: None})) == ["goes"]
    assert emptied(world(leaving_groups={})) == []
    assert emptied(world(leaving={"workers": SINCE})) == ["goes", "stays"]


def test_their_work_alone_is_waited_for_and_told_with_the_groups() -> None:
    left = pool_teardown.remainder(world(), "workers")
    assert (left.groups, left.since, left.overdue_at) == ((B,), SINCE, SINCE + 100)
    want = "1 pod still run: default/there; 1 node group (m5.xlarge in b) has been leaving since 2025-12-31T23:59:00Z"
    assert str(left) == want
    both = pool_teardown.remainder(world(leaving_groups={B: SINCE, A: EARLIER, C: None}), "workers")
    assert both.since == EARLIER
    assert "2 node groups (m5.xlarge in a, m5.xlarge in b) have been leaving" in str(both)
    whole = pool_teardown.remainder(world(leaving={"workers": SINCE}), "workers")
    assert "the pool has been leaving" in str(whole)


def test_instances_that_start_in_them_are_waited_for_and_no_others() -> None:
    groups = (seen.group("i-1", "i-8", zone="a"), seen.group("i-2", "i-9", zone="b"))
    young = world(groups=groups, launched_at={"i-8": seen.NOW - 10, "i-9": seen.NOW - 10})
    assert pool_teardown.remainder(young, "workers").starting == 1


def test_nobody_waits_for_groups_without_a_list() -> None:
    assert pool_teardown.waiting(world(leaving_groups={B: None})) == {}
    assert pool_teardown.waiting(world()) == {"workers": SINCE}
    assert pool_teardown.waiting(world(leaving={"workers": EARLIER})) == {"workers": EARLIER}


def test_lists_are_held_and_let_go_when_their_pool_waits_for_nothing() -> None:
    lists = {"unheld_lists": frozenset({"new"}), "deleted_lists": {"old": "workers", "another": "others"}}
    busy = pool_teardown.decide(world(**lists))
    assert (busy.held_lists, busy.let_go_lists) == (("new",), {"another": "others"})
    idle = pool_teardown.decide(world(**lists, pods=[], empty_since={"workers": SINCE}))
    assert idle.let_go_lists == {"old": "workers", "another": "others"}
    fresh = pool_teardown.decide(world(**lists, pods=[]))
    assert fresh.let_go_lists == {"another": "others"}  # what was on its way may still arrive
    assert fresh.wake_at == seen.NOW + pool_teardown.SETTLE_SECONDS
    assert pool_teardown.decide(world(**lists, dissolving=True)).held_lists == ()
    said = {each.what: each.why for each in commands(world(home="home"), Plan(teardown=busy))}
    assert set(said) == {"configmap home/new", "configmap home/another"}


def test_they_take_nothing_and_say_why() -> None:
    snapshot = world()
    stays, goes = snapshot.groups
    assert offers.refusal(snapshot, stays, None) != model.Rejection(reason=model.Reason.GROUP_LEAVING)
    assert offers.refusal(snapshot, goes, None) == model.Rejection(reason=model.Reason.GROUP_LEAVING)
    whole = world(leaving={"workers": SINCE})
    assert offers.refusal(whole, goes, None) == model.Rejection(reason=model.Reason.LEAVING)


def test_idle_instances_of_them_go_at_once_and_are_not_replaced() -> None:
    snapshot = world(pods=[], spent=frozenset({"i-2"}), outdated=frozenset({"i-2"}))
    [chosen] = emptiness.choose(snapshot, {"stays": seen.NOW, "goes": seen.NOW}, frozenset()).removals
    assert (chosen.node_name, chosen.reason, chosen.decrement) == ("goes", Reason.LEAVING, True)
    least = (seen.group("i-1", zone="a"), seen.group("i-2", zone="b", minimum=1))
    lost = world(nodes=[], groups=least, launched_at={"i-2": 0.0})
    assert node_repair.choose(lost).replacements == ()
    staying = world(nodes=[], groups=least, launched_at={"i-2": 0.0}, leaving_groups={})
    assert len(node_repair.choose(staying).replacements) == 1
