"""How many volumes nodes attach, and how many of them are in use."""

from typing import Any

from autoscaler.api import keys
from autoscaler.capacity.model import Asked, Situation
from autoscaler.capacity.scaleup import supply
from autoscaler.capacity.scaleup.storage import attachments
from autoscaler.capacity.scaleup.storage import needs as storage
from autoscaler.capacity.scaleup.storage.volume_objects import EBS
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.kube import objects
from tests.autoscaler.capacity import builders, seen
from tests.autoscaler.capacity.stored import claim, csi_node, storage_class, stored, volume

RESOURCE = storage.resource(EBS)
LATER = storage_class("later", volumeBindingMode="WaitForFirstConsumer")
CSI = {"driver": EBS, "volumeHandle": "vol"}


def pod(name: str, *claims: str, node: str = "") -> objects.Pod:
    mounted = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return seen.pod(name, node=node, volumes=mounted)


def snapshot(*pods: objects.Pod, things: tuple[Any, ...], kind: str = "m5.xlarge") -> Snapshot:
    node = seen.node("n", labels={keys.INSTANCE_TYPE: kind})
    return seen.snapshot(pods=pods, nodes=[node], storage=stored(LATER, *things))


def limited(there: Snapshot, *waiting: objects.Pod) -> Situation:
    template = builders.template(labels={keys.INSTANCE_TYPE: "m5.xlarge"})
    group = builders.group(labels={keys.INSTANCE_TYPE: "m5.xlarge"})
    asked = Asked(key=group.key, template=template, nodes=1)
    situation = Situation(demands=(), groups=(group,), asked=(asked,), rooms=supply.rooms(there))
    return attachments.limited(situation, there, [each.shape for each in waiting])


def test_volumes_in_use_are_counted_once_and_by_driver() -> None:
    things = (
        csi_node("n", **{EBS: 5, "other": 3}),
        volume(name="v", csi=CSI),
        volume(name="w", csi={"driver": "other"}),
        volume(name="plain"),
        claim("shared", "v"),
        claim("elsewhere", "w"),
        claim("plain", "plain"),
        claim("new", storage_class="later"),
    )
    running = [pod("a", "shared", node="n"), pod("b", "shared", "new", node="n"), pod("c", "elsewhere", node="n")]
    (room,) = limited(snapshot(*running, things=things), pod("waits", "new")).rooms
    assert (room.free[RESOURCE], storage.resource("other") in room.free) == (3, False)
    (room,) = limited(snapshot(*running, things=things), pod("waits", "shared", "elsewhere", "plain")).rooms
    assert (room.free[RESOURCE], room.free[storage.resource("other")]) == (3, 2)


def test_a_node_whose_driver_says_nothing_has_no_limit() -> None:
    (room,) = limited(snapshot(things=(claim("c", storage_class="later"),)), pod("waits", "c")).rooms
    assert RESOURCE not in room.free


def test_new_nodes_attach_what_nodes_of_their_type_do_and_before_what_the_catalogue_says() -> None:
    own = claim("c", storage_class="later")
    for things, kind, want in (
        ((own,), "m5.xlarge", 25),
        ((own, csi_node("n", **{EBS: 7})), "m5.xlarge", 7),
        ((own, csi_node("n", **{EBS: 7})), "m5.large", 25),
    ):
        found = limited(snapshot(things=things, kind=kind), pod("waits", "c"))
        assert found.groups[0].template.allocatable[RESOURCE] == want
        assert found.asked[0].template.allocatable[RESOURCE] == want


def test_nothing_is_looked_at_while_nobody_waits_who_has_volumes() -> None:
    there = snapshot(things=(csi_node("n", **{EBS: 5}),))
    situation = Situation(demands=(), rooms=supply.rooms(there))
    assert attachments.limited(situation, there, [seen.pod().shape]) is situation


def test_what_a_pod_attaches_follows_its_claims() -> None:
    local = storage_class("local", provisioner="kubernetes.io/no-provisioner", volumeBindingMode="WaitForFirstConsumer")
    there = stored(
        LATER,
        local,
        claim("a", storage_class="later"),
        claim("b", "v"),
        claim("c", storage_class="local"),
        volume(name="v", csi=CSI),
    )
    assert storage.needs(there, pod("p", "a", "b", "c").shape, "default").attachments == {RESOURCE: 2}
    assert storage.needs(there, pod("p", "c").shape, "default").attachments == {}
