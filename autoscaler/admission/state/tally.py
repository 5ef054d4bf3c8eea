"""Who waits and who has quota, by LocalQueue, ClusterQueue and flavor: kept current by each change. Pure."""

import bisect
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from autoscaler.admission.workloads.workload import ConditionType, Workload
from autoscaler.kube import incremental, objects, store


class Kind(StrEnum):
    """What Workloads are counted by."""

    LOCAL_QUEUE = "LocalQueue"
    CLUSTER_QUEUE = "ClusterQueue"
    FLAVOR = "ResourceFlavor"


class Place(NamedTuple):
    """One LocalQueue, ClusterQueue or flavor."""

    kind: Kind
    key: objects.Key


@dataclass(slots=True)
class Standing:
    """The Workloads of one place."""

    pending: list[tuple[float, str]] = field(default_factory=list)
    """Since when each waits, and its UID; in order. Of LocalQueues only; slices are not among them."""
    holders: dict[str, objects.Key] = field(default_factory=dict)
    """Those that have quota, by UID, slices included."""
    admitted: int = 0
    """How many of these are no slices."""
    _members: int = 0

    def add(self, stored: Workload) -> None:
        """Take a Workload in."""
        self._members += 1
        if stored.admission is not None:
            self.holders[stored.meta.uid] = stored.meta.key
            self.admitted += not stored.is_slice
        elif is_pending(stored):
            bisect.insort(self.pending, (waits_since(stored), stored.meta.uid))

    def remove(self, stored: Workload) -> None:
        """Give a Workload up."""
        self._members -= 1
        if stored.admission is not None:
            del self.holders[stored.meta.uid]
            self.admitted -= not stored.is_slice
        elif is_pending(stored):
            del self.pending[bisect.bisect_left(self.pending, (waits_since(stored), stored.meta.uid))]

    def __len__(self) -> int:
        return self._members


Tally = incremental.IncrementalIndex[Place, Workload, Standing]


def of(table: store.Table[Workload]) -> Tally:
    """Count the Workloads of a table."""
    return incremental.IncrementalIndex(table, groups_of=_places, make=Standing)


def door_of(stored: Workload) -> objects.Key:
    """Return the LocalQueue of a Workload or slice."""
    return objects.Key(stored.meta.key.namespace, stored.queue)


def is_pending(stored: Workload) -> bool:
    """Tell whether a Workload that has no quota wants some."""
    return stored.active and not stored.is_finished and not stored.is_leaving


def waits_since(stored: Workload) -> float:
    """Return since when a Workload waits: since its job was made, or since it gave its quota back."""
    evicted = stored.conditions.get(ConditionType.EVICTED)
    return stored.queued_at if evicted is None or evicted.holds else evicted.since


def cluster_queue(name: str) -> Place:
    """Name a ClusterQueue."""
    return Place(Kind.CLUSTER_QUEUE, objects.Key("", name))


def local_queue(key: objects.Key) -> Place:
    """Name a LocalQueue."""
    return Place(Kind.LOCAL_QUEUE, key)


def flavor(name: str) -> Place:
    """Name a flavor."""
    return Place(Kind.FLAVOR, objects.Key("", name))


def _places(stored: Workload) -> Collection[Place]:
    found = set() if stored.is_slice else {local_queue(door_of(stored))}
    if stored.admission is not None:
        found.add(cluster_queue(stored.admission.cluster_queue))
        found |= {flavor(name) for each in stored.admission.assignments for name in each.flavors.values()}
    return found
