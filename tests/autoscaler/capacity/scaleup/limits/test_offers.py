"""Which groups may get how many more nodes, what holds them back, and the limits that they share."""

from typing import Any

import pytest

from autoscaler.api import keys
from autoscaler.api.resources.types import Taint, TaintEffect
from autoscaler.capacity.model import LimitKind, Reason, Rejection
from autoscaler.capacity.scaleup import daemons
from autoscaler.capacity.scaleup.limits import offers
from autoscaler.capacity.snapshot import Ceilings, Unavailable
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects
from tests.autoscaler.capacity import builders, seen

OTHER = Rejection(reason=Reason.OTHER_AUTOSCALER, what="cluster-autoscaler")


def test_a_group_may_grow_to_its_maximum_and_late_instances_count() -> None:
    (group,) = offers.groups(seen.snapshot(groups=(seen.group("i-1", "i-2", desired=1, maximum=5),)))
    assert (group.more, group.nodes, group.refused) == (3, 2, None)


@pytest.mark.parametrize(
    ("what", "want"),
    [
        ({"pools": {}}, Rejection(reason=Reason.NO_POOL, what="workers")),
        ({"pools": {"workers": seen.pool(enabled=False)}}, Rejection(reason=Reason.DISABLED)),
        ({"other_autoscaler": OTHER}, OTHER),
        ({"types": {}}, Rejection(reason=Reason.UNKNOWN_TYPE, what="m5.xlarge")),
        (
            {"unavailable": {seen.group().key: Unavailable(until=seen.NOW + 90, reason="InsufficientCapacity")}},
            Rejection(reason=Reason.UNAVAILABLE, what="InsufficientCapacity", wanted=90),
        ),
        ({"groups": (seen.group(suspended=frozenset({"Launch"})),)}, Rejection(reason=Reason.SUSPENDED)),
    ],
)
def test_a_group_that_takes_nothing_says_why(what: dict[str, Any], want: Rejection) -> None:
    (group,) = offers.groups(seen.snapshot(**{"groups": (seen.group(),), **what}))
    assert group.refused == want


def test_a_shortage_that_is_over_holds_nothing_back() -> None:
    over = {seen.group().key: Unavailable(until=seen.NOW, reason="InsufficientCapacity")}
    (group,) = offers.groups(seen.snapshot(groups=(seen.group(),), unavailable=over))
    assert group.refused is None


def test_limits_say_how_much_of_them_is_used() -> None:
    groups = (seen.group("i-1", desired=2), seen.group("i-2", zone="b"))
    limits = offers.limits(
        seen.snapshot(
            groups=groups,
            pools={"workers": seen.pool(limits={"maxActiveInstances": 5})},
            ceilings=Ceilings(nodes=4, cpu_millis=20_000, launches_per_minute=10),
            launched=3,
        )
    )
    assert [(limit.kind, limit.pool, limit.most, limit.used) for limit in limits] == [
        (LimitKind.POOL_INSTANCES, "workers", 5, 3),
        (LimitKind.CLUSTER_NODES, "", 4, 3),
        (LimitKind.CLUSTER_CPU, "", 20_000, 12_000),
        (LimitKind.LAUNCHES, "", 10, 3),
    ]


def test_daemons_take_their_share_of_a_node_that_takes_them() -> None:
    everywhere = builders.shape(200, 0.5, tolerations=[{"operator": "Exists"}])
    gpu_only = builders.shape(1000, 1, nodeSelector={"gpu": "yes"})
    untolerant = builders.shape(1000, 1)
    tainted = seen.group(node=cloud.NodeTemplate(taints=(Taint(key="dedicated", effect=TaintEffect.NO_SCHEDULE),)))
    (group,) = offers.groups(seen.snapshot(groups=(tainted,), daemons=(everywhere, gpu_only, untolerant)))
    assert group.template.allocatable["cpu"] == 3920 - 200
    assert group.template.taints == (objects.NodeTaint("dedicated", "", "NoSchedule"),)


def test_a_daemon_sets_pods_tolerate_what_its_controller_lets_them() -> None:
    raw = b'{"metadata":{"name":"d","namespace":"n","uid":"u","resourceVersion":"1"},"spec":{"template":{"spec":{}}}}'
    tolerated = {toleration.key for toleration in daemons.decode(raw).shape.tolerations}
    assert "node.kubernetes.io/not-ready" in tolerated


def test_a_template_has_the_labels_that_every_node_has() -> None:
    (group,) = offers.groups(seen.snapshot(groups=(seen.group(),)))
    assert group.template.labels[keys.ZONE] == group.template.labels[keys.ZONE_BETA] == "a"
    assert group.template.labels[keys.ARCHITECTURE] == "amd64"
