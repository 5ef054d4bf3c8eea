"""Nodes with a kubelet, pods for the scheduler, and what it is expected to say."""

from typing import Any

from autoscaler.kube import kinds
from tests.contract.worlds import Body, World

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


async def node(world: World, name: str, *, labels: Body | None = None, **spec: Any) -> str:
    """A node that is ready and open; KWOK, or the simulated kubelet, plays its kubelet."""
    unique = world.unique(name)
    amounts = {"cpu": "2", "memory": "4Gi", "pods": "5", **spec.pop("amounts", {})}
    metadata = {
        "name": unique,
        "annotations": {"kwok.x-k8s.io/node": "fake"},
        "labels": {HOST: unique, "contract": world.namespace, **(labels or {})},
    }
    body = {"metadata": metadata, "spec": spec, "status": {"allocatable": amounts, "capacity": amounts}}
    await world.create(kinds.NODES, body)

    async def is_open() -> bool:
        body = await world.get(kinds.NODES, unique)
        taints = [taint["key"] for taint in body["spec"].get("taints", [])]
        ready = [one["status"] for one in body["status"].get("conditions", []) if one["type"] == "Ready"]
        return ready == ["True"] and "node.kubernetes.io/not-ready" not in taints

    await world.eventually(is_open)
    return unique


def pod(name: str, *, labels: Body | None = None, cpu: str = "100m", **spec: Any) -> Body:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    whole = {"containers": [container], "terminationGracePeriodSeconds": 1, **spec}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": whole}


async def scheduled(world: World, body: Body) -> str:
    """Create a pod and return the node it gets."""
    name = (await world.create(kinds.PODS, body))["metadata"]["name"]
    return await bound(world, name)


async def bound(world: World, name: str) -> str:
    async def node_name() -> str:
        found: str = (await world.get(kinds.PODS, name))["spec"].get("nodeName", "")
        return found

    place: str = await world.eventually(node_name)
    return place


async def refused(world: World, body: Body, want: str) -> None:
    """Create a pod and wait until the scheduler says why it cannot run."""
    name = (await world.create(kinds.PODS, body))["metadata"]["name"]
    await says(world, name, want)


async def says(world: World, name: str, want: str) -> None:
    async def said() -> bool:
        pod = await world.get(kinds.PODS, name)
        found = [one for one in pod["status"].get("conditions", []) if one["type"] == "PodScheduled"]
        assert [(one["status"], one.get("reason"), one.get("message")) for one in found] == [
            ("False", "Unschedulable", want)
        ]
        return True

    await world.eventually(said)


def because(reasons: str, *, helpless: int = 0, victimless: int = 0) -> str:
    total = helpless + victimless
    parts = [f"{victimless} No preemption victims found for incoming pod"] if victimless else []
    parts += [f"{helpless} Preemption is not helpful for scheduling"] if helpless else []
    available = f"0/{total} nodes are available:"
    return f"{available} {reasons}. no new claims to deallocate, preemption: {available} {', '.join(sorted(parts))}."


def pod_affinity(kind: str, key: str, **labels: str) -> Body:
    return {kind: {REQUIRED: [{"labelSelector": {"matchLabels": labels}, "topologyKey": key}]}}


def spread(key: str, **labels: str) -> list[Body]:
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return [{**constraint, "labelSelector": {"matchLabels": labels}}]
