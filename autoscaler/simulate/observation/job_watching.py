"""Watch queued jobs go by: what each was granted and when, what ran, and how much quota was used. It changes nothing.

It reads Workloads as the runtime wrote them. Slices count from when they are counted into their job's Workload.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import msgspec

from autoscaler import clock
from autoscaler.admission.quota.amounts import FlavorResource
from autoscaler.admission.quota.cache import queues
from autoscaler.admission.workloads import workload as workloads
from autoscaler.admission.workloads.workload import WORKLOADS, ConditionType, Workload
from autoscaler.api import keys, resources
from autoscaler.api.manifests import Manifest
from autoscaler.kube import kinds, objects
from autoscaler.simulate.observation.job_record import JobLife, QueuedJobs, QuotaUse, Step, StepKind
from autoscaler.simulate.observation.observing import WORK
from autoscaler.simulation.cluster import SimulatedCluster
from autoscaler.simulation.cluster.kinds.pods import TERMINAL
from autoscaler.simulation.cluster.store import Change, Entry, Key
from autoscaler.simulation.controllers import job_status

_CLUSTER_QUEUES = kinds.custom(resources.ClusterQueue)
_Share = tuple[str, FlavorResource]
"""One resource of one flavor of a ClusterQueue."""


@dataclass(slots=True)
class _Meter:
    """What is used of one share, the most of it so far, and its sum over time."""

    used: int = 0
    most: int = 0
    total: float = 0.0
    since: float = 0.0

    def set(self, used: int, now: float) -> None:
        self.total += self.used * (now - self.since)
        self.used, self.since, self.most = used, now, max(self.most, used)


@dataclass(slots=True)
class _Seen:
    """One job, so far."""

    life: JobLife
    steps: list[Step] = field(default_factory=list)
    granted: int = 0
    running: set[Key] = field(default_factory=set)

    def as_value(self) -> JobLife:
        return replace(self.life, steps=tuple(self.steps))


class JobWatcher:
    """Sees what happens to queued jobs in a cluster."""

    def __init__(self, cluster: SimulatedCluster, time: clock.Clock) -> None:
        self._store = cluster.server.store
        self._clock = time
        self._started_at = time.now()
        self._jobs: dict[str, _Seen] = {}
        self._used: dict[str, dict[_Share, int]] = {}
        self._meters: defaultdict[_Share, _Meter] = defaultdict(lambda: _Meter(since=self._started_at))
        self._beyond = 0
        self._store.collection(kinds.JOBS).listeners.append(self._on_job)
        self._store.collection(WORKLOADS).listeners.append(self._on_workload)
        self._store.collection(kinds.PODS).listeners.append(self._on_pod)

    @property
    def waiting(self) -> int:
        """How many jobs wait for quota now."""
        return sum(not each.granted and each.life.ended_at is None for each in self._jobs.values())

    def seen(self) -> QueuedJobs:
        """Return all that was seen until now."""
        return QueuedJobs(
            lives=tuple(each.as_value() for each in self._jobs.values()),
            quotas=tuple(self._quotas()),
            beyond_quota=self._beyond,
        )

    # Jobs

    def _on_job(self, change: Change) -> None:
        entry = change.after
        labels = (entry.object["metadata"].get("labels") or {}) if entry else {}
        if entry is None or not labels.get(keys.QUEUE_NAME):
            return
        seen = self._jobs.get(entry.uid)
        if seen is None:
            life = JobLife(
                namespace=change.key.namespace,
                name=change.key.name,
                work=labels.get(WORK, ""),
                queue=labels[keys.QUEUE_NAME],
                came_at=self._clock.now(),
            )
            self._jobs[entry.uid] = _Seen(life)
        elif seen.life.ended_at is None and job_status.is_finished(entry.object):
            seen.life = replace(seen.life, ended_at=self._clock.now())

    def _on_pod(self, change: Change) -> None:
        entry = change.after or change.before
        labels = (entry.object["metadata"].get("labels") or {}) if entry else {}
        seen = self._jobs.get(labels.get(keys.JOB_CONTROLLER_UID, ""))
        if seen is None:
            return
        if change.after is not None and _runs(change.after.object):
            seen.running.add(change.key)
        else:
            seen.running.discard(change.key)
        self._check(seen)

    def _check(self, seen: _Seen) -> None:
        self._beyond = max(self._beyond, len(seen.running) - seen.granted)

    # Quota

    def _on_workload(self, change: Change) -> None:
        before, after = _decoded(change.before), _decoded(change.after)
        shown = after or before
        if shown is None or shown.is_slice:
            return
        now = self._clock.now()
        self._meter(shown.meta.uid, _usage(after), now)
        seen = self._jobs.get(shown.job_uid)
        if seen is not None:
            seen.steps.extend(steps(before, after, now))
            seen.granted = _granted(after)
            self._check(seen)

    def _meter(self, uid: str, used: dict[_Share, int], now: float) -> None:
        before = self._used.get(uid, {})
        self._used[uid] = used
        for share in before.keys() | used.keys():
            meter, more = self._meters[share], used.get(share, 0) - before.get(share, 0)
            meter.set(meter.used + more, now)

    def _quotas(self) -> Iterator[QuotaUse]:
        now = self._clock.now()
        lasted = max(now - self._started_at, 1e-9)
        for entry in self._store.collection(_CLUSTER_QUEUES).entries.values():
            stored = objects.custom(resources.ClusterQueue)(msgspec.json.encode(entry.object))
            queue = queues.queue(stored)
            for part, quota in queue.quotas.items():
                meter = self._meters[queue.name, part]
                meter.set(meter.used, now)
                yield QuotaUse(
                    cluster_queue=queue.name,
                    flavor=part.flavor,
                    resource=part.resource,
                    nominal=quota.nominal,
                    most=meter.most,
                    mean=meter.total / lasted,
                )


def steps(before: Workload | None, after: Workload | None, now: float) -> Iterator[Step]:
    """Tell what changed about a job's quota between two versions of its Workload."""
    had, has, wanted = _granted(before), _granted(after), _wanted(after)
    if after is not None and after.is_evicted and (before is None or not before.is_evicted):
        why = after.conditions[ConditionType.EVICTED].message
        yield Step(at=now, kind=StepKind.EVICTED, before=had, after=had, wanted=wanted, why=why)
    kind = _kind(before, after)
    if kind is not None:
        why = after.conditions[ConditionType.ADMITTED].message if after and kind is StepKind.ADMITTED else ""
        yield Step(at=now, kind=kind, before=had, after=has, wanted=wanted, why=why)


def _kind(before: Workload | None, after: Workload | None) -> StepKind | None:
    had, has = _granted(before), _granted(after)
    was_admitted, is_admitted = (each is not None and each.admission is not None for each in (before, after))
    if is_admitted and not was_admitted:
        return StepKind.ADMITTED
    if was_admitted and not is_admitted:
        return StepKind.RELEASED
    if has == had:
        return None
    return StepKind.GREW if has > had else StepKind.SHRANK


def _granted(workload: Workload | None) -> int:
    admission = workload.admission if workload is not None else None
    return sum(each.count for each in admission.assignments) if admission is not None else 0


def _wanted(workload: Workload | None) -> int:
    return sum(each.count for each in workload.pod_sets) if workload is not None else 0


def _usage(workload: Workload | None) -> dict[_Share, int]:
    """Return what a job uses of its ClusterQueue: what is granted, which is never more than it asks for."""
    used: defaultdict[_Share, int] = defaultdict(int)
    if workload is None or workload.admission is None:
        return used
    for pod_set in workload.pod_sets:
        assigned = workload.admission.of(pod_set.name)
        for resource, flavor in assigned.flavors.items() if assigned is not None else ():
            share = (workload.admission.cluster_queue, FlavorResource(flavor, resource))
            used[share] += workload.admission.count(pod_set.name) * pod_set.requests.get(resource, 0)
    return used


def _decoded(entry: Entry | None) -> Workload | None:
    return None if entry is None else workloads.decode(msgspec.json.encode(entry.object))


def _runs(pod: Manifest) -> bool:
    """Tell whether a pod has a node, has not ended and is not being deleted."""
    is_over = pod["status"].get("phase") in TERMINAL or "deletionTimestamp" in pod["metadata"]
    return bool(pod["spec"].get("nodeName")) and not is_over
