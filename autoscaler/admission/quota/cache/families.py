"""Workloads and their slices by UID: a slice belongs to the Workload whose UID it names, whatever its name is.

Nothing is added up and nothing is decided here.
"""

from collections.abc import Iterator, Mapping

from autoscaler.admission.quota.cache import usage
from autoscaler.admission.workloads.workload import Workload


class Families:
    """All Workloads, each with its slices."""

    def __init__(self) -> None:
        self._workloads: dict[str, Workload] = {}
        self._slices: dict[str, dict[str, None]] = {}

    def get(self, uid: str) -> Workload | None:
        """Return a Workload or slice; None: it is not there."""
        return self._workloads.get(uid)

    def known(self, uid: str) -> Workload:
        """Return a Workload or slice that is there."""
        return self._workloads[uid]

    def parent_of(self, workload: Workload) -> Workload | None:
        """Return the Workload that this is a slice of; None: it is no slice, or its parent is gone."""
        return self._workloads.get(workload.parent_uid or "")

    def has_slices(self, uid: str) -> bool:
        return uid in self._slices

    def members(self, uid: str) -> Iterator[str]:
        """Return a Workload's UID and those of its slices."""
        yield uid
        yield from self._slices.get(uid, ())

    def priority_of(self, workload: Workload) -> int:
        """Return the priority of a Workload; a slice has that of its parent."""
        parent = self.parent_of(workload)
        return parent.priority if parent is not None else workload.priority

    def sibling_flavors(self, part: Workload, pod_set: str) -> Mapping[str, str]:
        """Return the flavors that another slice was granted for a pod set that the parent has no flavors for yet."""
        parent = self.parent_of(part)
        for uid in self._slices.get(part.parent_uid or "", ()):
            sibling = self._workloads[uid]
            if sibling.admission is not None and usage.counts(sibling, parent):
                granted = sibling.admission.of(pod_set)
                if granted is not None:
                    return granted.flavors
        return {}

    def take(self, old: Workload | None, new: Workload) -> list[str]:
        """Take over a new version; return the UIDs of all whose standing may differ now."""
        uid = new.meta.uid
        self._workloads[uid] = new
        if new.parent_uid is not None:
            self._slices.setdefault(new.parent_uid, {})[uid] = None
        return [uid, *self._relatives(old, new)]

    def forget(self, old: Workload) -> list[str]:
        """Give up one that is gone; return the UIDs of all whose standing may differ now."""
        uid, parent = old.meta.uid, old.parent_uid
        del self._workloads[uid]
        if parent is not None:
            del self._slices[parent][uid]
            if not self._slices[parent]:
                del self._slices[parent]
        return [uid, *self._relatives(old, None)]

    def _relatives(self, old: Workload | None, new: Workload | None) -> list[str]:
        """Return whose standing depends on what changed: a slice's parent, or those of a Workload's slices."""
        changed = new or old
        if changed is None:
            return []
        if changed.parent_uid is not None:
            return [changed.parent_uid] if old is None or new is None else []
        slices = self._slices.get(changed.meta.uid, {})
        if not slices:
            return []
        if old is None or new is None or _seen_by_slices(old) != _seen_by_slices(new):
            return list(slices)
        return [uid for uid in old.folded ^ new.folded if uid in slices]


def _seen_by_slices(parent: Workload) -> object:
    """Return what slices depend on of their parent, folded ones aside."""
    granted = parent.admission
    assigned = granted.assignments if granted is not None else ()
    flavors = [(each.name, each.flavors) for each in assigned if each.count]
    queue = granted.cluster_queue if granted is not None else None
    return (queue, flavors, parent.priority, parent.active, parent.is_leaving, parent.is_evicted, parent.is_finished)
