"""Pods that wait behind the gate of quota, by the UID of who made them: kept current by each change of a pod. Pure."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from autoscaler.admission.state import pod_index
from autoscaler.kube import incremental, objects, store

NOBODY: Final = ""
"""Stands for who made pods that nobody owns."""


@dataclass(slots=True)
class Group:
    """The gated pods of one owner."""

    keys: dict[str, objects.Key] = field(default_factory=dict)
    """By UID."""

    def add(self, pod: objects.Pod) -> None:
        """Take a pod in."""
        self.keys[pod.meta.uid] = pod.meta.key

    def remove(self, pod: objects.Pod) -> None:
        """Give a pod up."""
        del self.keys[pod.meta.uid]

    def __len__(self) -> int:
        return len(self.keys)


GatedPods = incremental.IncrementalIndex[str, objects.Pod, Group]


def of(table: store.Table[objects.Pod]) -> GatedPods:
    """Find the gated pods of a table."""
    return incremental.IncrementalIndex(table, groups_of=_owner, make=Group)


def waits(pod: objects.Pod) -> bool:
    """Tell whether a pod is there to stay and waits behind the gate of quota."""
    return pod_index.is_gated(pod) and not pod.is_terminal and pod.meta.deleted_at is None


def _owner(pod: objects.Pod) -> Collection[str]:
    if not waits(pod):
        return ()
    owner = pod.meta.controller
    return (owner.uid if owner is not None else NOBODY,)
