"""Services in the simulated cluster: pods that are made anew when they go, as a Deployment's are."""

import asyncio
import itertools
from typing import Any

from autoscaler.kube import kinds
from autoscaler.simulation.cluster.store import Change
from tests.scenarios.capacity_world import NAMESPACE, Body, World

AGAIN_SECONDS = 0.2


class Service:
    """A Deployment whose pods are replaced for as long as it runs."""

    def __init__(self, world: World, name: str, *, cpu: str = "3", **spec: Any) -> None:
        self.world, self.name, self._cpu, self._spec = world, name, cpu, spec
        self._numbers = itertools.count(1)
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}
        body: Body = {
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": name}}, "template": template},
        }
        self._uid: str = world.cluster.create(kinds.DEPLOYMENTS, body)["metadata"]["uid"]
        world.cluster.server.store.collection(kinds.PODS).listeners.append(self._on_pod)

    def start(self, count: int = 1) -> None:
        """Add pods."""
        for _ in range(count):
            self._add()

    def guard(self, *, available: int) -> None:
        """Let so many of its pods never be evicted."""
        metadata = {"name": self.name, "namespace": NAMESPACE}
        spec = {"minAvailable": available, "selector": {"matchLabels": {"app": self.name}}}
        self.world.cluster.create(kinds.DISRUPTION_BUDGETS, {"metadata": metadata, "spec": spec})

    def running(self) -> dict[str, str]:
        """Return the node of each of its pods that has one."""
        return {pod: node for pod, node in self.world.bound().items() if pod.startswith(f"{self.name}-")}

    def _on_pod(self, change: Change) -> None:
        if change.after is None and change.key.name.startswith(f"{self.name}-"):
            asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._add)

    def _add(self) -> None:
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": self.name, "uid": self._uid, "controller": True}
        name = f"{self.name}-{next(self._numbers)}"
        self.world.add_pod(name, cpu=self._cpu, labels={"app": self.name}, owners=[owner], **self._spec)
