"""A simulated cluster and cloud in which a stack was made: its groups, its objects, and instances that become nodes."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from autoscaler import clock
from autoscaler.api import keys, policies, resources, version
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import identities
from autoscaler.capacity.records import accounting
from autoscaler.cloud import catalogue, node_templates
from autoscaler.kube import kinds, port
from autoscaler.simulate import manifests, simulated_workers
from autoscaler.simulate.observation import observing
from autoscaler.simulate.stack import Stack
from autoscaler.simulate.trace import Queue, Trace
from autoscaler.simulation import kubelet, pod_status
from autoscaler.simulation.cloud import SimulatedCloud
from autoscaler.simulation.cloud.model import Pace, SimulatedInstance
from autoscaler.simulation.cluster import SimulatedCluster, failures
from autoscaler.simulation.cluster.store import Change, Key
from autoscaler.simulation.cluster.verbs.writes import STATUS, Manner
from autoscaler.simulation.controllers import job_status
from autoscaler.simulation.scheduler import Scheduler

NAMESPACE: Final = "sluice-system"
"""Where the runtime lives."""
RUNTIME: Final = policies.Runtime(namespace=NAMESPACE, service_account="sluice")
"""Who the runtime is to the API server."""
FORGOTTEN_SECONDS: Final = 300.0
"""How long a pod that ended is kept."""
AGAIN_SECONDS: Final = 5.0
"""When a guest is made that was refused."""
_ADMIN: Final = "admin"
_KINDS: Final[Mapping[str, kinds.ResourceType]] = {
    "Namespace": kinds.NAMESPACES,
    **{kind.__name__: kinds.custom(kind) for kind in resources.KINDS},
}


class World:
    """What the runtime finds around it. To be made within the virtual loop."""

    def __init__(self, stack: Stack, trace: Trace, time: clock.Clock) -> None:
        self.clock = time
        self.trace = trace
        self.cluster = SimulatedCluster(
            time, seed=trace.seed, latency_seconds=0.005, admission_policies=policies.for_runtime(RUNTIME)
        )
        self.cluster.install_definitions()
        self.cluster.install_policies(RUNTIME)
        self.cloud = SimulatedCloud(time, pace=Pace(pending_seconds=trace.boot_seconds))
        self.cloud.on_in_service.append(self._register)
        self.cloud.on_gone.append(self._unregister)
        self.lines = simulated_workers.Lines()
        self._lines_by_pool: dict[Key, simulated_workers.Line] = {}
        self.specs = stack.groups.by_key()
        Scheduler(self.cluster)
        kubelet.Kubelets(self.cluster)
        self.cluster.server.store.collection(kinds.PODS).listeners.append(self._on_pod)
        self._furnish(stack)
        self.cloud.add_all(stack.groups)

    def line(self, name: str) -> simulated_workers.Line:
        """Return a queue of the trace."""
        return self._lines_by_pool[Key(self.trace.queues[name].namespace, name)]

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """Return the labels of a namespace."""
        found = self.cluster.server.store.find(kinds.NAMESPACES, Key("", name))
        labels: Mapping[str, str] = found.object["metadata"].get("labels", {}) if found else {}
        return labels

    def create(self, body: Manifest, kind: kinds.ResourceType | None = None) -> None:
        """Create an object."""
        self.cluster.create(kind or _KINDS[body["kind"]], body)

    def admit(self, guest: Manifest) -> None:
        """Create a guest, as a Deployment does: again later while it is refused, as before the runtime has started."""
        try:
            self.create(guest, kinds.PODS)
        except failures.Refusal:
            asyncio.get_running_loop().call_later(AGAIN_SECONDS, self.admit, guest)

    def delete(self, kind: kinds.ResourceType, key: Key, uid: str | None = None) -> None:
        """Delete an object if it is there, and has this UID if one is given: another may have its name by now."""
        found = self.cluster.server.store.find(kind, key)
        if found is not None and uid in {None, found.uid}:
            self._send(port.Request(method="DELETE", path=kind.path(key.name, key.namespace or None)))

    def resize(self, work: str, parallelism: int) -> None:
        """Change how many pods the Jobs of one kind want that have not ended."""
        body = msgspec.json.encode({"spec": {"parallelism": parallelism}})
        for key, entry in list(self.cluster.server.store.collection(kinds.JOBS).entries.items()):
            is_meant = (entry.object["metadata"].get("labels") or {}).get(observing.WORK) == work
            if is_meant and not job_status.is_finished(entry.object):
                path = kinds.JOBS.path(key.name, key.namespace)
                self._send(port.Request(method="PATCH", path=path, body=body, content_type=port.MERGE_PATCH))

    def _send(self, request: port.Request, user: str = _ADMIN) -> None:
        port.required(self.cluster.server.handle(request, user))

    def _furnish(self, stack: Stack) -> None:
        for name in (NAMESPACE, *sorted({one.namespace for one in self.trace.work().values()})):
            declared = {each["metadata"]["name"] for each in stack.objects if each["kind"] == "Namespace"}
            if name not in declared and self.cluster.server.store.find(kinds.NAMESPACES, Key("", name)) is None:
                self.create({"metadata": {"name": name}}, kinds.NAMESPACES)
        for each in stack.objects:
            self.create(each)
        for name, value in self.trace.priority_classes.items():
            self.create({"metadata": {"name": name}, "value": value}, kinds.PRIORITY_CLASSES)
        for pool, seconds in self.trace.seconds_used_this_month.items():
            self._charge(pool, seconds)
        for name, queue in self.trace.queues.items():
            self._open(name, queue)

    def _charge(self, pool: str, seconds: int) -> None:
        """Record what a pool has used this month, as the runtime would: one instance that is gone has used it."""
        name = f"{pool}-001"
        meta = {"apiVersion": version.GROUP_VERSION, "kind": "Instance", "metadata": {"name": name}}
        self.create({**meta, "spec": {"pool": pool, "number": 1}})
        month = accounting.month_of(self.clock.now())
        status = {"status": {"phase": "Terminated", "months": {month: {"seconds": seconds}}}}
        path = _KINDS["Instance"].path(name, subresource="status")
        body = msgspec.json.encode(status)
        runtime = identities.account_user(RUNTIME.namespace, RUNTIME.service_account)
        self._send(port.Request(method="PATCH", path=path, body=body, content_type=port.MERGE_PATCH), runtime)

    def _open(self, name: str, queue: Queue) -> None:
        """Make a queue, the Deployment that its workers are modelled on, and its WorkerPool."""
        line = simulated_workers.Line(name, self.clock.now)
        self._lines_by_pool[Key(queue.namespace, name)] = line
        self.lines.by_endpoint[manifests.endpoint(name, queue)] = line
        self.create(manifests.deployment(name, queue), kinds.DEPLOYMENTS)
        self.create(manifests.worker_pool(name, queue))

    # Instances become nodes

    def _register(self, instance: SimulatedInstance) -> None:
        spec, kind = self.specs[instance.key], catalogue.bundled()[instance.key.instance_type]
        room = catalogue.expected(kind, node_templates.of_spec(spec))
        self.create(manifests.node(_node_name(instance), spec, room, instance.provider_id), kinds.NODES)

    def _unregister(self, instance: SimulatedInstance) -> None:
        self.delete(kinds.NODES, Key("", _node_name(instance)))

    # Pods work

    def _on_pod(self, change: Change) -> None:
        pool = _pool(change)
        line = self._lines_by_pool.get(Key(change.key.namespace, pool)) if pool else None
        was, phase = _phase(change.before), _phase(change.after)
        if phase == "Running" and was != "Running" and line is not None and change.after is not None:
            line.begin(self._worker(change.key, change.after.object))
        elif was == "Running" and phase != "Running" and line is not None and change.before is not None:
            line.leave(change.before.uid)
        elif was == "Running" and phase in {"Succeeded", "Failed"} and change.after is not None:
            uid = change.after.uid
            asyncio.get_running_loop().call_later(FORGOTTEN_SECONDS, self.delete, kinds.PODS, change.key, uid)

    def _worker(self, key: Key, pod: Manifest) -> simulated_workers.Worker:
        queue = self.trace.queues[pod["metadata"]["labels"][keys.WORKER_POOL]]
        return simulated_workers.Worker(
            uid=pod["metadata"]["uid"], idle_seconds=60.0 * queue.idle_timeout_minutes, end=lambda: self._exit(key)
        )

    def _exit(self, key: Key) -> None:
        """End a worker's pod as its kubelet would, by itself and well."""
        now = clock.to_rfc3339(self.clock.now())
        manner = Manner(user="system:node:simulate")
        self.cluster.server.writes.update(
            kinds.PODS,
            key,
            lambda body: pod_status.ended(body, now=now, exit_code=0),
            manner=manner,
            subresource=STATUS,
        )


def _node_name(instance: SimulatedInstance) -> str:
    return f"ip-{instance.id}"


def _pool(change: Change) -> str | None:
    entry = change.after or change.before
    labels: Mapping[str, str] = (entry.object["metadata"].get("labels") or {}) if entry else {}
    return labels.get(keys.WORKER_POOL)


def _phase(entry: Any) -> str | None:  # noqa: ANN401  # an Entry or nothing
    return None if entry is None else entry.object["status"].get("phase")
