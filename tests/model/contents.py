"""What objects of the toy cluster say: each different content once, under a number, with the facts that are read of it.

Two things are left out, so that states that differ in nothing else are one. Words: reasons, messages and conditions
that only tell something. And resourceVersions: a state says of each object whether the runtime has seen its current
version, which is all that a precondition asks; so versions need no numbers, and the graph is finite.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from autoscaler import clock
from autoscaler.admission.jobs.batch_job import BatchJob
from autoscaler.admission.workloads import workload as workloads
from autoscaler.api import keys, version
from autoscaler.api.manifests import Manifest
from autoscaler.kube import objects
from autoscaler.simulation.cluster import merging

GONE: Final = 0
"""The number that stands for no object."""
NAMESPACE: Final = "team"
POD_SET: Final = "main"
NODE: Final = "node-1"
NOW: Final = 1_767_225_600.0
VERSION: Final = "7"
_KEPT_CONDITIONS: Final = frozenset({"Admitted", "PodsReady", "Evicted", "Finished"})
_ENCODER: Final = msgspec.json.Encoder(order="sorted")
_DELETED: Final = _ENCODER.encode({"metadata": {"deletionTimestamp": clock.to_rfc3339(NOW)}})


class Cell(NamedTuple):
    """One quota: of a ClusterQueue, in a flavor."""

    queue: str
    flavor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """What a Job says."""

    uid: str
    name: str
    size: int
    """As many pods as its controller wants."""
    suspended: bool
    leaving: bool
    finished: bool
    completions: int | None
    succeeded: int
    priority_class: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFacts:
    """What a Workload or slice says."""

    uid: str
    name: str
    job: str
    owner: str | None
    """The UID of the job or Workload that it belongs to; None: it was orphaned."""
    is_slice: bool
    spec: int
    door: str
    """The LocalQueue in which it waits."""
    granted: int | None
    cell: Cell | None
    """What it was granted from."""
    claim: int | None
    claimed: Cell | None
    """What it has a claim on."""
    first: int | None
    evicted: bool
    finished: bool
    leaving: bool
    active: bool
    priority: int
    folded: frozenset[str]
    recorded: frozenset[str]
    withdrawn: frozenset[str]
    resting: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """What a pod says."""

    uid: str
    owner: str | None
    """The UID of its job; None: it was orphaned."""
    stamped: str | None
    """The UID of the job for which its gate was opened."""
    cell: Cell | None
    """What it was opened under."""
    gated: bool
    leaving: bool
    ready: bool
    ended: bool

    @property
    def is_open(self) -> bool:
        return not self.gated and not self.ended


Facts = JobFacts | WorkloadFacts | PodFacts


class Content:
    """One content of one object."""

    __slots__ = ("decoded", "facts", "job", "manifest", "mentions", "number")

    def __init__(self, number: int, manifest: Manifest, raw: bytes) -> None:
        self.number = number
        self.manifest = manifest
        self.facts = _facts(manifest)
        self.decoded = _decode(manifest, raw)
        self.job = _job_of(self.facts)
        self.mentions = frozenset(_mentions(manifest))


class Contents:
    """All contents that were met so far."""

    def __init__(self) -> None:
        self._all: list[Content | None] = [None]
        self._numbers: dict[bytes, int] = {}
        self._changed: dict[tuple[int, bytes], int] = {}

    def __getitem__(self, number: int) -> Content:
        found = self._all[number]
        assert found is not None
        return found

    def facts(self, number: int) -> Any:
        return self[number].facts

    def add(self, manifest: Manifest) -> int:
        """Return the number of a content."""
        normal = _normal(manifest)
        raw = _ENCODER.encode(normal)
        number = self._numbers.get(raw)
        if number is None:
            number = self._numbers[raw] = len(self._all)
            self._all.append(Content(number, normal, raw))
        return number

    def changed(self, number: int, patch: Mapping[str, Any] | bytes) -> int:
        """Return what becomes of a content by a merge patch; GONE where the last finalizer was taken."""
        raw = patch if isinstance(patch, bytes) else _ENCODER.encode(patch)
        found = self._changed.get((number, raw))
        if found is None:
            manifest = merging.merge(self[number].manifest, msgspec.json.decode(raw))
            metadata = manifest["metadata"]
            let_go = metadata.get("deletionTimestamp") and not metadata.get("finalizers")
            found = self._changed[number, raw] = GONE if let_go else self.add(manifest)
        return found

    def deleted(self, number: int) -> int:
        """Return what becomes of a content when its deletion is asked for."""
        metadata = self[number].manifest["metadata"]
        if not metadata.get("finalizers"):
            return GONE
        return self.changed(number, _DELETED)


def job(  # each scenario sets what matters
    name: str,
    uid: str,
    *,
    parallelism: int,
    completions: int | None = None,
    priority_class: str = "",
    queue: str = "door",
) -> Manifest:
    """Make a Job as it is stored: the policies have suspended it and gated its template."""
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    spec = {
        "parallelism": parallelism,
        "suspend": True,
        "template": {"spec": {"containers": [container], "priorityClassName": priority_class}},
    }
    if completions is not None:
        spec["completions"] = completions
    metadata = {"labels": {keys.QUEUE_NAME: queue}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": _metadata(name, uid, metadata), "spec": spec}


def pod(uid: str, of: JobFacts) -> Manifest:
    """Make a pod as the Job controller does; its node is known from the start, which spares a step."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": of.name, "uid": of.uid, "controller": True}
    metadata = {"ownerReferences": [owner], "finalizers": ["batch.kubernetes.io/job-tracking"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(uid.replace(".", "-"), uid, metadata),
        "spec": {
            "nodeName": NODE,
            "schedulingGates": [{"name": keys.ADMISSION_GATE}],
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
        },
        "status": {"phase": "Pending"},
    }


def _metadata(name: str, uid: str, more: Mapping[str, Any]) -> Manifest:
    return {"name": name, "namespace": NAMESPACE, "uid": uid, **more}


def _normal(manifest: Manifest) -> Manifest:
    """Leave out what only tells something, and give every object the same version and age."""
    same = {"resourceVersion": VERSION, "creationTimestamp": clock.to_rfc3339(NOW - 100)}
    normal = {**manifest, "metadata": manifest["metadata"] | same}
    notes = normal["metadata"].get("annotations", {})
    if keys.FENCED in notes:
        normal["metadata"]["annotations"] = {key: notes[key] for key in notes if key != keys.FENCED}
    status = dict(normal.get("status", {}))
    if "conditions" in status and normal["kind"] == "Workload":
        told = [each for each in status["conditions"] if each["status"] == "True" and each["type"] in _KEPT_CONDITIONS]
        bare = [{key: each[key] for key in ("type", "status", "lastTransitionTime")} for each in told]
        status["conditions"] = sorted(bare, key=lambda each: each["type"])
    if status:
        normal["status"] = {key: value for key, value in status.items() if value not in ([], {}, None)}
    return normal


def _decode(manifest: Manifest, raw: bytes) -> Any:
    match manifest["kind"]:
        case "Job":
            return BatchJob().decode(raw)
        case "Workload":
            return workloads.decode(raw)
        case _:
            return objects.pod(raw)


def _facts(manifest: Manifest) -> Facts:
    match manifest["kind"]:
        case "Job":
            return _job_facts(manifest)
        case "Workload":
            return _workload_facts(manifest)
        case _:
            return _pod_facts(manifest)


def _job_facts(manifest: Manifest) -> JobFacts:
    spec, status, metadata = manifest["spec"], manifest.get("status", {}), manifest["metadata"]
    completions, succeeded = spec.get("completions"), status.get("succeeded", 0)
    left = spec["parallelism"] if completions is None else min(spec["parallelism"], completions - succeeded)
    return JobFacts(
        uid=metadata["uid"],
        name=metadata["name"],
        size=max(0, left),
        suspended=spec["suspend"],
        leaving="deletionTimestamp" in metadata,
        finished=any(each["type"] == "Complete" for each in status.get("conditions", ())),
        completions=completions,
        succeeded=succeeded,
        priority_class=spec["template"]["spec"]["priorityClassName"],
    )


def _workload_facts(manifest: Manifest) -> WorkloadFacts:
    metadata, spec, status = manifest["metadata"], manifest["spec"], manifest.get("status", {})
    owner = next(iter(metadata.get("ownerReferences", ())), None)
    told = {each["type"] for each in status.get("conditions", ())}
    return WorkloadFacts(
        uid=metadata["uid"],
        name=metadata["name"],
        job=metadata["labels"][keys.JOB_UID],
        owner=owner["uid"] if owner else None,
        is_slice=owner is not None and owner["kind"] == "Workload" and owner["apiVersion"] == version.GROUP_VERSION,
        spec=sum(each["count"] for each in spec["podSets"]),
        door=spec["queueName"],
        granted=_count(status.get("admission")),
        cell=_cell(status.get("admission")),
        claim=_count(status.get("claim")),
        claimed=_cell(status.get("claim")),
        first=sum(each["count"] for each in status["firstAdmitted"]) if "firstAdmitted" in status else None,
        evicted="Evicted" in told,
        finished="Finished" in told,
        leaving="deletionTimestamp" in metadata,
        active=spec.get("active", True),
        priority=spec.get("priority", 0),
        folded=frozenset(status.get("foldedSlices", ())),
        recorded=_uids(status.get("opened", ())),
        withdrawn=_uids(status.get("withdrawn", ())),
        resting="requeue" in status,
    )


def _pod_facts(manifest: Manifest) -> PodFacts:
    metadata, status = manifest["metadata"], manifest["status"]
    notes = metadata.get("annotations", {})
    owner = next(iter(metadata.get("ownerReferences", ())), None)
    return PodFacts(
        uid=metadata["uid"],
        owner=owner["uid"] if owner else None,
        stamped=notes.get(keys.JOB_UID),
        cell=Cell(notes[keys.CLUSTER_QUEUE], notes[keys.FLAVORS].removeprefix("cpu="))
        if keys.FLAVORS in notes
        else None,
        gated=bool(manifest["spec"].get("schedulingGates")),
        leaving="deletionTimestamp" in metadata,
        ready=status["phase"] == "Running",
        ended=status["phase"] in {"Succeeded", "Failed"},
    )


def _count(admission: Manifest | None) -> int | None:
    return sum(each["count"] for each in admission["podSetAssignments"]) if admission is not None else None


def _cell(admission: Manifest | None) -> Cell | None:
    if admission is None or not admission["podSetAssignments"]:
        return None
    return Cell(admission["clusterQueue"], admission["podSetAssignments"][0]["flavors"]["cpu"])


def _uids(by_pod_set: Any) -> frozenset[str]:
    return frozenset(uid for each in by_pod_set for uid in each["uids"])


def _job_of(facts: Facts) -> str | None:
    match facts:
        case JobFacts():
            return facts.uid
        case WorkloadFacts():
            return facts.job
        case PodFacts():
            return facts.owner or facts.stamped


def _mentions(manifest: Manifest) -> set[str]:
    """Return all UIDs that stand in a content: none of them may be given to another object."""
    metadata, status = manifest["metadata"], manifest.get("status", {})
    noted = {
        each[keys.JOB_UID]
        for each in (metadata.get("labels", {}), metadata.get("annotations", {}))
        if keys.JOB_UID in each
    }
    own = {metadata["uid"], *(each["uid"] for each in metadata.get("ownerReferences", ())), *noted}
    if manifest["kind"] != "Workload":
        return own
    recorded = [*status.get("opened", ()), *status.get("withdrawn", ())]
    return own | set(status.get("foldedSlices", ())) | {uid for each in recorded for uid in each["uids"]}
