"""The simulated cluster as tests and scenarios see it: identities, what is installed, and faults."""

import asyncio
import functools
from random import Random
from typing import Final

from autoscaler.api import crds, policies
from autoscaler.api.manifests import Manifest
from autoscaler.clock import Clock
from autoscaler.kube import kinds
from autoscaler.simulation.cluster import client, faults, served
from autoscaler.simulation.cluster.admission import Policy
from autoscaler.simulation.cluster.server import Server
from autoscaler.simulation.cluster.verbs.writes import Manner
from autoscaler.simulation.controllers import (
    accounts,
    budgets,
    definitions,
    garbage,
    jobs,
    namespaces,
    nodes,
    orphaned_pods,
    stateful_sets,
)

ADMIN: Final = "admin"
NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


@functools.cache
def _definitions() -> tuple[Manifest, ...]:
    """Make them once: stored objects are never changed, so clusters may share them."""
    return crds.all_crds()


class SimulatedCluster:
    """An API server with the controllers of kube-controller-manager that matter here, all in virtual time.

    It needs no start and no stop: it acts when something is written or a time comes, on the loop that runs then.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        seed: int = 0,
        latency_seconds: float = 0.0,
        admission_policies: tuple[Policy, ...] = policies.POLICIES,
    ) -> None:
        self.server = Server(clock=clock, random=Random(seed), policies=admission_policies)  # noqa: S311
        self.faults = faults.Faults()
        self._latency_seconds = latency_seconds
        self._furnish()
        for part in (accounts, garbage, namespaces, definitions, budgets, jobs, stateful_sets, nodes, orphaned_pods):
            part.run(self.server)

    def client(self, username: str = ADMIN) -> client.Client:
        """Return a connection of one identity."""
        return client.Client(self.server, self.faults, username=username, latency_seconds=self._latency_seconds)

    def install_definitions(self) -> None:
        """Serve our kinds."""
        for definition in _definitions():
            self.create(kinds.DEFINITIONS, definition)

    def install_policies(self, runtime: policies.Runtime | None = None) -> None:
        """Put our admission policies in force; those about the runtime too, if the cluster was made with them."""
        by_kind = {kind.resource.kind: kind.resource for kind in served.BUILT_IN}
        for manifest in policies.manifests(runtime):
            self.create(by_kind[manifest["kind"]], manifest)

    def create(self, resource: kinds.ResourceType, body: Manifest) -> Manifest:
        """Create an object as the administrator, at once."""
        namespace = body["metadata"].get("namespace") if resource.namespaced else None
        return self.server.writes.create(resource, body, namespace=namespace, manner=Manner(user=ADMIN)).object

    def compact(self) -> None:
        """Forget the history, so that the next watch from an older version is told 410."""
        self.server.compact()

    async def settle(self, seconds: float = 5.0) -> None:
        """Let the cluster's own controllers finish what they have begun."""
        await asyncio.sleep(seconds)

    def _furnish(self) -> None:
        for name in NAMESPACES:
            self.create(kinds.NAMESPACES, {"metadata": {"name": name}})
            self.create(served.SERVICE_ACCOUNTS, {"metadata": {"name": accounts.DEFAULT, "namespace": name}})
        for name, value in _PRIORITIES.items():
            self.create(served.PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
