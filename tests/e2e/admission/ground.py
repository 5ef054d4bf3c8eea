"""A namespace with queues and queued jobs on a plane with the real Job controller and KubeRay's operator.

Make quota and jobs, change them as people do, and read what came of it. The runtime is a process of its own; without
one, jobs wait as the policies left them.
"""

import dataclasses
import itertools
import secrets
from collections.abc import Mapping
from typing import Any

from autoscaler.api import keys, policies, version
from tests.e2e import rays, waiting
from tests.e2e.admission.history import Event
from tests.e2e.admission.recorder import Recorder
from tools.local import api
from tools.local.api import Api
from tools.local.plane import Plane

Object = dict[str, Any]
RUNTIME_NAMESPACE, RUNTIME_ACCOUNT = "sluice-system", "runtime"
RUNTIME = policies.Runtime(namespace=RUNTIME_NAMESPACE, service_account=RUNTIME_ACCOUNT)
CUSTOM = f"/apis/{version.GROUP_VERSION}"
NODE_LABEL = "example.com/kind"
"""On the nodes; its value is the flavor that they are for."""
FLAVOR = "usual"
"""The flavor of the nodes that are always there."""
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
RUN_FOR = "local.sluice.dev/run-for"
HOLD = "example.com/hold"
"""A finalizer that keeps a pod terminating."""
HOUR = "1h"


@dataclasses.dataclass(kw_only=True)
class Ground:
    """One namespace, with queues of its own."""

    plane: Plane
    runtime: Api
    """A connection as the runtime, which alone may write Workloads."""
    namespace: str
    recording: Recorder | None = None
    """All that has happened since the test began; None: nobody writes it down."""
    _made: list[str] = dataclasses.field(default_factory=list)

    @property
    def api(self) -> Api:
        return self.plane.api

    # Where things are

    def path(self, kind: str, name: str = "") -> str:
        """Return where a kind of this namespace is served: jobs, rayclusters, pods, workloads or localqueues."""
        under = f"/{name}" if name else ""
        place = {"jobs": "/apis/batch/v1", "rayclusters": rays.API, "pods": "/api/v1", "events": "/api/v1"}
        return f"{place.get(kind, CUSTOM)}/namespaces/{self.namespace}/{kind}{under}"

    # Quota

    def add_flavor(self, name: str, **spec: Any) -> str:
        """Make a flavor, for nodes that carry its name."""
        self._make("ResourceFlavor", f"{CUSTOM}/resourceflavors", name, {"nodeLabels": {NODE_LABEL: name}, **spec})
        return name

    def add_queue(self, cpu: str, name: str = "", *, flavors: Mapping[str, str] | None = None, **spec: Any) -> str:
        """Make a ClusterQueue with so much cpu, of the usual flavor or by flavor, and a LocalQueue of its name.

        There is memory for everybody: KubeRay gives all workers a container that asks for some.
        """
        chosen = name or f"{self.namespace}-{secrets.token_hex(2)}"
        groups = _groups(flavors or {FLAVOR: cpu})
        self._make("ClusterQueue", f"{CUSTOM}/clusterqueues", chosen, {"resourceGroups": groups, **spec})
        self._make("LocalQueue", self.path("localqueues"), chosen, {"clusterQueue": chosen})
        return chosen

    def set_quota(self, queue: str, cpu: str, *, flavors: Mapping[str, str] | None = None) -> None:
        """Change how much cpu a ClusterQueue has, of the usual flavor or by flavor."""
        groups = _groups(flavors or {FLAVOR: cpu})
        self.api.merge(f"{CUSTOM}/clusterqueues/{queue}", {"spec": {"resourceGroups": groups}})

    def add_priority(self, value: int) -> str:
        """Make a PriorityClass; return its name."""
        name = f"{self.namespace}-{value}"
        self.api.create(PRIORITIES, {"metadata": {"name": name}, "value": value})
        self._made.append(f"{PRIORITIES}/{name}")
        return name

    # Jobs

    def make_job(  # a test sets what matters to it
        self,
        name: str,
        queue: str | None,
        *,
        pods: int = 1,
        cpu: str = "1",
        run_for: str = HOUR,
        priority: str | None = None,
        **spec: Any,
    ) -> Object:
        """Create a Job of so many pods at once, each of which runs for so long."""
        container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
        chosen = {"priorityClassName": priority} if priority is not None else {}
        template = {
            "metadata": {"annotations": {RUN_FOR: run_for}},
            "spec": {"restartPolicy": "Never", "containers": [container], **chosen},
        }
        counts = {"parallelism": pods, "completions": pods}
        return self._made_job("jobs", name, queue, {**counts, "template": template, **spec})

    def make_ray(self, name: str, queue: str | None, *groups: Object, cpu: str = "1", **spec: Any) -> Object:
        """Create a RayCluster: a head, and worker groups as `rays.group` writes them."""
        return self._made_job("rayclusters", name, queue, rays.cluster(name, *groups, cpu=cpu, **spec)["spec"])

    def change(self, kind: str, name: str, **spec: Any) -> None:
        """Change the spec of a job, as a person does."""
        self.api.merge(self.path(kind, name), {"spec": spec})

    def change_workload(self, job: Object, **spec: Any) -> None:
        """Change the spec of a job's Workload, as an editor does."""
        self.api.merge(self.path("workloads", name_of(self.workload(job))), {"spec": spec})

    # What happens to pods

    def delete_pod(self, pod: Object) -> None:
        self.api.delete(self.path("pods", name_of(pod)))

    def hold(self, pod: Object, *, is_held: bool = True) -> None:
        """Keep a pod from going once it is deleted, or let it go."""
        there = self.get("pods", name_of(pod))["metadata"].get("finalizers", [])
        finalizers = [*there, HOLD] if is_held else [each for each in there if each != HOLD]
        self.api.merge(self.path("pods", name_of(pod)), {"metadata": {"finalizers": finalizers}})

    def end(self, pod: Object, phase: str = "Succeeded") -> None:
        """Let a pod end."""
        self.api.merge(f"{self.path('pods', name_of(pod))}/status", {"status": {"phase": phase}})

    # What came of it

    def get(self, kind: str, name: str) -> Object:
        found: Object = self.api.get(self.path(kind, name))
        return found

    def workloads(self) -> list[Object]:
        """Return the Workloads of all jobs, slices included."""
        return list(self.api.get(self.path("workloads"))["items"])

    def workload(self, job: Object) -> Object:
        """Return the Workload that stands for a job."""
        mine = [each for each in self.workloads() if each["metadata"]["labels"].get(keys.JOB_UID) == uid_of(job)]
        whole = [each for each in mine if not _is_slice(each)]
        assert len(whole) == 1, f"one Workload wanted, there are {[name_of(each) for each in whole]}"
        return whole[0]

    def slices(self, job: Object) -> list[Object]:
        """Return the slices of a job's Workload."""
        mine = [each for each in self.workloads() if each["metadata"]["labels"].get(keys.JOB_UID) == uid_of(job)]
        return [each for each in mine if _is_slice(each)]

    def granted(self, job: Object) -> dict[str, int]:
        """Return how many pods are granted to a job, by pod set."""
        admission = self.workload(job).get("status", {}).get("admission") or {"podSetAssignments": []}
        return {each["name"]: each["count"] for each in admission["podSetAssignments"]}

    def pods(self, job: Object) -> list[Object]:
        """Return the pods of a job, those that have ended or leave included."""
        listed = self.api.get(self.path("pods"))["items"]
        return [pod for pod in listed if uid_of(job) in {owner["uid"] for owner in _owners(pod)}]

    def open_pods(self, job: Object) -> list[Object]:
        """Return the pods of a job that may run: they carry no gate of admission, have not ended and do not leave."""
        return [pod for pod in self.pods(job) if is_open(pod)]

    def usage(self, queue: str) -> dict[str, str]:
        """Return the cpu used of a ClusterQueue, by flavor, as its status says."""
        status = self.api.get(f"{CUSTOM}/clusterqueues/{queue}").get("status", {})
        return {
            flavor["name"]: each["total"]
            for flavor in status.get("usage", ())
            for each in flavor["resources"]
            if each["name"] == "cpu"
        }

    def events(self, kind: str, name: str) -> list[tuple[str, str]]:
        """Return reason and message of what was told about an object."""
        query = {"fieldSelector": f"involvedObject.kind={kind},involvedObject.name={name}"}
        return [(each["reason"], each["message"]) for each in self.api.get(self.path("events"), query)["items"]]

    def seen(self) -> list[Event]:
        """Return all that has happened, as far as it has arrived."""
        assert self.recording is not None
        return self.recording.seen()

    def suspensions(self, job: Object) -> list[bool]:
        """Return whether a job was suspended, from the test's beginning on, each time that this changed."""
        assert self.recording is not None
        seen = [event.object for event in self.recording.history().in_order() if uid_of(event.object) == uid_of(job)]
        return [value for value, _ in itertools.groupby(bool(each["spec"].get("suspend")) for each in seen)]

    # Waiting

    def await_handled(self) -> None:
        """Wait until the runtime has dealt with all that was changed: a job that comes later has its quota."""
        name = f"probe-{secrets.token_hex(3)}"
        probe = self.make_job(name, self.add_queue("1"))
        self.wait_for_grant(probe, main=1)

    def wait_for_usage(self, queue: str, **want: str) -> None:
        """Wait until the status of a ClusterQueue says that so much cpu is used, by flavor."""

        def used() -> bool:
            have = self.usage(queue)
            assert have == want, f"{want} wanted, {have} is used"
            return True

        waiting.eventually(used, within_seconds=30)

    def wait_for_event(self, kind: str, job: Object, reason: str, text: str = "") -> None:
        """Wait until a job was told something, with these words in it."""

        def told() -> bool:
            found = self.events(kind, name_of(job))
            assert any(each == reason and text in message for each, message in found), f"{reason} wanted: {found}"
            return True

        waiting.eventually(told, within_seconds=30)

    def wait_for_condition(self, job: Object, kind: str, **want: str) -> Object:
        """Wait until a job's Workload has a condition with these values."""

        def told() -> Object:
            conditions = self.workload(job).get("status", {}).get("conditions", ())
            found: Object = next((each for each in conditions if each["type"] == kind), {})
            assert found | want == found, f"{want} wanted, {kind} is {found}"
            return found

        return waiting.eventually(told, within_seconds=30)

    def wait_for_grant(self, job: Object, **want: int) -> None:
        """Wait until exactly so many pods of each pod set are granted."""

        def granted() -> bool:
            have = self.granted(job)
            assert have == want, f"{want} wanted, {have} is granted"
            return True

        waiting.eventually(granted, within_seconds=30)

    def wait_for_running(self, job: Object, count: int) -> list[Object]:
        """Wait until exactly so many pods of a job are open, and all of them run."""

        def running() -> bool:
            pods = self.open_pods(job)
            phases = [pod["status"]["phase"] for pod in pods]
            assert phases == ["Running"] * count, f"{count} running pods wanted, there are {phases}"
            return True

        waiting.eventually(running, within_seconds=30)
        return self.open_pods(job)

    # The end

    def clear(self) -> None:
        """Remove all jobs and quota; what nobody lets go is freed as the runtime would."""
        for kind in ("rayclusters", "jobs", "pods", "workloads", "localqueues"):
            for item in self.api.get(self.path(kind))["items"]:
                self._remove(self.path(kind, name_of(item)))
        for path in reversed(self._made):
            self._remove(path)
        waiting.eventually(lambda: not self.api.get(self.path("pods"))["items"] and not self.workloads())

    def _remove(self, path: str) -> None:
        try:
            self.runtime.request("DELETE", path, {"propagationPolicy": "Background", "gracePeriodSeconds": 0})
            self.runtime.merge(path, {"metadata": {"finalizers": None}})
        except api.RefusedError:  # it is gone
            return

    def _make(self, kind: str, path: str, name: str, spec: Object) -> None:
        type_of = {"apiVersion": version.GROUP_VERSION, "kind": kind}
        self.api.create(path, {**type_of, "metadata": {"name": name}, "spec": spec})
        self._made.append(f"{path}/{name}")

    def _made_job(self, kind: str, name: str, queue: str | None, spec: Object) -> Object:
        labels = {keys.QUEUE_NAME: queue} if queue is not None else {}
        manifest = {**_TYPES[kind], "metadata": {"name": name, "labels": labels}, "spec": spec}
        made: Object = self.api.create(self.path(kind), manifest)
        return made


_TYPES: dict[str, Object] = {
    "jobs": {"apiVersion": "batch/v1", "kind": "Job"},
    "rayclusters": {"apiVersion": "ray.io/v1", "kind": "RayCluster"},
}


def _groups(cpu_by_flavor: Mapping[str, str]) -> list[Object]:
    """Write quota: so much cpu of each flavor, and memory for everybody."""
    flavors = [
        {"name": name, "resources": [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": "1Ti"}]}
        for name, cpu in cpu_by_flavor.items()
    ]
    return [{"coveredResources": ["cpu", "memory"], "flavors": flavors}]


def name_of(item: Mapping[str, Any]) -> str:
    name: str = item["metadata"]["name"]
    return name


def uid_of(item: Mapping[str, Any]) -> str:
    uid: str = item["metadata"]["uid"]
    return uid


def gates_of(pod: Mapping[str, Any]) -> set[str]:
    return {gate["name"] for gate in pod["spec"].get("schedulingGates", ())}


def is_open(pod: Mapping[str, Any]) -> bool:
    """Tell whether a pod may run and is there to stay."""
    has_ended = pod["status"].get("phase") in {"Succeeded", "Failed"}
    return not has_ended and "deletionTimestamp" not in pod["metadata"] and keys.ADMISSION_GATE not in gates_of(pod)


def _owners(item: Mapping[str, Any]) -> list[Object]:
    owners: list[Object] = item["metadata"].get("ownerReferences", [])
    return owners


def _is_slice(workload: Mapping[str, Any]) -> bool:
    return any(owner["kind"] == "Workload" for owner in _owners(workload))
