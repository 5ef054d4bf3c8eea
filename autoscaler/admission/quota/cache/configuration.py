"""The tables that quota is decided on, and of these the configuration: queues, flavors, LocalQueues and namespaces.

It is read once per change; a change of status alone is none. Nothing is written, and no room is looked for.
"""

from dataclasses import dataclass
from typing import Protocol

from autoscaler.admission.quota.cache import queues
from autoscaler.admission.quota.cache.queues import CohortKey, Flavor, Queue
from autoscaler.admission.quota.cache.waiting import WaitingClass
from autoscaler.admission.quota.refusals import Reason, Refusal
from autoscaler.admission.workloads.workload import Workload
from autoscaler.api.resources import ClusterQueue, LocalQueue, ResourceFlavor
from autoscaler.kube import objects, store


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """All that quota is decided on."""

    workloads: store.Table[Workload]
    cluster_queues: store.Table[objects.Custom[ClusterQueue]]
    local_queues: store.Table[objects.Custom[LocalQueue]]
    flavors: store.Table[objects.Custom[ResourceFlavor]]
    namespaces: store.Table[objects.Simple]
    pods: store.Table[objects.Pod]


class Follower(Protocol):
    """Who is told of changes."""

    def queue_changed(self, before: Queue | None, after: Queue | None) -> None:
        """Take over a ClusterQueue as it was and is; None: it was or is not there."""
        ...

    def door_changed(self, local_queue: objects.Key) -> None:
        """Take over that a LocalQueue leads elsewhere, or that it comes or goes."""
        ...

    def configuration_changed(self) -> None:
        """Look at everybody again: configuration changes seldom."""
        ...


class Configuration:
    """Queues and flavors as they are now."""

    def __init__(self, tables: Tables, follower: Follower) -> None:
        self.queues: dict[str, Queue] = {}
        self.flavors: dict[str, Flavor] = {}
        self._tables = tables
        self._follower = follower
        self._doors = tables.local_queues.index(_namespace_of)
        """The LocalQueues of each namespace."""

    def start(self) -> None:
        """Read what is there, and follow what changes."""
        for flavor in self._tables.flavors:
            self._flavor_changed(None, flavor)
        for queue in self._tables.cluster_queues:
            self._queue_changed(None, queue)
        self._tables.flavors.listen(self._flavor_changed)
        self._tables.cluster_queues.listen(self._queue_changed)
        self._tables.local_queues.listen(self._door_changed)
        self._tables.namespaces.listen(self._namespace_changed)

    def members(self, cohort: CohortKey) -> list[Queue]:
        """Return the queues of a cohort."""
        return [each for each in self.queues.values() if each.cohort == cohort]

    def leads_to(self, local_queue: objects.Key) -> str | None:
        """Return the ClusterQueue of a LocalQueue; None: the LocalQueue does not exist."""
        door = self._tables.local_queues.get(local_queue)
        return door.resource.spec.cluster_queue if door is not None else None

    def refusal(self, found: WaitingClass) -> Refusal | None:
        """Say why nothing of a class can be admitted whatever is free; None: it can."""
        key = found.key.local_queue
        door = self._tables.local_queues.get(key)
        if door is None:
            return Refusal(reason=Reason.LOCAL_QUEUE_MISSING, queue=key.name)
        if door.meta.deleted_at is not None:
            return Refusal(reason=Reason.LOCAL_QUEUE_LEAVING, queue=key.name)
        queue = self.queues.get(found.queue or "")
        if queue is None:
            return Refusal(reason=Reason.QUEUE_MISSING, queue=found.queue or "")
        namespace = self._tables.namespaces.get(objects.Key("", key.namespace))
        if not queue.takes(namespace.meta.labels if namespace is not None else {}):
            return Refusal(reason=Reason.NAMESPACE_REFUSED, queue=queue.name)
        return queue.refusal

    def _flavor_changed(
        self, old: objects.Custom[ResourceFlavor] | None, new: objects.Custom[ResourceFlavor] | None
    ) -> None:
        before = self.flavors.pop(old.meta.key.name, None) if old is not None else None
        after = queues.flavor(new) if new is not None else None
        if after is not None:
            self.flavors[after.name] = after
        self._tell(changed=before != after)

    def _queue_changed(
        self, old: objects.Custom[ClusterQueue] | None, new: objects.Custom[ClusterQueue] | None
    ) -> None:
        before = self.queues.pop(old.meta.key.name, None) if old is not None else None
        after = queues.queue(new) if new is not None else None
        if after is not None:
            self.queues[after.name] = after
        if before != after:
            self._follower.queue_changed(before, after)
        self._tell(changed=before != after)

    def _door_changed(self, old: objects.Custom[LocalQueue] | None, new: objects.Custom[LocalQueue] | None) -> None:
        stored, changed = new or old, _read(old) != _read(new)
        if stored is not None and changed:
            self._follower.door_changed(stored.meta.key)
        self._tell(changed=changed)

    def _namespace_changed(self, old: objects.Simple | None, new: objects.Simple | None) -> None:
        """Take over the labels of a namespace; one without LocalQueues matters to nobody, and there may be many."""
        stored, is_same = new or old, old is not None and new is not None and old.meta.labels == new.meta.labels
        if stored is not None and not is_same:
            self._tell(changed=bool(self._doors.get(stored.meta.key.name)))

    def _tell(self, *, changed: bool) -> None:
        if changed:
            self._follower.configuration_changed()


def _namespace_of(door: objects.Custom[LocalQueue]) -> tuple[str]:
    return (door.meta.key.namespace,)


def _read(door: objects.Custom[LocalQueue] | None) -> tuple[str, bool] | None:
    """Return what is read of a LocalQueue: where it leads, and whether it is being deleted."""
    return (door.resource.spec.cluster_queue, door.meta.deleted_at is not None) if door is not None else None
