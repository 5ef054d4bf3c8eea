"""Workloads, queues and pods for tests, made from manifests by the real decoders. A test sets what matters to it."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from autoscaler import clock
from autoscaler.admission.quota.cache.configuration import Tables
from autoscaler.admission.workloads import workload as workloads
from autoscaler.admission.workloads.workload import Workload
from autoscaler.api import keys, version
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources import ClusterQueue, LocalQueue, ResourceFlavor
from autoscaler.kube import objects, store

NOW = 1_767_225_600.0
NAMESPACE = "team"
Flavors = Mapping[str, Mapping[str, Any]]
"""Quota by flavor and resource: a nominal quota, or a pair of it and a borrowing limit."""


def time(ago: float) -> str:
    return clock.to_rfc3339(NOW - ago)


def leaving(*, deleted: bool) -> Manifest:
    """Metadata of an object whose deletion was asked for."""
    return {"deletionTimestamp": time(1), "finalizers": [keys.FINALIZER]} if deleted else {}


def metadata(name: str, *, uid: str = "", age: float = 100, rv: int = 1, **more: Any) -> Manifest:
    """Metadata of an object of the test's namespace; its UID is `u-NAME`."""
    return {
        "name": name,
        "namespace": NAMESPACE,
        "uid": uid or f"u-{name}",
        "resourceVersion": str(rv),
        "generation": 1,
        "creationTimestamp": time(age),
        **more,
    }


def condition(kind: str, *, holds: bool = True, reason: str = "Because", since: float = 50) -> Manifest:
    return {
        "type": kind,
        "status": "True" if holds else "False",
        "reason": reason,
        "message": "",
        "lastTransitionTime": time(since),
    }


def pod_set(name: str = "main", count: int = 1, *, cpu: Any = 1, **more: Any) -> Manifest:
    """A pod set of pods that request so much cpu; `requests` replaces that."""
    return {"name": name, "count": count, "requests": {"cpu": cpu}, **more}


def admission(
    counts: Mapping[str, int], *, queue: str = "team", flavors: Mapping[str, str] | None = None, generation: int = 1
) -> Manifest:
    """What was granted, or is claimed: numbers of pods by pod set."""
    given = dict(flavors) if flavors is not None else {"cpu": "spot"}
    return {
        "clusterQueue": queue,
        "clusterQueueGeneration": generation,
        "podSetAssignments": [{"name": name, "count": count, "flavors": given} for name, count in counts.items()],
    }


def workload_manifest(  # noqa: PLR0913  # each test sets what matters
    name: str = "a",
    *,
    pod_sets: Sequence[Manifest] | None = None,
    count: int = 1,
    cpu: Any = 1,
    queue: str = "door",
    priority: int = 0,
    active: bool = True,
    uid: str = "",
    job_uid: str = "",
    granted: int | Mapping[str, int] | None = None,
    cluster_queue: str = "team",
    flavors: Mapping[str, str] | None = None,
    evicted: bool = False,
    finished: bool = False,
    conditions: Sequence[Manifest] = (),
    status: Mapping[str, Any] | None = None,
    deleted: bool = False,
    admitted_ago: float = 50,
    meta: Mapping[str, Any] | None = None,
    age: float = 100,
    rv: int = 1,
) -> Manifest:
    """The Workload of a job `u-job-NAME` with one pod set `main`; `granted` admits it."""
    sets = list(pod_sets) if pod_sets is not None else [pod_set(count=count, cpu=cpu)]
    told = list(conditions)
    written: Manifest = {}
    if granted is not None:
        counts = granted if isinstance(granted, Mapping) else {sets[0]["name"]: granted}
        written["admission"] = admission(counts, queue=cluster_queue, flavors=flavors)
        written["firstAdmitted"] = [{"name": each, "count": number} for each, number in counts.items()]
        told += [condition("QuotaReserved", since=admitted_ago), condition("Admitted", since=admitted_ago)]
    if evicted:
        told.append(condition("Evicted"))
    if finished:
        told.append(condition("Finished"))
    labels = {keys.JOB_UID: job_uid or f"u-job-{name}"}
    return {
        "apiVersion": version.GROUP_VERSION,
        "kind": "Workload",
        "metadata": metadata(name, uid=uid, age=age, rv=rv, labels=labels, **leaving(deleted=deleted), **(meta or {})),
        "spec": {"queueName": queue, "priority": priority, "active": active, "podSets": sets},
        "status": {**written, "conditions": told, **(status or {})},
    }


def slice_manifest(
    parent: str = "a",
    ordinal: int | str = 0,
    *,
    set_name: str = "main",
    parent_uid: str = "",
    count: int = 1,
    **more: Any,
) -> Manifest:
    """One slice of a Workload, named as slices are."""
    owner = {
        "apiVersion": version.GROUP_VERSION,
        "kind": "Workload",
        "name": parent,
        "uid": parent_uid or f"u-{parent}",
        "controller": True,
    }
    more.setdefault("pod_sets", [pod_set(set_name, count, cpu=more.pop("cpu", 1))])
    more.setdefault("job_uid", f"u-job-{parent}")
    more.setdefault("age", 10)
    return workload_manifest(f"{parent}-{set_name}-{ordinal}", meta={"ownerReferences": [owner]}, **more)


def workload(name: str = "a", **more: Any) -> Workload:
    """A Workload as decisions read it; see `workload_manifest`."""
    return decoded(workload_manifest(name, **more))


def slice_of(parent: str = "a", ordinal: int | str = 0, **more: Any) -> Workload:
    """A slice as decisions read it; see `slice_manifest`."""
    return decoded(slice_manifest(parent, ordinal, **more))


def decoded(manifest: Manifest) -> Workload:
    return workloads.decode(msgspec.json.encode(manifest))


def cluster_queue(  # noqa: PLR0913  # each test sets what matters
    name: str = "team",
    *,
    flavors: Flavors | None = None,
    groups: Sequence[Flavors] | None = None,
    cohort: str | None = None,
    strict: bool = False,
    within: str = "Never",
    reclaim: str = "Never",
    stop: str = "None",
    deleted: bool = False,
    generation: int = 1,
    rv: int = 1,
    **spec: Any,
) -> objects.Custom[ClusterQueue]:
    """A ClusterQueue with quota by flavor and resource: 10 cpu of flavor spot unless told otherwise."""
    every = groups if groups is not None else [flavors if flavors is not None else {"spot": {"cpu": 10}}]
    manifest = {
        "apiVersion": version.GROUP_VERSION,
        "kind": "ClusterQueue",
        "metadata": {**_wide(name, rv=rv, deleted=deleted), "generation": generation},
        "spec": {
            **({"cohort": cohort} if cohort else {}),
            "queueingStrategy": "StrictFIFO" if strict else "BestEffortFIFO",
            "preemption": {"withinClusterQueue": within, "reclaimWithinCohort": reclaim},
            "stopPolicy": stop,
            "resourceGroups": [_group(each) for each in every],
            **spec,
        },
    }
    return objects.custom(ClusterQueue)(msgspec.json.encode(manifest))


def local_queue(
    name: str = "door", *, queue: str = "team", deleted: bool = False, rv: int = 1
) -> objects.Custom[LocalQueue]:
    """A LocalQueue of the test's namespace."""
    manifest = {
        "apiVersion": version.GROUP_VERSION,
        "kind": "LocalQueue",
        "metadata": metadata(name, rv=rv, **leaving(deleted=deleted)),
        "spec": {"clusterQueue": queue},
    }
    return objects.custom(LocalQueue)(msgspec.json.encode(manifest))


def flavor(name: str = "spot", *, deleted: bool = False, rv: int = 1, **spec: Any) -> objects.Custom[ResourceFlavor]:
    """A ResourceFlavor; its spec as in the manifest."""
    manifest = {
        "apiVersion": version.GROUP_VERSION,
        "kind": "ResourceFlavor",
        "metadata": _wide(name, rv=rv, deleted=deleted),
        "spec": spec,
    }
    return objects.custom(ResourceFlavor)(msgspec.json.encode(manifest))


def namespace(name: str = NAMESPACE, *, rv: int = 1, **labels: str) -> objects.Simple:
    return objects.simple(msgspec.json.encode({"metadata": {**_wide(name, rv=rv), "labels": labels}}))


def pod(  # noqa: PLR0913  # each test sets what matters
    name: str = "p",
    *,
    job_uid: str = "u-job-a",
    queue: str = "team",
    flavors: str = "cpu=spot",
    cpu: Any = 1,
    gated: bool = False,
    phase: str = "Running",
    deleted: bool = False,
    owned: bool = True,
    owner_uid: str = "",
    rv: int = 1,
) -> objects.Pod:
    """A pod whose gate was opened, with what was stamped on it then; its job owns it unless told otherwise."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": owner_uid or job_uid, "controller": True}
    notes = {keys.JOB_UID: job_uid, keys.CLUSTER_QUEUE: queue, keys.FLAVORS: flavors}
    manifest = {
        "metadata": metadata(
            name,
            rv=rv,
            annotations=notes,
            ownerReferences=[owner] if owned else [],
            **leaving(deleted=deleted),
        ),
        "spec": {
            "schedulingGates": [{"name": keys.ADMISSION_GATE}] if gated else [],
            "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}],
        },
        "status": {"phase": phase},
    }
    return objects.pod(msgspec.json.encode(manifest))


def tables(*stored: Any) -> Tables:
    """Tables with these objects; a namespace is always there."""
    made = Tables(
        workloads=store.Table(),
        cluster_queues=store.Table(),
        local_queues=store.Table(),
        flavors=store.Table(),
        namespaces=store.Table(),
        pods=store.Table(),
    )
    made.namespaces.seen(namespace())
    for each in stored:
        table_of(made, each).seen(each)
    return made


def usual(*stored: Any) -> Tables:
    """Tables with a ClusterQueue `team` of 10 cpu of flavor spot, its LocalQueue `door`, and these objects."""
    made = tables(flavor(), cluster_queue(), local_queue())
    for each in stored:
        table_of(made, each).seen(each)
    return made


def table_of(made: Tables, stored: Any) -> store.Table[Any]:
    """Return the table that an object belongs to."""
    if isinstance(stored, objects.Custom):
        kinds: dict[type, store.Table[Any]] = {
            ClusterQueue: made.cluster_queues,
            LocalQueue: made.local_queues,
            ResourceFlavor: made.flavors,
        }
        return kinds[type(stored.resource)]
    others: dict[type, store.Table[Any]] = {
        Workload: made.workloads,
        objects.Pod: made.pods,
        objects.Simple: made.namespaces,
    }
    return others[type(stored)]


def _wide(name: str, *, rv: int = 1, deleted: bool = False) -> Manifest:
    made = metadata(name, rv=rv, **leaving(deleted=deleted))
    del made["namespace"]
    return made


def _group(flavors: Flavors) -> Manifest:
    return {
        "coveredResources": list(next(iter(flavors.values()))),
        "flavors": [
            {"name": name, "resources": [_quota(each, amount) for each, amount in resources.items()]}
            for name, resources in flavors.items()
        ],
    }


def _quota(resource: str, amount: Any) -> Manifest:
    if isinstance(amount, tuple):
        return {"name": resource, "nominalQuota": str(amount[0]), "borrowingLimit": str(amount[1])}
    return {"name": resource, "nominalQuota": str(amount)}
