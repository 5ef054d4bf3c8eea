"""A simulated cluster on a simulated cloud: instances become nodes, and a replica that scales them."""

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from autoscaler import clock, control
from autoscaler.api import controllers, keys, policies, resources
from autoscaler.api.settings.node_groups import NodeGroupKey, NodeGroupSpec
from autoscaler.api.settings.scaling import Scaling
from autoscaler.cloud import catalogue
from autoscaler.cloud import port as cloud
from autoscaler.kube import kinds, port
from autoscaler.runtime import process, registry
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cloud import SimulatedCloud
from autoscaler.simulation.cloud.client import SimulatedClient
from autoscaler.simulation.cloud.model import Group, Pace, SimulatedInstance
from autoscaler.simulation.cluster import SimulatedCluster
from autoscaler.simulation.kubelet import Kubelets, Run
from autoscaler.simulation.scheduler import Scheduler
from tests import builders
from tests.scenarios import running

Body = dict[str, Any]
NAMESPACE = "default"
ZONES = ("a", "b", "c")


class World:
    """A cluster whose nodes come from a cloud."""

    def __init__(
        self,
        *,
        pace: Pace | None = None,
        schedules: bool = True,
        provider: SimulatedCloud | None = None,
        runs_as: policies.Runtime | None = None,
    ) -> None:
        """Make a cluster; one that does not schedule finds no room for any pod, and never says why.

        Who the runtime is matters only where policies tell it from others.
        """
        time = virtual_time.clock()
        chosen = policies.for_runtime(runs_as) if runs_as is not None else policies.POLICIES
        self.cluster = SimulatedCluster(time, latency_seconds=0.005, admission_policies=chosen)
        self.cluster.install_definitions()
        self.cluster.install_policies(runs_as)
        self.cloud = provider or SimulatedCloud(time, pace=pace)
        self.cloud.on_in_service.append(self._register)
        self.cloud.on_gone.append(self._unregister)
        self.clients: dict[str, SimulatedClient] = {}
        """The clouds of provider accounts, by name: all see the same groups."""
        self.silent: set[str] = set()
        """Zones whose instances never become nodes."""
        self.run_seconds: float | None = None
        """How long pods run; None: until they are deleted."""
        self._specs: dict[NodeGroupKey, NodeGroupSpec] = {}
        self.allocatable: Body = {}
        """What nodes offer instead of what they should."""
        self.extra_taints: tuple[Body, ...] = ()
        """Taints that nodes have when they register, besides those of their groups."""
        self.attach_limits: dict[str, int] = {}
        """How many volumes each CSI driver attaches to a node."""
        self._schedules = schedules
        if schedules:
            Scheduler(self.cluster)
        self.kubelets = Kubelets(self.cluster, script=lambda _: Run(start_seconds=1.0, run_seconds=self.run_seconds))
        self.cluster.create(kinds.custom(resources.ProviderAccount), builders.resource("ProviderAccount"))

    def add_pool(self, name: str = "workers", *, types: tuple[str, ...] = ("m5.xlarge",), **options: Any) -> None:
        """Make a pool and its groups, one per zone and type."""
        groups = {
            key: options.pop(key) for key in ("minimum", "maximum", "zones", "taints", "labels") if key in options
        }
        scope = options.pop("scope", None)
        manifest = builders.resource("InstancePool", name=name, **options)
        manifest["metadata"]["labels"] = {keys.SCOPE: scope} if scope else {}
        self.cluster.create(kinds.custom(resources.InstancePool), manifest)
        for zone in groups.pop("zones", ZONES):
            for kind in types:
                self.add_group(NodeGroupKey(pool=name, zone=zone, instance_type=kind), **groups)

    def add_group(
        self,
        key: NodeGroupKey,
        *,
        minimum: int = 0,
        maximum: int = 10,
        taints: tuple[Body, ...] = (),
        labels: dict[str, str] | None = None,
        name: str | None = None,
    ) -> Group:
        kind = catalogue.bundled()[key.instance_type]
        spec = NodeGroupSpec.model_validate(
            {
                "key": key.model_dump(),
                "name": name or f"{key.pool}-{key.zone}-{key.instance_type}",
                "minimum": minimum,
                "maximum": maximum,
                "architecture": kind.architecture,
                "vcpus": kind.vcpus,
                "memoryBytes": kind.memory_bytes,
                "gpus": kind.gpus,
                "maxPods": kind.max_pods,
                "labels": {
                    keys.INSTANCE_POOL: key.pool,
                    keys.ZONE: key.zone,
                    keys.INSTANCE_TYPE: key.instance_type,
                    **(labels or {}),
                },
                "taints": list(taints),
                "resources": {keys.GPU_RESOURCE: str(kind.gpus)} if kind.gpus else {},
            }
        )
        self._specs[key] = spec
        return self.cloud.add(spec)

    def add_pod(self, name: str, *, cpu: str = "1", namespace: str = NAMESPACE, **spec: Any) -> None:
        """Create a pod."""
        container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
        metadata = {
            "name": name,
            "namespace": namespace,
            "labels": spec.pop("labels", {}),
            "annotations": spec.pop("annotations", {}),
            "ownerReferences": spec.pop("owners", []),
        }
        body = {"metadata": metadata, "spec": {"restartPolicy": "Never", "containers": [container], **spec}}
        self.cluster.create(kinds.PODS, body)
        if not self._schedules:
            now = clock.to_rfc3339(virtual_time.clock().now())
            condition = {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "lastTransitionTime": now,
            }
            self.patch(kinds.PODS, name, {"status": {"conditions": [condition]}}, "status")

    def delete_pod(self, name: str) -> None:
        request = port.Request(method="DELETE", path=kinds.PODS.path(name, NAMESPACE))
        port.required(self.cluster.server.handle(request, "admin"))

    def bind(self, pod: str, node: str) -> None:
        """Do what a scheduler does."""
        body = msgspec.json.encode({"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}})
        request = port.Request(method="POST", path=kinds.PODS.path(pod, NAMESPACE, "binding"), body=body)
        port.required(self.cluster.server.handle(request, "scheduler"))

    def patch(self, resource: kinds.ResourceType, name: str, changes: Body, subresource: str | None = None) -> None:
        body = msgspec.json.encode(changes)
        path = resource.path(name, NAMESPACE, subresource)
        request = port.Request(method="PATCH", path=path, body=body, content_type=port.MERGE_PATCH)
        port.required(self.cluster.server.handle(request, "admin"))

    def all(self, resource: kinds.ResourceType) -> list[Body]:
        return [entry.object for entry in self.cluster.server.store.collection(resource).entries.values()]

    def nodes(self) -> list[Body]:
        return self.all(kinds.NODES)

    def instances(self) -> list[Body]:
        """Return the Instance objects, by name."""
        return sorted(self.all(kinds.custom(resources.Instance)), key=lambda each: each["metadata"]["name"])

    def bound(self) -> dict[str, str]:
        """Return the node of each pod that has one."""
        pods = self.all(kinds.PODS)
        return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}

    def events(self, reason: str) -> list[Body]:
        return [event for event in self.all(kinds.EVENTS) if event["reason"] == reason]

    def desired(self) -> dict[str, int]:
        """Return the desired capacity of groups that should have instances."""
        return {str(name): group.desired for name, group in self.cloud.groups.items() if group.desired}

    def _register(self, instance: SimulatedInstance) -> None:
        if instance.key.zone in self.silent:
            return
        spec, kind = self._specs[instance.key], catalogue.bundled()[instance.key.instance_type]
        room = {name: _written(name, amount) for name, amount in kind.allocatable().items()} | self.allocatable
        name = f"ip-{instance.id}"
        taints = [taint.model_dump(mode="json", by_alias=True, exclude_none=True) for taint in spec.taints]
        taints += self.extra_taints
        self.cluster.create(
            kinds.NODES,
            {
                "metadata": {"name": name, "labels": {**spec.labels, keys.HOSTNAME: name, keys.ARCHITECTURE: "amd64"}},
                "spec": {"providerID": instance.provider_id, **({"taints": taints} if taints else {})},
                "status": {"capacity": room, "allocatable": room},
            },
        )

        drivers = [
            {"name": driver, "nodeID": name, "topologyKeys": [], "allocatable": {"count": count}}
            for driver, count in self.attach_limits.items()
        ]
        self.cluster.create(kinds.CSI_NODES, {"metadata": {"name": name}, "spec": {"drivers": drivers}})

    def _unregister(self, instance: SimulatedInstance) -> None:
        name = f"ip-{instance.id}"
        if any(node["metadata"]["name"] == name for node in self.nodes()):
            for kind in (kinds.NODES, kinds.CSI_NODES):
                request = port.Request(method="DELETE", path=kind.path(name))
                port.required(self.cluster.server.handle(request, "admin"))


def runtime(
    world: World,
    pod: str = "a",
    *,
    scaling: Scaling | None = None,
    observe: bool = False,
) -> contextlib.AbstractAsyncContextManager[process.Process]:
    """Run a replica that scales the world's nodes; at the end it stops cleanly."""
    made = registrations(world, partial(_open, world), scaling)
    return running.replica(world.cluster, made, pod=pod, observe=observe)


def registrations(
    world: World,
    open_cloud: Callable[[control.ControllerContext, str, object], Awaitable[cloud.Cloud]],
    scaling: Scaling | None = None,
) -> dict[str, process.Registration]:
    """Put the controller together that scales the world's nodes, on these clouds."""
    options = replace(
        running.NOTHING_OUTSIDE,
        open_cloud=open_cloud,
        open_interruptions=world.cloud.interruptions,
        scaling=scaling or Scaling(),
    )
    return registry.registrations([controllers.CAPACITY], options)


async def _open(world: World, context: control.ControllerContext, name: str, spec: object) -> cloud.Cloud:
    del context, spec
    world.clients[name] = world.cloud.client()
    return world.clients[name]


def _written(name: str, amount: int) -> str:
    return f"{amount}m" if name == "cpu" else str(amount)
