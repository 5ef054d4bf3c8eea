"""Pods that no scheduler and no kubelet cares for: the test does with them what it likes."""

from typing import Any

from autoscaler.kube import kinds
from tests.contract.worlds import Body, World

NOBODY = "nobody"
"""A scheduler that does not exist: the pod waits until the test binds it."""


def pod(name: str = "p", *, labels: Body | None = None, **spec: Any) -> Body:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m"}}}
    whole = {"schedulerName": NOBODY, "containers": [container], **spec}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": whole}


async def bare_node(world: World, name: str | None = None) -> str:
    """A node that nobody plays the kubelet of."""
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    body = {"metadata": {"name": name or world.unique("node")}, "status": {"allocatable": amounts}}
    made = await world.create(kinds.NODES, body)
    found: str = made["metadata"]["name"]
    return found


async def bind(world: World, name: str, to: str) -> int:
    body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": to}}
    return (await world.send("POST", world.path(kinds.PODS, name, "binding"), body)).status
