"""Everything that is watched for admission, found by job: kept current by each change, and read when one is decided.

It notes which jobs changed; nothing is decided here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from autoscaler import control
from autoscaler.admission.jobs import port
from autoscaler.admission.quota.cache import books
from autoscaler.admission.state import pod_index, priorities
from autoscaler.admission.state.job_state import JobState, Memory
from autoscaler.admission.workloads import workload
from autoscaler.admission.workloads.workload import WORKLOADS, Workload
from autoscaler.api import resources
from autoscaler.api.resources.queues import ResourceFlavorSpec
from autoscaler.control import takeover
from autoscaler.kube import kinds, objects, store

Flavor = objects.Custom[resources.ResourceFlavor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """What is watched."""

    workloads: store.Table[Workload]
    jobs: Mapping[str, store.Table[port.Job]]
    """By kind."""
    pods: store.Table[objects.Pod]
    nodes: store.Table[objects.Node]
    flavors: store.Table[Flavor]
    cluster_queues: store.Table[objects.Custom[resources.ClusterQueue]]
    local_queues: store.Table[objects.Custom[resources.LocalQueue]]
    namespaces: store.Table[objects.Simple]
    priority_classes: store.Table[priorities.PriorityClass]

    @classmethod
    def watched(cls, context: control.ControllerContext, job_kinds: Iterable[port.ResizableJob]) -> "Tables":
        """Watch everything."""

        def custom(kind: type[resources.Resource]) -> store.Table[Any]:
            return context.watch(kinds.custom(kind), objects.custom(kind))

        return cls(
            workloads=context.watch(WORKLOADS, workload.decode),
            jobs={each.resource.kind: context.watch(each.resource, each.decode) for each in job_kinds},
            pods=context.watch(kinds.PODS, objects.pod),
            nodes=context.watch(kinds.NODES, objects.node),
            flavors=custom(resources.ResourceFlavor),
            cluster_queues=custom(resources.ClusterQueue),
            local_queues=custom(resources.LocalQueue),
            namespaces=context.watch(kinds.NAMESPACES, objects.simple),
            priority_classes=context.watch(kinds.PRIORITY_CLASSES, priorities.decode),
        )

    @property
    def summed_up(self) -> tuple[takeover.Read, ...]:
        """Those that a new leader reads anew: usage is a sum over them."""
        return (
            takeover.Read(resource=WORKLOADS, decode=workload.decode, table=self.workloads),
            takeover.Read(resource=kinds.PODS, decode=objects.pod, table=self.pods),
        )

    @property
    def of_quota(self) -> books.Tables:
        """Those that quota is decided on."""
        return books.Tables(
            workloads=self.workloads,
            cluster_queues=self.cluster_queues,
            local_queues=self.local_queues,
            flavors=self.flavors,
            namespaces=self.namespaces,
            pods=self.pods,
        )


class Known:
    """What is known of every job."""

    def __init__(self, tables: Tables, job_kinds: Iterable[port.ResizableJob]) -> None:
        self.dirty: dict[str, None] = {}
        """The UIDs of jobs about which something changed, oldest first."""
        self._tables = tables
        self._pods = pod_index.index(tables.pods, pod_index.PodKinds(job_kinds))
        self._pods.on_change.append(self.note)
        self._workloads = tables.workloads.index(_job_of)
        self._jobs: dict[str, port.Job] = {}
        self._lost = _LostNodes(tables.nodes)
        tables.workloads.listen(self._workload_changed)
        for table in tables.jobs.values():
            table.listen(self._job_changed)
        tables.priority_classes.listen(self._priority_changed)
        tables.flavors.listen(self._flavor_changed)

    def note(self, uid: str) -> None:
        """Note that something changed about a job."""
        self.dirty[uid] = None

    def job(self, uid: str) -> port.Job | None:
        """Return a job by its UID."""
        return self._jobs.get(uid)

    def workload(self, uid: str) -> Workload | None:
        """Return the Workload of a job; None: it has none."""
        return next((each for each in self._workloads.get(uid).values() if not each.is_slice), None)

    def state(self, uid: str, memory: Memory) -> JobState:
        """Return a job with everything that belongs to it."""
        job = self._jobs.get(uid)
        there = list(self._workloads.get(uid).values())
        parent = next((each for each in there if not each.is_slice), None)
        slices = [each for each in there if each.is_slice]
        parent_uid = parent.meta.uid if parent is not None else ""
        name = job.priority_class if job is not None else ""
        return JobState(
            uid=uid,
            job=job,
            workload=parent,
            slices=tuple(sorted((each for each in slices if each.parent_uid == parent_uid), key=_age)),
            orphans=tuple(each for each in slices if each.parent_uid != parent_uid),
            pods=self._pods.get(uid) or pod_index.NOBODY,
            priority=priorities.value_of(name, self._tables.priority_classes),
            flavors=self._flavors(parent),
            lost_nodes=self._lost,
            memory=memory,
        )

    def _flavors(self, parent: Workload | None) -> Mapping[str, ResourceFlavorSpec]:
        if parent is None or parent.admission is None:
            return {}
        names = {flavor for each in parent.admission.assignments for flavor in each.flavors.values()}
        found = {name: self._tables.flavors.get(objects.Key("", name)) for name in names}
        return {name: each.resource.spec for name, each in found.items() if each is not None}

    def _workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        for each in (old, new):
            if each is not None:
                self.note(each.job_uid)

    def _job_changed(self, old: port.Job | None, new: port.Job | None) -> None:
        if old is not None and (new is None or new.meta.uid != old.meta.uid):
            self._jobs.pop(old.meta.uid, None)
            self.note(old.meta.uid)
        if new is not None and (new.queue is not None or new.meta.uid in self._jobs or self._has_workload(new)):
            self._jobs[new.meta.uid] = new
            self.note(new.meta.uid)

    def _priority_changed(self, old: priorities.PriorityClass | None, new: priorities.PriorityClass | None) -> None:
        if (old and (old.value, old.is_default)) != (new and (new.value, new.is_default)):
            self._note_all()

    def _flavor_changed(self, old: Flavor | None, new: Flavor | None) -> None:
        if (old and old.resource.spec) != (new and new.resource.spec):
            self._note_all()

    def _has_workload(self, job: port.Job) -> bool:
        return bool(self._workloads.get(job.meta.uid))

    def _note_all(self) -> None:
        for uid in (*self._jobs, *self._workloads):
            self.note(uid)


class _LostNodes:
    """The nodes that are gone or do not answer: every name but those of nodes that are Ready."""

    def __init__(self, nodes: store.Table[objects.Node]) -> None:
        self._nodes = nodes

    def __contains__(self, name: object) -> bool:
        node = self._nodes.get(objects.Key("", str(name)))
        return node is None or not node.ready


def _job_of(stored: Workload) -> tuple[str]:
    return (stored.job_uid,)


def _age(each: Workload) -> tuple[float, int, str]:
    """Sort slices by age; of those made in one second, by their ordinals."""
    ordinal = each.meta.key.name.rpartition("-")[2]
    return each.meta.created_at, int(ordinal) if ordinal.isdigit() else 0, each.meta.uid
