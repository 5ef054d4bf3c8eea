"""A simulated cluster with queues and Jobs: quota that a test sets, nodes with room for all, and replicas."""

import contextlib
import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from autoscaler import admission, clock
from autoscaler.api import controllers, keys, names, policies, resources
from autoscaler.kube import kinds, port
from autoscaler.runtime import process
from autoscaler.simulation import kubelet, pod_status
from autoscaler.simulation.cluster.store import Change, Key
from autoscaler.simulation.cluster.verbs.writes import STATUS, Manner
from autoscaler.simulation.kubelet import Kubelets, Run
from autoscaler.simulation.scheduler import Scheduler
from tests import builders
from tests.scenarios import running
from tests.scenarios.admission_audit import Audit

Body = dict[str, Any]
NAMESPACE = "default"
RUNTIME = policies.Runtime(namespace=NAMESPACE, service_account="sluice")
WORKLOADS = kinds.custom(resources.Workload)
CLUSTER_QUEUES = kinds.custom(resources.ClusterQueue)
LOCAL_QUEUES = kinds.custom(resources.LocalQueue)
FLAVORS = kinds.custom(resources.ResourceFlavor)


class World:
    """A cluster with room for all pods, and as many queues as a test makes. All that happens in it is audited."""

    kind = "Job"
    """The kind of the jobs that a test asks about."""
    memory: str | None = None
    """How much memory queues have, besides cpu; None: they do not count it."""

    def __init__(
        self, *, latency_seconds: float = 0.005, job_seconds: float | None = None, is_audited: bool = True
    ) -> None:
        self.cluster = running.guarded(RUNTIME, latency_seconds=latency_seconds)
        self.job_seconds = job_seconds
        """How long a pod runs that does not say so itself; None: until it is deleted."""
        self.most_running: Counter[str] = Counter()
        """The most pods of each namespace that were bound to a node and not being deleted at once."""
        self.never_ready: set[str] = set()
        """Jobs whose pods never become ready."""
        self.suspended: Counter[str] = Counter()
        """How often each Job was suspended that was not."""
        self.stop_seconds = 0.5
        """How long a pod takes to end once it is deleted."""
        Scheduler(self.cluster)
        self.kubelets = Kubelets(self.cluster, script=self._run)
        self.audit = Audit(self.cluster.server.store) if is_audited else None
        if is_audited:
            self.cluster.server.store.collection(kinds.PODS).listeners.append(self._count)
        self.cluster.server.store.collection(kinds.JOBS).listeners.append(self._see_suspension)
        self.add_node("node")
        self.add_flavor("standard")

    # What a test makes

    def add_node(self, name: str) -> None:
        """Make a node with room for all pods."""
        self.cluster.create(kinds.NODES, _node(name))

    def add_flavor(self, name: str, **spec: Any) -> None:
        """Make a flavor; its nodes carry no label unless told otherwise."""
        self.cluster.create(FLAVORS, builders.resource("ResourceFlavor", name=name, **{"nodeLabels": {}, **spec}))

    def add_priority(self, name: str, value: int) -> None:
        """Make a PriorityClass."""
        self.cluster.create(kinds.PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})

    def add_queue(self, name: str = "team", cpu: int | Mapping[str, int] = 4, **spec: Any) -> None:
        """Make a ClusterQueue with so many cpus, also by flavor, and a LocalQueue of its name that leads to it."""
        limit = spec.pop("borrowing_limit", None)
        groups = quota(cpu if isinstance(cpu, Mapping) else {"standard": cpu}, limit, self.memory)
        self.cluster.create(CLUSTER_QUEUES, builders.resource("ClusterQueue", name=name, resourceGroups=groups, **spec))
        self.cluster.create(LOCAL_QUEUES, builders.resource("LocalQueue", name=name, clusterQueue=name))

    def add_job(self, name: str = "job", pods: int = 1, queue: str | None = "team", **spec: Any) -> Body:
        """Make a Job of pods that want one cpu each, and run until they are deleted unless told otherwise."""
        priority = spec.pop("priority", None)
        container = {"name": "main", "image": "main:1", "resources": {"requests": {"cpu": "1"}}}
        template: Body = {"containers": [container], "restartPolicy": "Never"}
        if priority is not None:
            template["priorityClassName"] = priority
        labels = {} if queue is None else {keys.QUEUE_NAME: queue}
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
            "spec": {"parallelism": pods, "completions": pods, "template": {"spec": template}, **spec},
        }
        self._send("POST", kinds.JOBS.collection(NAMESPACE), body)
        return self.job(name)

    def resize(self, name: str, pods: int) -> None:
        """Change how many pods a Job wants; only elastic Indexed Jobs may change completions along with it."""
        self.patch(kinds.JOBS, name, {"spec": {"parallelism": pods}})

    def set_quota(self, name: str = "team", **cpu: int) -> None:
        """Change a ClusterQueue's quota, by flavor."""
        self.patch(CLUSTER_QUEUES, name, {"spec": {"resourceGroups": quota(cpu)}})

    def patch(self, resource: kinds.ResourceType, name: str, changes: Body) -> None:
        """Merge changes into an object, as a person."""
        namespace = NAMESPACE if resource.namespaced else None
        self._send("PATCH", resource.path(name, namespace), changes)

    def delete(self, resource: kinds.ResourceType, name: str, *, policy: str = "Background") -> None:
        """Delete an object, as a person."""
        namespace = NAMESPACE if resource.namespaced else None
        self._send("DELETE", resource.path(name, namespace), {"propagationPolicy": policy})

    def deactivate(self, job: str, *, active: bool = False) -> None:
        """Take a Job out of its queue, or let it in again, as a person may."""
        self.patch(WORKLOADS, self.workload(job)["metadata"]["name"], {"spec": {"active": active}})

    def end(self, pod: Body, *, exit_code: int = 0) -> None:
        """Let a pod's containers exit now."""
        key = Key(NAMESPACE, pod["metadata"]["name"])
        now = clock.to_rfc3339(self.cluster.server.clock.now())
        manner = Manner(user=f"system:node:{pod['spec']['nodeName']}")
        self.cluster.server.writes.update(
            kinds.PODS,
            key,
            lambda body: pod_status.ended(body, now=now, exit_code=exit_code),
            manner=manner,
            subresource=STATUS,
        )

    def on_workload(self, made: Callable[[Body], object]) -> None:
        """Call with each Workload or slice that is made from now on."""

        def see(change: Change) -> None:
            if change.before is None and change.after is not None:
                made(change.after.object)

        self.cluster.server.store.collection(WORKLOADS).listeners.append(see)

    # What a test sees

    def job(self, name: str = "job") -> Body:
        return self._get(kinds.JOBS, name)

    def workload(self, job: str = "job") -> Body:
        """Return the Workload of a Job."""
        found = self.find_workload(job)
        assert found is not None, f"job {job} has no Workload"
        return found

    def find_workload(self, job: str = "job") -> Body | None:
        owned = [each for each in self.all(WORKLOADS) if _owner(each) in {("Job", job), (self.kind, job)}]
        return owned[0] if owned else None

    def slices(self, job: str = "job") -> list[Body]:
        """Return the slices of a Job's Workload."""
        parent = self.find_workload(job)
        name = parent["metadata"]["name"] if parent else ""
        return [each for each in self.all(WORKLOADS) if _owner(each) == ("Workload", name)]

    def granted(self, job: str = "job") -> int:
        """Return how many pods of a Job may run."""
        admitted = self.workload(job).get("status", {}).get("admission")
        return sum(each["count"] for each in admitted["podSetAssignments"]) if admitted else 0

    def wanted(self, job: str = "job") -> int:
        """Return how many pods of a Job its Workload asks for."""
        return sum(each["count"] for each in self.workload(job)["spec"]["podSets"])

    def used(self, queue: str = "team") -> int:
        """Return how many cpus of a ClusterQueue are used, by what the objects say."""
        assert self.audit is not None
        return sum(count for share, count in self.audit.usage().items() if share.queue == queue)

    def condition(self, kind: str, job: str = "job") -> Body | None:
        conditions = self.workload(job).get("status", {}).get("conditions", [])
        return next((each for each in conditions if each["type"] == kind), None)

    def holds(self, kind: str, job: str = "job") -> bool:
        found = self.condition(kind, job)
        return found is not None and found["status"] == "True"

    def pods(self, job: str = "job") -> list[Body]:
        return [each for each in self.all(kinds.PODS) if _owner(each) in {("Job", job), (self.kind, job)}]

    def running(self, job: str = "job") -> int:
        """Return how many pods of a Job have a node and are not being deleted."""
        return sum(_runs(each) for each in self.pods(job))

    def gated(self, job: str = "job") -> int:
        """Return how many pods of a Job wait for quota."""
        return sum(keys.ADMISSION_GATE in _gates(each) for each in self.pods(job))

    def events(self, name: str) -> dict[str, list[Body]]:
        """Return the events about an object, by reason."""
        found: dict[str, list[Body]] = {}
        for event in self.all(kinds.EVENTS):
            if event["involvedObject"]["name"] == name:
                found.setdefault(event["reason"], []).append(event)
        return found

    def all(self, resource: kinds.ResourceType) -> list[Body]:
        return [entry.object for entry in self.cluster.server.store.collection(resource).entries.values()]

    # How it works

    def _run(self, pod: Body) -> Run:
        owner = _owner(pod)
        if owner is not None and owner[1] in self.never_ready:
            return Run(start_seconds=1e9)
        if kubelet.RUN_FOR in (pod["metadata"].get("annotations") or {}):
            return kubelet.as_annotated(pod)
        return Run(start_seconds=1.0, run_seconds=self.job_seconds, stop_seconds=self.stop_seconds)

    def _count(self, change: Change) -> None:
        del change
        running_now = sum(_runs(each) for each in self.all(kinds.PODS))
        self.most_running[NAMESPACE] = max(self.most_running[NAMESPACE], running_now)

    def _see_suspension(self, change: Change) -> None:
        before, after = (each.object["spec"]["suspend"] if each else None for each in (change.before, change.after))
        self.suspended[change.key.name] += before is False and after is True

    def _get(self, resource: kinds.ResourceType, name: str) -> Body:
        entry = self.cluster.server.store.find(resource, Key(NAMESPACE if resource.namespaced else "", name))
        assert entry is not None, f"{resource.kind} {name} is not there"
        return entry.object

    def _send(self, method: str, path: str, body: Body | None = None) -> None:
        encoded = None if body is None else msgspec.json.encode(body)
        content_type = port.MERGE_PATCH if method == "PATCH" else port.JSON
        request = port.Request(method=method, path=path, body=encoded, content_type=content_type)
        port.required(self.cluster.server.handle(request, "admin"))


@contextlib.asynccontextmanager
async def runtime(
    world: World,
    *,
    pod: str = "a",
    elastic: bool = True,
    timeout_minutes: float = 30.0,
    wrap: running.Wrap | None = None,
) -> AsyncGenerator[process.Process, None]:
    """Run a replica that handles admission; at the end it stops, and quota must have been kept at every moment."""
    options = replace(running.NOTHING_OUTSIDE, elastic_jobs=elastic, pods_ready_timeout_seconds=timeout_minutes * 60.0)
    registration = process.Registration(
        lease=names.CLUSTER_LEASE,
        lease_namespace=controllers.KUBE_SYSTEM,
        build=lambda context: admission.build(context, options),
    )
    async with running.replica(
        world.cluster, {"admission": registration}, pod=pod, wrap=wrap, user=RUNTIME.user
    ) as made:
        yield made
    if world.audit is not None:
        world.audit.check()


def cycles(replica: process.Process) -> int:
    """Return how often a replica has looked at what is to be done."""
    found = re.search(rb"sluice_admission_cycle_seconds_count (\d+)", replica.metrics.render())
    assert found is not None
    return int(found[1])


def quota(cpu: Mapping[str, int], borrowing_limit: int | None = None, memory: str | None = None) -> list[Body]:
    """Write the resource groups of a ClusterQueue: so many cpus by flavor, in this order, and memory where given."""
    more = {} if borrowing_limit is None else {"borrowingLimit": borrowing_limit}
    others = [] if memory is None else [{"name": "memory", "nominalQuota": memory}]
    flavors = [
        {"name": name, "resources": [{"name": "cpu", "nominalQuota": amount, **more}, *others]}
        for name, amount in cpu.items()
    ]
    return [{"coveredResources": ["cpu", *(each["name"] for each in others)], "flavors": flavors}]


def _node(name: str) -> Body:
    room = {"cpu": "100000", "memory": "100000Gi", "pods": "100000"}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {"metadata": metadata, "status": {"capacity": room, "allocatable": room}}


def _owner(stored: Body) -> tuple[str, str] | None:
    owners = stored["metadata"].get("ownerReferences") or ()
    return next(((each["kind"], each["name"]) for each in owners if each.get("controller")), None)


def _gates(pod: Body) -> set[str]:
    return {each["name"] for each in pod["spec"].get("schedulingGates") or ()}


def _runs(pod: Body) -> bool:
    is_over = pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}
    return bool(pod["spec"].get("nodeName")) and not is_over and "deletionTimestamp" not in pod["metadata"]
