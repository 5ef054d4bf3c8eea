"""Idle instances that can do what nobody asks for go before those that somebody waits for."""

from typing import Any

import msgspec
import pytest

from autoscaler.api import keys
from autoscaler.capacity.scaledown import emptiness, unwanted_tags
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.kube import objects
from tests.autoscaler.capacity import seen
from tests.autoscaler.capacity.builders import node_affinity

SPEED = keys.tag_label("speed")


def labelled(name: str, **labels: str) -> objects.Node:
    made = seen.node(name, instance=name)
    known = {"tag": SPEED, "arch": keys.ARCHITECTURE}
    added = {known[key]: value for key, value in labels.items()}
    return msgspec.structs.replace(made, meta=msgspec.structs.replace(made.meta, labels={**made.meta.labels, **added}))


def world(*nodes: objects.Node, pods: tuple[objects.Pod, ...] = (), **limits: int) -> Snapshot:
    names = [node.meta.key.name for node in nodes]
    pools = {"workers": seen.pool(limits=limits)}
    return seen.snapshot(groups=(seen.group(*names),), nodes=nodes, pods=pods, pools=pools)


def unwanted(node: objects.Node, **pod: Any) -> bool:
    """Tell whether a node is unwanted while a pod waits."""
    snapshot = world(node, pods=(seen.pod(**pod),))
    return bool(unwanted_tags.unwanted(snapshot, snapshot.nodes))


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        ({"nodeSelector": {SPEED: "5"}}, False),
        ({"nodeSelector": {SPEED: "9"}}, True),
        ({"affinity": node_affinity({"key": SPEED, "operator": "Gt", "values": ["4"]})}, False),
        ({"affinity": node_affinity({"key": SPEED, "operator": "Gt", "values": ["5"]})}, True),
        ({"nodeSelector": {SPEED: "5"}, "waits": False}, True),
        ({}, True),
    ],
    ids=str,
)
def test_a_tag_is_wanted_while_a_waiting_pod_asks_for_it(pod: dict[str, Any], want: bool) -> None:  # noqa: FBT001
    assert unwanted(labelled("node", tag="5"), **pod) is want


def test_where_an_architecture_is_asked_for_the_others_are_unwanted() -> None:
    arm = {"nodeSelector": {keys.ARCHITECTURE: "arm64"}}
    assert unwanted(labelled("node", arch="amd64"), **arm)
    assert not unwanted(labelled("node", arch="arm64"), **arm)
    assert not unwanted(labelled("node", arch="amd64"))


def test_an_instance_without_tags_is_not_unwanted() -> None:
    assert not unwanted(labelled("node"), nodeSelector={SPEED: "5"})


def test_of_a_surplus_what_nobody_asks_for_goes_first_although_others_are_idle_for_longer() -> None:
    nodes = (labelled("asked", tag="5"), labelled("plain"), labelled("unasked", tag="1"))
    waiting = (seen.pod(nodeSelector={SPEED: "5"}, cpu="99"),)
    snapshot = world(*nodes, pods=waiting, maxActiveInstances=2, maxIdleSeconds=9999)
    since = {"asked": seen.NOW - 300, "plain": seen.NOW - 200, "unasked": seen.NOW - 100}
    choice = emptiness.choose(snapshot, since, frozenset())
    assert [each.node_name for each in choice.removals] == ["unasked"]
