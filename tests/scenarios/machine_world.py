"""A simulated cluster with machine groups: nodes that come and fail, guests, and replicas of the runtime."""

import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Any

import msgspec

from autoscaler.api import controllers, keys, names, policies, resources
from autoscaler.kube import kinds, port
from autoscaler.options import Build
from autoscaler.runtime import process
from autoscaler.simulation import kubelet
from autoscaler.simulation.cluster.store import Key
from autoscaler.simulation.kubelet import Kubelets, Run
from autoscaler.simulation.scheduler import Scheduler
from tests import builders
from tests.scenarios import machine_audit, running
from tests.scenarios.machine_audit import MACHINES, Audit, Kind

Body = dict[str, Any]
NAMESPACE = running.NAMESPACE
"""The runtime's own, where sleepers are."""
GUESTS = "guests"
"""A namespace where machines are given to pods that ask for them."""
GROUP = "general"
RUNTIME = policies.Runtime(namespace=NAMESPACE, service_account="sluice")
NODE_POOLS = kinds.custom(resources.MachineNodePool)


class World:
    """A cluster with our policies, a scheduler, kubelets and the StatefulSet controller. All openings are audited."""

    def __init__(self, *, latency_seconds: float = 0.005, stop_seconds: float = 0.5) -> None:
        self.cluster = running.guarded(RUNTIME, latency_seconds=latency_seconds)
        self.stop_seconds = stop_seconds
        """How long a pod takes to end once it is deleted, if its grace allows."""
        self.writes: Counter[str] = Counter()
        """Writes of the runtime by method and path, besides those to Leases."""
        self.refused: Counter[str] = Counter()
        """Those that were refused."""
        self._watch_writes()
        Scheduler(self.cluster)
        self.kubelets = Kubelets(self.cluster, script=self._run)
        self.audit = Audit(self.cluster.server.store)
        self.add_namespace(GUESTS, inject=True)

    # What a test makes

    def add_namespace(self, name: str, *, inject: bool) -> None:
        """Make a namespace, where machines are given to guests or not."""
        labels = {keys.INJECT_RESOURCE: keys.INJECT_ENABLED} if inject else {}
        self.cluster.create(kinds.NAMESPACES, {"metadata": {"name": name, "labels": labels}})

    def add_node(self, name: str, *, cpu: str = "4", labels: Mapping[str, str] | None = None, **more: str) -> None:
        """Make a node; its kubelet makes it ready by itself."""
        room = {"cpu": cpu, "memory": "64Gi", "pods": "110", **more}
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}}
        self.cluster.create(kinds.NODES, {"metadata": metadata, "status": {"capacity": room, "allocatable": room}})

    def add_machine(
        self,
        name: str = GROUP,
        *,
        types: Mapping[str, Body] | None = None,
        nodes: Iterable[Body] = (),
        **spec: Any,
    ) -> Body:
        """Make a Machine: of one type of two machines of 2 cpus each, unless told otherwise."""
        given = types if types is not None else {"medium": machine_type()}
        offered = [{"name": each, **body} for each, body in given.items()]
        body = builders.resource("Machine", name=name, machineTypes=offered, nodePool=list(nodes), **spec)
        return self.cluster.create(MACHINES, body)

    def add_guest(
        self,
        name: str = "guest",
        machine: str = "medium",
        *,
        group: str = GROUP,
        namespace: str = GUESTS,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> Body:
        """Make a pod that asks for a machine, as a person does: it runs until it is deleted."""
        asked = {keys.MACHINE_GROUP: group, keys.MACHINE_TYPE: machine, **(labels or {})}
        metadata = {"name": name, "labels": asked, "annotations": dict(annotations or {})}
        whole = {"containers": [{"name": "main", "image": "main:1"}], "terminationGracePeriodSeconds": 5, **spec}
        self.send("POST", kinds.PODS.collection(namespace), {"metadata": metadata, "spec": whole})
        return self.pod(name, namespace)

    def add_pod(self, name: str, *, cpu: str = "1", namespace: str = NAMESPACE, **spec: Any) -> Body:
        """Make a pod that knows nothing of machines."""
        container = {"name": "main", "image": "main:1", "resources": {"requests": {"cpu": cpu}}}
        whole = {"containers": [container], "terminationGracePeriodSeconds": 5, **spec}
        self.send("POST", kinds.PODS.collection(namespace), {"metadata": {"name": name}, "spec": whole})
        return self.pod(name, namespace)

    def add_drain_object(self) -> None:
        """Make what a stack deletes to have the runtime leave."""
        metadata = {"name": names.DRAIN_OBJECT, "namespace": NAMESPACE, "annotations": {keys.CONFIRM_LEAVING: "true"}}
        self.cluster.create(kinds.CONFIG_MAPS, {"metadata": metadata})

    def change_machine(self, name: str = GROUP, **changes: Any) -> None:
        """Change a Machine's spec; lists are replaced."""
        self.patch(MACHINES, name, {"spec": changes})

    def cordon(self, node: str, *, cordoned: bool = True) -> None:
        """Cordon a node as kubectl does, or let it take pods again."""
        self.patch(kinds.NODES, node, {"spec": {"unschedulable": cordoned or None}})

    def patch(self, resource: kinds.ResourceType, name: str, changes: Body, namespace: str = NAMESPACE) -> None:
        """Merge changes into an object, as a person."""
        self.send("PATCH", resource.path(name, namespace if resource.namespaced else None), changes)

    def delete(
        self, resource: kinds.ResourceType, name: str, namespace: str = NAMESPACE, *, policy: str = "Background"
    ) -> None:
        """Delete an object, as a person."""
        path = resource.path(name, namespace if resource.namespaced else None)
        self.send("DELETE", path, {"propagationPolicy": policy})

    def delete_guest(self, name: str = "guest", namespace: str = GUESTS) -> None:
        """Delete a guest, as a person."""
        self.delete(kinds.PODS, name, namespace)

    def send(self, method: str, path: str, body: Body | None = None) -> None:
        """Ask for something as a person; fail if it is refused."""
        encoded = None if body is None else msgspec.json.encode(body)
        content_type = port.MERGE_PATCH if method == "PATCH" else port.JSON
        request = port.Request(method=method, path=path, body=encoded, content_type=content_type)
        port.required(self.cluster.server.handle(request, "admin"))

    # What a test sees

    def machine(self, name: str = GROUP) -> Body:
        return self._get(MACHINES, name, "")

    def status(self, name: str = GROUP) -> Body:
        status: Body = self.machine(name).get("status", {})
        return status

    def usage(self, machine: str = "medium", name: str = GROUP) -> Body:
        """Return what a Machine says of one of its types."""
        said: Body = next(each for each in self.status(name)["availableMachines"] if each["name"] == machine)["usage"]
        return said

    def node_pool(self, name: str = GROUP) -> Body:
        return self._get(NODE_POOLS, f"{name}-node-pool", "")

    def node_conditions(self, name: str = GROUP) -> dict[str, str]:
        """Return what the MachineNodePool says of each node."""
        said = self.node_pool(name).get("status", {}).get("nodePool", [])
        return {each["name"]: each["condition"] for each in said}

    def condition(self, kind: str, name: str = GROUP) -> Body | None:
        conditions = self.status(name).get("conditions", [])
        return next((each for each in conditions if each["type"] == kind), None)

    def catalogue(self) -> Body:
        """Return what the catalogue says."""
        data: Body = self._get(kinds.CONFIG_MAPS, names.MACHINE_CATALOGUE, NAMESPACE)["data"]
        return data

    def node(self, name: str) -> Body:
        return self._get(kinds.NODES, name, "")

    def taints(self, node: str) -> set[str]:
        """Return the keys of a node's taints, without those of the cluster itself."""
        found = self.node(node)["spec"].get("taints") or ()
        return {each["key"] for each in found if not each["key"].startswith("node.kubernetes.io/")}

    def marks(self, node: str) -> dict[str, str]:
        """Return what machine groups wrote on a node, labels and annotations."""
        metadata = self.node(node)["metadata"]
        found = (metadata.get("labels") or {}) | (metadata.get("annotations") or {})
        return {name: value for name, value in found.items() if "sluice.dev/" in name}

    def pod(self, name: str, namespace: str = NAMESPACE) -> Body:
        return self._get(kinds.PODS, name, namespace)

    def guest(self, name: str = "guest") -> Body:
        return self.pod(name, GUESTS)

    def sleepers(self, machine: str = "medium", group: str = GROUP) -> list[Body]:
        """Return a type's sleepers by ordinal."""
        found = [each for each in self._of(Kind(group, machine)) if machine_audit.role(each) == keys.ROLE_RESERVATION]
        return sorted(found, key=lambda each: int(each["metadata"]["name"].rpartition("-")[2]))

    def rooms(self, machine: str = "medium", group: str = GROUP) -> Counter[str]:
        """Return how many sleepers of a type hold room on each node, and do not go."""
        found = self.sleepers(machine, group)
        staying = [each for each in found if "deletionTimestamp" not in each["metadata"]]
        return Counter(node for each in staying if (node := node_of(each)) is not None)

    def places(self, *chosen: str) -> dict[str, str | None]:
        """Return the node of each guest, of these or all; None: it waits."""
        found = [each for each in self.all(kinds.PODS) if each["metadata"]["namespace"] == GUESTS]
        placed = {each["metadata"]["name"]: node_of(each) for each in found}
        return {name: node for name, node in placed.items() if not chosen or name in chosen}

    def events(self, name: str) -> dict[str, list[Body]]:
        """Return the events about an object, by reason."""
        found: dict[str, list[Body]] = {}
        for event in self.all(kinds.EVENTS):
            if event["involvedObject"]["name"] == name:
                found.setdefault(event["reason"], []).append(event)
        return found

    def exists(self, resource: kinds.ResourceType, name: str, namespace: str = NAMESPACE) -> bool:
        key = Key(namespace if resource.namespaced else "", name)
        return self.cluster.server.store.find(resource, key) is not None

    def all(self, resource: kinds.ResourceType) -> list[Body]:
        return [entry.object for entry in self.cluster.server.store.collection(resource).entries.values()]

    # How it works

    def _of(self, kind: Kind) -> list[Body]:
        return [each for each in self.all(kinds.PODS) if machine_audit.kind_of(each) == kind]

    def _run(self, pod: Body) -> Run:
        run = kubelet.as_annotated(pod)
        return Run(run_seconds=run.run_seconds, exit_code=run.exit_code, stop_seconds=self.stop_seconds)

    def _get(self, resource: kinds.ResourceType, name: str, namespace: str) -> Body:
        entry = self.cluster.server.store.find(resource, Key(namespace, name))
        assert entry is not None, f"{resource.kind} {name} is not there"
        return entry.object

    def _watch_writes(self) -> None:
        handle = self.cluster.server.handle

        def count(request: port.Request, user: str) -> port.Response:
            answer = handle(request, user)
            if user == RUNTIME.user and request.method != "GET" and "/leases" not in request.path:
                asked = f"{request.method} {request.path}"
                self.writes[asked] += 1
                self.refused[asked] += answer.status >= 400
            return answer

        self.cluster.server.handle = count  # type: ignore[method-assign]


@contextlib.asynccontextmanager
async def runtime(
    world: World, build: Build, *, pod: str = "a", wrap: running.Wrap | None = None
) -> AsyncGenerator[process.Process, None]:
    """Run a replica that handles machines; at the end it stops, and no type may ever have had too many open pods."""
    registration = process.Registration(
        lease=names.CLUSTER_LEASE,
        lease_namespace=controllers.KUBE_SYSTEM,
        build=lambda context: build(context, running.NOTHING_OUTSIDE),
    )
    async with running.replica(
        world.cluster, {"machines": registration}, pod=pod, wrap=wrap, user=RUNTIME.user
    ) as made:
        yield made
    world.audit.check()


def machine_type(cpu: str = "2", memory: str = "4Gi", available: int = 2, **spec: Any) -> Body:
    """A machine type as a Machine has it, without its name."""
    return {"spec": {"cpu": cpu, "memory": memory, **spec}, "available": available}


def entry(node: str, machine: str = "medium", *, mode: str = "ready", taint: bool = False) -> Body:
    """A node's entry of a Machine."""
    return {"name": node, "mode": mode, "taint": taint, "machineType": [{"name": machine}]}


def selected(labels: Mapping[str, str], machine: str = "medium", *, mode: str = "ready", taint: bool = False) -> Body:
    """An entry for all nodes with certain labels."""
    return {"nodeSelector": dict(labels), "mode": mode, "taint": taint, "machineType": [{"name": machine}]}


def node_of(pod: Body) -> str | None:
    """Return where a pod is bound; None: nowhere."""
    found: str | None = pod["spec"].get("nodeName")
    return found
