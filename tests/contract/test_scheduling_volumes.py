"""The scheduler and volumes: claims that cannot be bound, volumes of other nodes, and too many of them."""

from autoscaler.kube import kinds
from tests.contract.scheduling import HOST, because, bound, node, pod, refused, scheduled
from tests.contract.worlds import Body, World

DRIVER = "ebs.csi.aws.com"


def claiming(*claims: str) -> list[Body]:
    return [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]


def helpless(reason: str) -> str:
    """What is said to a pod that no node helps."""
    return f"0/1 nodes are available: {reason}. not found"


async def claim(world: World, name: str, **spec: str) -> None:
    more = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await world.create(kinds.CLAIMS, {"metadata": {"name": name}, "spec": {**more, "storageClassName": "", **spec}})


async def volume(world: World, claimed: str, host: str | None = None) -> None:
    """A volume that is bound to a claim of its own; on the real side a controller binds them."""
    name = world.unique(claimed)
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": world.namespace, "name": claimed}
    terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": [host]}]}]
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "claimRef": reference,
        "csi": {"driver": DRIVER, "volumeHandle": name},
        **({"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if host else {}),
    }
    await world.create(kinds.VOLUMES, {"metadata": {"name": name}, "spec": spec})
    await claim(world, claimed, volumeName=name)
    await world.merge(kinds.CLAIMS, claimed, {"status": {"phase": "Bound"}}, "status")


async def test_a_claim_that_is_missing_keeps_its_pod_from_all_nodes_until_it_is_there(world: World) -> None:
    name = await node(world, "one")
    await refused(world, pod("p", volumes=claiming("data")), helpless('persistentvolumeclaim "data" not found'))
    await volume(world, "data")
    assert await bound(world, "p") == name


async def test_a_claim_that_nobody_binds_keeps_its_pod_from_all_nodes(world: World) -> None:
    await node(world, "one")
    unbound = helpless("pod has unbound immediate PersistentVolumeClaims")
    await claim(world, "none")
    await refused(world, pod("p", volumes=claiming("none")), unbound)
    await claim(world, "unknown", storageClassName="unknown")
    await refused(world, pod("q", volumes=claiming("unknown")), unbound)
    name = world.unique("now")
    at_once = {"provisioner": "example.com/none", "volumeBindingMode": "Immediate"}
    await world.create(kinds.STORAGE_CLASSES, {"metadata": {"name": name}, **at_once})
    await claim(world, "soon", storageClassName=name)
    await refused(world, pod("r", volumes=claiming("soon")), unbound)


async def test_a_volume_is_used_on_its_node_alone(world: World) -> None:
    home = await node(world, "home")
    await node(world, "other")
    await volume(world, "data", home)
    assert await scheduled(world, pod("p", volumes=claiming("data"))) == home
    await volume(world, "lost", "gone")
    conflict = because("2 node(s) didn't match PersistentVolume's node affinity", helpless=2)
    await refused(world, pod("q", volumes=claiming("lost")), conflict)


async def test_a_node_takes_as_many_volumes_as_its_driver_attaches(world: World) -> None:
    name = await node(world, "one")
    driver = {"name": DRIVER, "nodeID": name, "topologyKeys": [], "allocatable": {"count": 2}}
    await world.create(kinds.CSI_NODES, {"metadata": {"name": name}, "spec": {"drivers": [driver]}})
    for number in range(3):
        await volume(world, f"v-{number}")
    await scheduled(world, pod("both", volumes=claiming("v-0", "v-1")))
    await scheduled(world, pod("same", volumes=claiming("v-0")))
    await refused(
        world, pod("third", volumes=claiming("v-2")), because("1 node(s) exceed max volume count", victimless=1)
    )
    await world.delete(kinds.PODS, "both", {"gracePeriodSeconds": 0})
    assert await bound(world, "third") == name
