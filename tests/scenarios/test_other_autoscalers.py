"""Other scalers of this cluster's nodes are recognised whatever they are called, in virtual time."""

import asyncio
from typing import Any

import pytest

from autoscaler.api import keys, resources
from autoscaler.capacity.reporting import other_autoscaler
from autoscaler.kube import kinds
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cloud.faults import Call
from autoscaler.simulation.cluster.faults import Answer, Matching
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_world import Body, World, runtime
from tests.scenarios.test_capacity_measures import shown

OFFICIAL = "registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.1"
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
NODE_POOLS = {
    "metadata": {"name": "nodepools.karpenter.sh"},
    "spec": {
        "group": "karpenter.sh",
        "scope": "Cluster",
        "names": {"plural": "nodepools", "kind": "NodePool"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": ANYTHING}}},
            }
        ],
    },
}


def a_lease(world: World, name: str, namespace: str, holder: str) -> None:
    lease = {"holderIdentity": holder, "leaseDurationSeconds": 86_400, "renewTime": "2026-01-01T00:00:00.000000Z"}
    world.cluster.create(kinds.LEASES, {"metadata": {"name": name, "namespace": namespace}, "spec": lease})


def a_deployment(world: World, image: str, *, replicas: int = 1, labels: dict[str, str] | None = None) -> None:
    template = {"metadata": {"labels": {"x": "y"}}, "spec": {"containers": [{"name": "main", "image": image}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"x": "y"}}, "template": template}
    metadata = {"name": "scaler", "namespace": "default", "labels": labels or {}}
    world.cluster.create(kinds.DEPLOYMENTS, {"metadata": metadata, "spec": spec})


def a_node_pool(world: World, *requirements: Body, **labels: str) -> None:
    world.cluster.create(kinds.DEFINITIONS, NODE_POOLS)
    template = {"metadata": {"labels": labels}, "spec": {"requirements": list(requirements)}}
    body = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "general"},
        "spec": {"template": template},
    }
    world.cluster.create(other_autoscaler.NODE_POOLS, body)


def of_pool(operator: str, *values: str) -> Body:
    return {"key": keys.INSTANCE_POOL, "operator": operator, **({"values": list(values)} if values else {})}


RECOGNISED: dict[str, tuple[Any, str]] = {
    "lease of another name": (
        lambda w: a_lease(w, "prod-cluster-autoscaler", "default", "x"),
        "cluster-autoscaler (x)",
    ),
    "holder": (lambda w: a_lease(w, "ca", "default", "cluster-autoscaler-0"), "(cluster-autoscaler-0)"),
    "image": (lambda w: a_deployment(w, OFFICIAL), "(Deployment default/scaler)"),
    "image by digest": (
        lambda w: a_deployment(w, "mirror.example/cluster-autoscaler-arm64@sha256:0"),
        "default/scaler",
    ),
    "label": (
        lambda w: a_deployment(w, "mirror.example/ca:1", labels={"app.kubernetes.io/name": "aws-cluster-autoscaler"}),
        "(Deployment default/scaler)",
    ),
    "node pool": (lambda w: a_node_pool(w, of_pool("In", "workers")), "Karpenter (NodePool general)"),
    "node pool of any": (lambda w: a_node_pool(w, of_pool("Exists")), "Karpenter (NodePool general)"),
    "node pool's labels": (lambda w: a_node_pool(w, **{keys.INSTANCE_POOL: "workers"}), "Karpenter"),
}
OTHERS: dict[str, Any] = {
    "nothing": lambda _: None,
    "lease of a node": lambda w: a_lease(w, "cluster-autoscaler-node", "kube-node-lease", "cluster-autoscaler-node"),
    "lease that nobody holds": lambda w: a_lease(w, "cluster-autoscaler", "kube-system", ""),
    "another project": lambda w: a_deployment(w, "registry.k8s.io/cpa/cluster-proportional-autoscaler:1"),
    "scaled to zero": lambda w: a_deployment(w, OFFICIAL, replicas=0),
    "node pool elsewhere": lambda w: a_node_pool(w, of_pool("In", "elsewhere"), **{"node.type": "worker"}),
    "node pool of others": lambda w: a_node_pool(w, of_pool("NotIn", "workers")),
}


async def launches(world: World) -> tuple[int, str]:
    """Count what a pod without room starts in a minute, and return what it is told."""
    world.add_pool(zones=("a",))
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one", cpu="3")
        await asyncio.sleep(60)
        told = "".join(event["message"] for event in world.events("NotTriggerScaleUp"))
        return world.clients["aws"].calls[Call.SET_DESIRED], told


@pytest.mark.accept("G31", part="other autoscalers, simulated")
@pytest.mark.parametrize("what", RECOGNISED)
def test_beside_another_autoscaler_nothing_is_started(what: str) -> None:
    async def scenario() -> None:
        world = World()
        make, want = RECOGNISED[what]
        make(world)
        count, told = await launches(world)
        assert count == 0
        assert want in told

    virtual_time.run(scenario())


@pytest.mark.accept("G31", part="other autoscalers, simulated")
@pytest.mark.parametrize("what", OTHERS)
def test_what_is_no_other_autoscaler_of_ours_holds_up_nothing(what: str) -> None:
    async def scenario() -> None:
        world = World()
        OTHERS[what](world)
        assert await launches(world) == (1, "")

    virtual_time.run(scenario())


def test_who_may_not_look_at_deployments_or_node_pools_goes_by_leases() -> None:
    async def scenario() -> None:
        world = World()
        for path in ("/apis/apps/v1/deployments", "/apis/karpenter.sh/"):
            world.cluster.faults.add(Answer(code=403), Matching(method="GET", path=path), times=None)
        assert await launches(world) == (1, "")

    virtual_time.run(scenario())


LEASES = Matching(method="GET", path="/apis/coordination.k8s.io/v1/leases")


def ready(world: World) -> tuple[str, str, str]:
    """Return what the pool says of itself."""
    (pool,) = world.all(kinds.custom(resources.InstancePool))
    (said,) = (each for each in pool["status"]["conditions"] if each["type"] == "Ready")
    return said["status"], said["reason"], said.get("message", "")


@simulated
async def test_who_never_could_look_for_others_starts_and_ends_nothing_and_says_why() -> None:
    world = World()
    world.cluster.faults.add(Answer(code=403), LEASES, times=None)
    world.add_pool(zones=("a",), limits__maxIdleSeconds=30)
    world.cloud.set_desired(next(iter(world.cloud.groups.values())), 1)
    async with runtime(world) as replica:
        await asyncio.sleep(60)
        assert len(world.nodes()) == 1  # nobody needs it
        world.add_pod("one", cpu="3", nodeSelector={keys.ZONE: "elsewhere"})
        await asyncio.sleep(300)
        holds, reason, message = ready(world)
        assert (holds, reason) == ("False", "OtherAutoscalersUnseen")
        assert "nothing is started or ended" in message
        assert "403" in message
        (event,) = world.events("NotTriggerScaleUp")
        assert "whether another autoscaler scales this cluster's nodes cannot be seen: 403" in event["message"]
        assert list(world.desired().values()) == [1]
        assert shown(replica, "sluice_autoscalers_unseen_seconds") > 200
        world.cluster.faults.clear()
        await asyncio.sleep(180)
        assert ready(world) == ("True", "Usable", "")
        assert not world.desired()  # it was idle
        assert shown(replica, "sluice_autoscalers_unseen_seconds") == 0


@simulated
async def test_who_cannot_look_for_others_any_more_goes_on_and_says_so() -> None:
    world = World()
    world.add_pool(zones=("a",))
    async with runtime(world):
        await asyncio.sleep(60)
        world.cluster.faults.add(Answer(code=403), LEASES, times=None)
        await asyncio.sleep(20)
        assert ready(world) == ("True", "Usable", "")  # it may be back in a moment
        await asyncio.sleep(60)
        world.add_pod("one", cpu="3")
        await asyncio.sleep(60)
        assert world.desired()
        holds, reason, message = ready(world)
        assert (holds, reason) == ("True", "Usable")
        assert message.startswith("whether another autoscaler scales this cluster's nodes cannot be seen: 403")


@simulated
async def test_a_pool_says_who_else_scales_its_nodes() -> None:
    world = World()
    a_deployment(world, OFFICIAL)
    world.add_pool(zones=("a",))
    async with runtime(world):
        await asyncio.sleep(30)
        holds, reason, message = ready(world)
        assert (holds, reason) == ("False", "OtherAutoscaler")
        assert message == (
            "nothing is started or ended: cluster-autoscaler (Deployment default/scaler) scales this cluster's nodes"
        )


@pytest.mark.accept("G31", part="other autoscalers, simulated")
def test_one_that_comes_and_goes_while_we_run_is_noticed_and_asking_costs_little() -> None:
    async def scenario() -> None:
        world = World()
        world.add_pool(zones=("a",))
        async with runtime(world):
            await asyncio.sleep(5)
            a_deployment(world, OFFICIAL)
            await asyncio.sleep(70)
            world.add_pod("one", cpu="3")
            await asyncio.sleep(60)
            assert world.clients["aws"].calls[Call.SET_DESIRED] == 0
            world.patch(kinds.DEPLOYMENTS, "scaler", {"spec": {"replicas": 0}})
            await asyncio.sleep(70)
            assert world.clients["aws"].calls[Call.SET_DESIRED] == 1

    virtual_time.run(scenario())


@simulated
async def test_a_lease_that_is_not_renewed_stops_nothing_for_long_whatever_it_says_of_itself() -> None:
    world = World()
    a_lease(world, "cluster-autoscaler", "kube-system", "long-gone")
    world.add_pool(zones=("a",))
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one", cpu="3")
        await asyncio.sleep(300)
        assert not world.desired()
        await asyncio.sleep(400)
        assert world.desired()
