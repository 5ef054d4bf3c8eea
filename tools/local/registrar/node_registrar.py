"""The registrar's loop: read instances, read nodes, carry out the difference, wait. It holds no state that matters.

It outlives restarts of the API server and of moto: an error is said once per kind, then retried with growing pauses.
"""

import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from tools.local import api
from tools.local.registrar import registrar_cloud, registrar_nodes

RECHECK_SECONDS = 5.0  # how soon a node deleted behind our back is made again
LONGEST_PAUSE_SECONDS = 5.0
BUSY_SHARE = 5  # reading many groups from moto is slow: spend at most a fifth of the time on it
LONGEST_INTERVAL_SECONDS = 2.0
log = logging.getLogger("node-registrar")


class Cloud(Protocol):
    """What the registrar asks of the cloud."""

    def instances(self, now: float) -> tuple[registrar_nodes.Instance, ...]: ...

    def alive(self, instances: Sequence[str]) -> frozenset[str]: ...


class Cluster(Protocol):
    """What the registrar asks of the API server."""

    def nodes(self) -> frozenset[str]: ...

    def create(self, node: str, manifest: dict[str, object]) -> None: ...

    def delete(self, node: str) -> None: ...


class ApiCluster:
    """The nodes the registrar made, on a real API server."""

    def __init__(self, client: api.Api) -> None:
        self._client = client

    def nodes(self) -> frozenset[str]:
        found = self._client.get("/api/v1/nodes", {"labelSelector": registrar_nodes.REGISTRAR_LABEL})
        return frozenset(node["metadata"]["name"] for node in found["items"])

    def create(self, node: str, manifest: dict[str, object]) -> None:
        response = self._client.request("POST", "/api/v1/nodes", manifest)
        if response.status != 409:  # it is there already, which is what we want
            response.required()
        log.info("node_created node=%s", node)

    def delete(self, node: str) -> None:
        self._client.delete(f"/api/v1/nodes/{node}")
        log.info("node_deleted node=%s", node)


@dataclasses.dataclass(slots=True, kw_only=True)
class NodeRegistrar:
    """Keeps the nodes of one cluster equal to the instances of one cloud."""

    cloud: Cloud
    cluster: Cluster
    region: str
    boot_seconds: float
    _settled: frozenset[str] | None = None
    _recheck_at: float = 0.0
    _refused: set[str] = dataclasses.field(default_factory=set)

    def step(self, now: float) -> float | None:
        """Do what is due; return the moment at which a booting instance will be, None if none boots."""
        instances = self.cloud.instances(now)
        identifiers = frozenset(instance.identifier for instance in instances)
        if identifiers == self._settled and now < self._recheck_at:
            return None
        self._settled = None
        plan = registrar_nodes.plan(
            instances, self.cluster.nodes(), region=self.region, now=now, boot_seconds=self.boot_seconds
        )
        refused = [instance for instance in plan.create if not self._create(instance)]
        self._delete(plan.delete)
        if plan.wake_at is None and not refused:
            self._settled, self._recheck_at = identifiers, now + RECHECK_SECONDS
        return plan.wake_at

    def _create(self, instance: registrar_nodes.Instance) -> bool:
        """Make a node; one that the API server refuses must not keep the others waiting."""
        name = registrar_nodes.node_name(instance.identifier, self.region)
        try:
            self.cluster.create(name, registrar_nodes.manifest(instance, region=self.region))
        except api.RefusedError as error:
            if name not in self._refused:
                log.warning("node_refused name=%s group=%s error=%s", name, instance.group.name, error)
            self._refused.add(name)
            return False
        return True

    def _delete(self, nodes: Sequence[str]) -> None:
        """Delete the nodes of instances that are no more; one that was only detached from its group lives on."""
        alive = self.cloud.alive([registrar_nodes.instance_of(node) for node in nodes]) if nodes else frozenset()
        for node in nodes:
            if registrar_nodes.instance_of(node) not in alive:
                self.cluster.delete(node)


def run(registrar: NodeRegistrar, *, interval_seconds: float, sleep: Callable[[float], None] = time.sleep) -> None:
    """Step for ever (until the process is told to end)."""
    pause = interval_seconds
    said: set[str] = set()
    while True:
        started = time.monotonic()
        try:
            wake_at = registrar.step(time.time())
        except (api.ApiError, registrar_cloud.CloudError) as error:
            if type(error).__name__ not in said:
                said.add(type(error).__name__)
                log.warning("step_failed kind=%s error=%s", type(error).__name__, error)
            sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            continue
        if said:
            log.info("recovered")
        said.clear()
        pause = interval_seconds
        sleep(wait_seconds(interval_seconds, took=time.monotonic() - started, wake_at=wake_at, now=time.time()))


def wait_seconds(interval: float, *, took: float, wake_at: float | None, now: float) -> float:
    """Return how long to wait after a step: the interval, longer after a slow step, shorter if an instance is due."""
    unhurried = max(interval, min((BUSY_SHARE - 1) * took, LONGEST_INTERVAL_SECONDS))
    if wake_at is None:
        return unhurried
    return min(unhurried, max(0.0, wake_at - now))
