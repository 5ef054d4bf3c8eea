"""The checker finds each kind of mistake in a placement made by hand; one that finds nothing would prove nothing."""

from typing import Any

import pytest

from autoscaler.api import keys
from autoscaler.capacity import model
from autoscaler.kube import objects
from tests.autoscaler.capacity import builders, checker
from tests.autoscaler.capacity.builders import demand, group, room

NO = model.Rejection(reason=model.Reason.SUSPENDED)
WEB = {"app": "web"}


def launch(*shares: tuple[model.Demand, int], zone: str = "a", nodes: int = 1) -> model.Filling:
    made = tuple(model.Share(demand=one, count=count) for one, count in shares)
    return model.Filling(key=builders.key(zone), nodes=nodes, shares=made)


def found(placement: model.Placement, *demands: model.Demand, **parts: Any) -> list[str]:
    return checker.violations(builders.situation(*demands, **parts), placement)


def launched(*fillings: model.Filling) -> model.Placement:
    return model.Placement(launches=fillings)


def test_a_good_placement_is_good() -> None:
    pods = demand(count=8)
    assert found(launched(launch((pods, 4), nodes=2)), pods, groups=[group()]) == []


@pytest.mark.parametrize(
    ("pods", "node"),
    [
        (demand(5000), group()),
        (demand(requests={"example.com/card": "1"}), group()),
        (demand(), group(pods=0)),
        (demand(nodeSelector={"a": "b"}), group()),
        (demand(affinity=builders.node_affinity({"key": "a", "operator": "Exists"})), group()),
        (demand(affinity=builders.node_affinity({"key": keys.ZONE, "operator": "NotIn", "values": ["a"]})), group()),
        (demand(affinity=builders.node_affinity({"key": "a", "operator": "Gt", "values": ["1"]})), group()),
        (demand(), group(taints=[("only", "us", "NoExecute")])),
        (demand(tolerations=[{"key": "only", "value": "them"}]), group(taints=[("only", "us", "NoSchedule")])),
        (demand(of={"zones": frozenset("b")}), group()),
        (demand(of={"pools": (frozenset({"other"}),)}), group()),
        (demand(of={"missed": {builders.key(): NO}}), group()),
        (demand(resourceClaims=[{"name": "card"}]), group()),
        (demand(), group(of={"more": 0})),
        (demand(), group(of={"refused": NO})),
        (demand(affinity=builders.together(keys.ZONE, WEB)), group()),
    ],
)
def test_a_node_that_cannot_take_the_pod_is_found(pods: model.Demand, node: model.Group) -> None:
    assert found(launched(launch((pods, 1))), pods, groups=[node])


def test_pods_that_vanish_or_come_twice_are_found() -> None:
    pods = demand(count=2)
    assert found(launched(launch((pods, 1))), pods, groups=[group()])
    assert found(launched(launch((pods, 3))), pods, groups=[group()])


def test_a_group_without_a_reason_is_found() -> None:
    pods = demand()
    said = model.Rejection(reason=model.Reason.TAINT, groups=(builders.key("a"),))
    unplaced = model.Unplaced(demand=pods, count=1, rejections=(said,))
    assert found(model.Placement(unplaced=(unplaced,)), pods, groups=[group("a"), group("b")])
    assert not found(model.Placement(unplaced=(unplaced,)), pods, groups=[group("a")])


def test_limits_that_are_exceeded_are_found() -> None:
    pods = demand(4000, count=2)
    for limit in (
        builders.limit(3, used=2),
        builders.limit(7000, model.LimitKind.CLUSTER_CPU, pool="pool"),
        builders.limit(1000, model.LimitKind.POOL_SECONDS, used=200, expected=200, each=301),
    ):
        assert found(launched(launch((pods, 1), nodes=2)), pods, groups=[group()], limits=[limit])
    other = builders.limit(0, pool="other")
    assert not found(launched(launch((pods, 1), nodes=2)), pods, groups=[group()], limits=[other])


def test_more_nodes_than_were_asked_for_are_found() -> None:
    pods = demand(4000, count=2)
    asked = [model.Asked(key=builders.key(), template=builders.template(), nodes=1)]
    assert found(model.Placement(expected=(launch((pods, 1), nodes=2),)), pods, asked=asked)


@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": builders.apart(keys.HOSTNAME, WEB)},
        {"affinity": builders.apart(keys.ZONE, WEB)},
        {"topologySpreadConstraints": builders.spread(keys.HOSTNAME, WEB)},
        {"containers": [{"name": "main", "ports": [{"hostPort": 80}]}]},
    ],
)
def test_two_pods_where_one_may_be_are_found(spec: dict[str, Any]) -> None:
    pods = demand(100, count=2, labels=WEB, **spec)
    elsewhere = room("old", "b")  # holds the minimum of a spread down
    assert found(launched(launch((pods, 2))), pods, groups=[group()], rooms=[elsewhere])


def test_a_resident_that_is_disturbed_is_found() -> None:
    shy = builders.resident({"app": "shy"}, affinity=builders.apart(keys.HOSTNAME, WEB))
    pods = demand(100, labels=WEB)
    landing = model.Landing(room="node-1", shares=(model.Share(demand=pods, count=1),))
    assert found(model.Placement(landings=(landing,)), pods, rooms=[room(residents=[shy])])
    assert not found(model.Placement(landings=(landing,)), pods, rooms=[room()])


def test_a_skew_between_zones_is_found() -> None:
    pods = demand(count=4, labels=WEB, topologySpreadConstraints=builders.spread(keys.ZONE, WEB))
    groups = [group("a"), group("b")]
    assert found(launched(launch((pods, 3)), launch((pods, 1), zone="b")), pods, groups=groups)
    assert not found(launched(launch((pods, 2)), launch((pods, 2), zone="b")), pods, groups=groups)


def test_a_job_that_is_scattered_is_found() -> None:
    pods = demand(count=2, labels=WEB, affinity=builders.together(keys.ZONE, WEB))
    groups = [group("a"), group("b")]
    assert found(launched(launch((pods, 1)), launch((pods, 1), zone="b")), pods, groups=groups)


def test_a_preference_is_no_rule() -> None:
    pods = demand()
    tainted = model.Template(
        labels={keys.ZONE: "a"},
        allocatable=builders.template().allocatable,
        taints=(objects.NodeTaint("pool", "x", "PreferNoSchedule"),),
    )
    soft = model.Group(key=builders.key(), template=tainted, more=1)
    assert not found(launched(launch((pods, 1))), pods, groups=[soft])
