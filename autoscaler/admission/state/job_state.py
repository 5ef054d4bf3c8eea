"""One job and everything that belongs to it, as it is known now: what decisions about the job are made from. Pure.

Words: *open* is a live pod without our gate; *recorded* is a pod whose UID stands in the Workload's status as about to
be opened; *size* is what the job wants now; *spec* and *granted* are what the Workload says, per pod set.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from autoscaler.admission.jobs.port import Job, WantedPods
from autoscaler.admission.state import pod_index
from autoscaler.admission.workloads.workload import Workload
from autoscaler.api.resources.queues import ResourceFlavorSpec
from autoscaler.kube import objects

LOOK_AGAIN_SECONDS: Final = 10.0
"""How often to see whether a node that holds a pod that should have ended is lost."""


class Stage(Enum):
    """Where a job stands."""

    UNKNOWN = auto()
    """There is a pod or a slice of it, and nothing else."""
    NEW = auto()
    """It has no Workload yet."""
    WAITING = auto()
    ADMITTED = auto()
    EVICTED = auto()
    """It was told to give its quota back, and still has it."""
    FINISHED = auto()
    DEPARTING = auto()
    """It is gone, being deleted, or in none of our queues any more, and its Workload is still there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What this process remembers of a job's pods. A new one begins without, and is only slower for it."""

    refused: Container[str] = ()
    """UIDs of pods whose gate the API server refuses to open, for good."""
    touched: Container[str] = ()
    """UIDs of pods that were changed since we last tried to open them, so that no patch under way can succeed."""
    was_running: bool = False
    """Whether the job was seen to run since it was admitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a person chose for all jobs."""

    elastic: bool = True
    """False: a job that grows is suspended and waits for its whole new size."""
    pods_ready_timeout_seconds: float = 1800.0
    """How long the pods of an admitted job may take to start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """A job, its Workload, its slices and its pods."""

    uid: str
    job: Job | None
    """None: it is gone, or was never seen."""
    workload: Workload | None = None
    slices: tuple[Workload, ...] = ()
    """The slices of this Workload, in the order of their ordinals."""
    orphans: tuple[Workload, ...] = ()
    """Slices of a Workload of this job that is gone."""
    pods: pod_index.JobPods = field(default_factory=pod_index.JobPods)
    priority: int = 0
    """The value of the pods' PriorityClass."""
    flavors: Mapping[str, ResourceFlavorSpec] = field(default_factory=dict)
    lost_nodes: Container[str] = ()
    """Nodes that are gone or do not answer."""
    memory: Memory = Memory()

    @property
    def wanted(self) -> Job | None:
        """Return the job if it is there to stay and waits in one of our queues."""
        job = self.job
        if job is None or job.meta.deleted_at is not None or job.queue is None or job.left_alone is not None:
            return None
        return job

    @property
    def stage(self) -> Stage:
        """Tell where the job stands."""
        job, workload = self.wanted, self.workload
        if workload is None:
            return Stage.UNKNOWN if job is None or job.finished is not None else Stage.NEW
        if job is None:
            return Stage.DEPARTING
        if job.finished is not None:
            return Stage.FINISHED
        if workload.is_evicted or workload.is_leaving:
            return Stage.EVICTED
        return Stage.WAITING if workload.admission is None else Stage.ADMITTED

    def size(self, pod_set: str) -> int:
        """Return how many pods of a pod set the job wants now; none of one that it has no more."""
        found = self.wanted_pods(pod_set)
        return found.size if found is not None else 0

    def wanted_pods(self, pod_set: str) -> WantedPods | None:
        """Return what the job wants of a pod set."""
        sets = self.wanted.pod_sets if self.wanted is not None else ()
        return next((each for each in sets if each.name == pod_set), None)

    def granted(self, pod_set: str) -> int:
        """Return how many pods of a pod set may run."""
        admission = self.workload.admission if self.workload is not None else None
        return admission.count(pod_set) if admission is not None else 0

    def recorded(self, pod_set: str) -> set[str]:
        """Return the UIDs of recorded pods that are still there."""
        recorded = self.workload.opened.get(pod_set, ()) if self.workload is not None else ()
        return {uid for uid in recorded if uid in self.pods.uids}

    def occupying(self, pod_set: str, now: float) -> set[str]:
        """Return the pods that take a place for opening: open or recorded, also while they are being deleted."""
        pods = self.pods.of(pod_set)
        lost = {uid for uid, pod in pods.leaving.items() if self._is_lost(pod, now)}
        return (pods.open.keys() - lost) | self.recorded(pod_set)

    def staying(self, pod_set: str) -> set[str]:
        """Return the pods that keep their quota while the job shrinks: open or recorded, and not being deleted."""
        pods = self.pods.of(pod_set)
        recorded = {uid for uid in self.recorded(pod_set) if uid in pods.gated or uid in pods.open}
        return (pods.open.keys() | recorded) - pods.leaving.keys()

    def is_running(self, now: float) -> bool:
        """Tell whether a pod of the job is open or recorded."""
        names = {*self.pods.pod_sets, *(self.workload.opened if self.workload is not None else ())}
        return any(self.occupying(name, now) for name in names)

    def lost_at(self, now: float) -> float | None:
        """Return when to look again whether a pod that should have ended is lost; None: none is to end."""
        ends = [pod.meta.deleted_at for each in self.pods.pod_sets.values() for pod in each.leaving.values()]
        return max(min(end for end in ends if end is not None), now + LOOK_AGAIN_SECONDS) if ends else None

    def unfolded(self, pod_set: str) -> list[Workload]:
        """Return the slices of a pod set that were not counted yet, and ask for what the Workload asks for now."""
        there = [each for each in self.slices if each.pod_sets[0].name == pod_set]
        return [each for each in there if not self._is_folded(each) and not self._is_outdated(each)]

    @property
    def outdated(self) -> list[Workload]:
        """Return the slices that were not counted yet, and were made when the pods of their set wanted something else.

        They must not be counted: what the Workload asks for now may be more than they were admitted with.
        """
        return [each for each in self.slices if not self._is_folded(each) and self._is_outdated(each)]

    def _is_folded(self, part: Workload) -> bool:
        return self.workload is not None and part.meta.uid in self.workload.folded

    def _is_outdated(self, part: Workload) -> bool:
        made = part.pod_sets[0]
        now = self.workload.pod_set(made.name) if self.workload is not None else None
        return now is not None and (now.requests, now.constraints) != (made.requests, made.constraints)

    def _is_lost(self, pod: objects.Pod, now: float) -> bool:
        """Tell whether a pod's time to end is over and its node cannot tell us that it ended."""
        deleted_at = pod.meta.deleted_at
        return deleted_at is not None and deleted_at <= now and pod.node_name in self.lost_nodes
