"""The pods of every job, by pod set, kept current by each change of a pod. Pure.

A pod is open if it lives and does not carry our gate: it may run, so it counts. One that is being deleted is still open
until it is gone; one that has succeeded or failed counts no more.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from autoscaler.admission.jobs import port
from autoscaler.api import keys
from autoscaler.kube import incremental, objects, store


def is_gated(pod: objects.Pod) -> bool:
    """Tell whether a pod waits for quota."""
    return keys.ADMISSION_GATE in pod.gates


def is_open(pod: objects.Pod) -> bool:
    """Tell whether a pod may run."""
    return not is_gated(pod) and not pod.is_terminal


@dataclass(slots=True)
class PodSetPods:
    """The pods of one pod set, by UID. Those that have succeeded or failed are not among them."""

    open: dict[str, objects.Pod] = field(default_factory=dict)
    """Those that may run, also while they are being deleted."""
    leaving: dict[str, objects.Pod] = field(default_factory=dict)
    """Of these, those that are being deleted."""
    gated: dict[str, objects.Pod] = field(default_factory=dict)
    """Those that wait for quota and are not being deleted."""
    ready: set[str] = field(default_factory=set)
    """The UIDs of open ones that are Ready and not being deleted."""
    unstarted: dict[str, objects.Pod] = field(default_factory=dict)
    """Open ones that never started and are not being deleted."""


NO_PODS: Final = PodSetPods()
"""The pods of a pod set that has none. Never changed."""


@dataclass(slots=True)
class JobPods:
    """The pods of one job."""

    pod_sets: dict[str, PodSetPods] = field(default_factory=dict)
    uids: dict[str, str] = field(default_factory=dict)
    """The pod set of every pod that may run or waits, by UID."""
    kinds: "PodKinds | None" = None
    _count: int = 0

    def of(self, pod_set: str) -> PodSetPods:
        """Return the pods of one pod set."""
        return self.pod_sets.get(pod_set, NO_PODS)

    def add(self, pod: objects.Pod) -> None:
        """Take a pod in."""
        self._count += 1
        if pod.is_terminal or self.kinds is None:
            return
        name, uid = self.kinds.pod_set_of(pod), pod.meta.uid
        self.uids[uid] = name
        for group in _groups(self.pod_sets.setdefault(name, PodSetPods()), pod):
            group[uid] = pod
        if is_open(pod) and pod.ready and pod.meta.deleted_at is None:
            self.pod_sets[name].ready.add(uid)

    def remove(self, pod: objects.Pod) -> None:
        """Give a pod up."""
        self._count -= 1
        if pod.is_terminal or self.kinds is None:
            return
        name, uid = self.kinds.pod_set_of(pod), pod.meta.uid
        del self.uids[uid]
        for group in _groups(self.pod_sets[name], pod):
            del group[uid]
        self.pod_sets[name].ready.discard(uid)

    def __len__(self) -> int:
        return self._count


def _groups(pods: PodSetPods, pod: objects.Pod) -> list[dict[str, objects.Pod]]:
    leaves = pod.meta.deleted_at is not None
    if is_gated(pod):
        return [] if leaves else [pods.gated]
    if leaves:
        return [pods.open, pods.leaving]
    return [pods.open, pods.unstarted] if pod.phase == "Pending" else [pods.open]


NOBODY: Final = JobPods()
"""The pods of a job that has none. Never changed."""
PodIndex = incremental.IncrementalIndex[str, objects.Pod, JobPods]


class PodKinds:
    """Which pods are those of jobs, and what their kinds say about them."""

    def __init__(self, kinds: Iterable[port.ResizableJob]) -> None:
        self._kinds: Mapping[tuple[str, str], port.ResizableJob] = {
            (each.resource.api_version, each.resource.kind): each for each in kinds
        }

    def job_of(self, pod: objects.Pod) -> Collection[str]:
        """Return the UID of the job that a pod belongs to, where it belongs to one of a kind that can be queued.

        A pod that nobody owns any more belongs to the job for which its gate was opened: it outlived it.
        """
        owner = pod.meta.controller
        if owner is None:
            stamp = pod.meta.annotations.get(keys.JOB_UID)
            return (stamp,) if stamp else ()
        return (owner.uid,) if (owner.api_version, owner.kind) in self._kinds else ()

    def pod_set_of(self, pod: objects.Pod) -> str:
        """Return the pod set of a job's pod."""
        kind = self._kind_of(pod)
        return kind.pod_set_of(pod) if kind is not None else pod.meta.annotations.get(keys.POD_SET, "")

    def place_of(self, pod: objects.Pod) -> int | None:
        """Return a pod's index among those of its pod set."""
        kind = self._kind_of(pod)
        return kind.place_of(pod) if kind is not None else None

    def _kind_of(self, pod: objects.Pod) -> port.ResizableJob | None:
        owner = pod.meta.controller
        return self._kinds[owner.api_version, owner.kind] if owner is not None else None


def index(table: store.Table[objects.Pod], kinds: PodKinds) -> PodIndex:
    """Make the index of a table of pods, by the UID of their job."""
    return incremental.IncrementalIndex(table, groups_of=kinds.job_of, make=lambda: JobPods(kinds=kinds))
