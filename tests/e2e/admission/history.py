"""What happened to queued jobs, as the API server told it: events in order, and the objects as they were after each.

Plain JSON. Nothing here is shared with autoscaler/admission, whose work is judged by it.
"""

import collections
import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from autoscaler.api import keys

Object = Mapping[str, Any]
MAIN, HEAD = "main", "head"
_SUFFIXES = {
    **{suffix: 1000 * 1024**power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
    **{suffix: 1000 * 1000**power for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    "m": 1,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One change of one object, as a watch told it."""

    type: str
    object: Object

    @property
    def version(self) -> int:
        """The resourceVersion of the change: one counter for all kinds, as they are all in one etcd."""
        return version_of(self.object)

    @property
    def kind(self) -> str:
        kind: str = self.object["kind"]
        return kind

    def __str__(self) -> str:
        metadata = self.object["metadata"]
        name = "/".join(each for each in (metadata.get("namespace"), metadata["name"]) if each)
        return f"{self.type} {self.kind} {name} at {self.version}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What was there, and what happened then."""

    initial: tuple[Object, ...] = ()
    events: tuple[Event, ...] = ()

    def in_order(self) -> list[Event]:
        """Put the events of several watches into the order in which they happened."""
        return sorted(self.events, key=lambda event: event.version)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class QueueSpec:
    """A ClusterQueue as it was from a version on."""

    since: int
    generation: int
    spec: Object


class Pods:
    """The pods of jobs, by the job's UID and the pod set."""

    def __init__(self) -> None:
        self.all: dict[str, Object] = {}
        self._open: dict[tuple[str, str], set[str]] = collections.defaultdict(set)
        self._sets: dict[str, set[str]] = collections.defaultdict(set)

    def put(self, uid: str, pod: Object | None) -> None:
        """Replace a pod by what it is now; None: it is gone."""
        old = self.all.pop(uid, None)
        if old is not None:
            self._open[job_of(old), pod_set_of(old)].discard(uid)
        if pod is not None:
            self.all[uid] = pod
            if is_open(pod):
                self._open[job_of(pod), pod_set_of(pod)].add(uid)
                self._sets[job_of(pod)].add(pod_set_of(pod))

    def sets_of(self, job: str) -> set[str]:
        """Return the pod sets of a job that ever had an open pod."""
        return self._sets.get(job, set())

    def open_of(self, job: str, pod_set: str) -> set[str]:
        """Return the pods that may run, also while they are being deleted."""
        return self._open.get((job, pod_set), set())

    def staying(self, uids: Iterable[str]) -> set[str]:
        """Return those that are there, have not ended and are not being deleted."""
        return {uid for uid in uids if uid in self.all and is_live(self.all[uid]) and not is_leaving(self.all[uid])}


class State:
    """All objects as they were after an event."""

    def __init__(self) -> None:
        self.workloads: dict[str, Object] = {}
        self.jobs: dict[str, Object] = {}
        self.queues: dict[str, list[QueueSpec]] = {}
        """Every spec that a ClusterQueue ever had, by name; the last one is in force."""
        self.gone_queues: set[str] = set()
        self.pods = Pods()
        self.slices: dict[str, Object] = {}
        """Every slice that ever was, as it was last seen."""
        self._of_job: dict[str, str] = {}

    def apply(self, event: Event) -> Object | None:
        """Take an event in; return the object as it was before."""
        uid = uid_of(event.object)
        new = None if event.type == "DELETED" else event.object
        match event.kind:
            case "Workload":
                return self._workload(uid, event.object, new)
            case "Pod":
                old = self.pods.all.get(uid)
                self.pods.put(uid, new)
                return old
            case "ClusterQueue":
                self._queue(event.object, is_gone=new is None)
                return None
            case _:
                return _replaced(self.jobs, uid, new)

    def workload_of(self, job: str) -> Object | None:
        """Return the Workload that stands for a job."""
        return self.workloads.get(self._of_job.get(job, ""))

    def slices_of(self, parent: str) -> Iterator[Object]:
        """Return the slices of a Workload that are there."""
        return (each for each in self.workloads.values() if parent_of(each) == parent)

    def dump(self) -> str:
        """Write down everything there is."""
        shown = {
            "workloads": [_bare(each) for each in self.workloads.values()],
            "pods": [_bare(each) for each in self.pods.all.values()],
            "jobs": [_bare(each) for each in self.jobs.values()],
            "clusterQueues": {name: specs[-1].spec for name, specs in self.queues.items()},
        }
        return json.dumps(shown, indent=1)

    def _workload(self, uid: str, seen: Object, new: Object | None) -> Object | None:
        if parent_of(seen) is not None:
            self.slices[uid] = seen
        else:
            job = label(seen, keys.JOB_UID)
            if new is not None:
                self._of_job[job] = uid
            elif self._of_job.get(job) == uid:
                del self._of_job[job]
        return _replaced(self.workloads, uid, new)

    def _queue(self, queue: Object, *, is_gone: bool) -> None:
        name = queue["metadata"]["name"]
        known = self.queues.setdefault(name, [])
        (self.gone_queues.add if is_gone else self.gone_queues.discard)(name)
        generation = queue["metadata"]["generation"]
        if not known or known[-1].generation != generation:
            known.append(QueueSpec(since=version_of(queue), generation=generation, spec=queue["spec"]))


def _bare(item: Object) -> Object:
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    return {**item, "metadata": metadata}


def _replaced(objects: dict[str, Object], uid: str, new: Object | None) -> Object | None:
    old = objects.pop(uid, None)
    if new is not None:
        objects[uid] = new
    return old


# Reading plain JSON


def uid_of(item: Object) -> str:
    uid: str = item["metadata"]["uid"]
    return uid


def version_of(item: Object) -> int:
    return int(item["metadata"]["resourceVersion"])


def label(item: Object, key: str) -> str:
    value: str = item["metadata"].get("labels", {}).get(key, "")
    return value


def annotation(item: Object, key: str) -> str:
    value: str = item["metadata"].get("annotations", {}).get(key, "")
    return value


def controller_of(item: Object) -> Object:
    """Return the reference to the controller of an object; empty if it has none."""
    owners: list[Object] = item["metadata"].get("ownerReferences", [])
    return next((owner for owner in owners if owner.get("controller")), {})


def parent_of(workload: Object) -> str | None:
    """Return the UID of the Workload that this one is a slice of."""
    owner = controller_of(workload)
    return owner["uid"] if owner.get("kind") == "Workload" else None


def job_of(pod: Object) -> str:
    """Return the UID of the job that a pod belongs to: as it was stamped when it was opened, or as its owner is."""
    uid: str = annotation(pod, keys.JOB_UID) or controller_of(pod).get("uid", "")
    return uid


def pod_set_of(pod: Object) -> str:
    """Tell which pod set a pod counts for."""
    if controller_of(pod).get("kind") != "RayCluster":
        return annotation(pod, keys.POD_SET) or MAIN
    return HEAD if label(pod, "ray.io/node-type") == HEAD else label(pod, "ray.io/group")


def is_live(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") not in {"Succeeded", "Failed"}


def is_open(pod: Object) -> bool:
    """Tell whether a pod may run: it lives and does not carry our gate."""
    gates = {gate["name"] for gate in pod["spec"].get("schedulingGates", ())}
    return is_live(pod) and keys.ADMISSION_GATE not in gates


def is_leaving(item: Object) -> bool:
    return "deletionTimestamp" in item["metadata"]


def amount(written: str | float) -> int:
    """Read a quantity, in thousandths, rounded up."""
    text = str(written)
    digits = text.rstrip("".join({letter for suffix in _SUFFIXES for letter in suffix}))
    scale = _SUFFIXES.get(text[len(digits) :], 1000)
    return -int(-float(digits) * scale // 1)
