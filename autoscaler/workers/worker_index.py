"""The worker pods of every pool, sorted as decisions ask for them and kept current by each change of a pod. Pure.

A change costs the same whether a pool has ten workers or ten thousand, and so does asking for a number.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from autoscaler.api import keys, version
from autoscaler.kube import incremental, objects, store
from autoscaler.workers.model import Phase

_TROUBLE: Final = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)


class PoolId(NamedTuple):
    """A pool, as its workers name it. The namespace is part of it: anybody may write any uid into a pod."""

    namespace: str
    uid: str


def pool_of(pod: objects.Pod) -> tuple[PoolId, ...]:
    """Return the pool that a pod is a worker of."""
    owner = pod.meta.controller
    is_ours = owner is not None and owner.kind == "WorkerPool" and owner.api_version == version.GROUP_VERSION
    return (PoolId(pod.meta.key.namespace, owner.uid),) if owner is not None and is_ours else ()


def is_held(pod: objects.Pod) -> bool:
    """Tell whether a pod carries our finalizer."""
    return keys.FINALIZER in pod.meta.finalizers


def hangs_on_us(pod: objects.Pod) -> bool:
    """Tell whether a pod's deletion was asked for and waits for us."""
    return pod.meta.deleted_at is not None and is_held(pod)


def phase_of(pod: objects.Pod) -> Phase:
    """Return where a worker stands."""
    match pod.phase:
        case "Succeeded":
            return Phase.SUCCEEDED
        case "Failed":
            return Phase.FAILED
        case "Running" | "Unknown":  # nobody knows better: its node does not answer
            return Phase.RUNNING
        case _:
            return Phase.PENDING


def trouble_of(pod: objects.Pod) -> str:
    """Return why a worker cannot start; empty: nothing is known to be wrong."""
    return next((reason for reason in pod.waiting_reasons if reason in _TROUBLE), "")


@dataclass(slots=True)
class PoolWorkers:
    """The workers of one pool. Those that were told to go still count, and will do no more work."""

    pods: dict[str, objects.Pod] = field(default_factory=dict)
    """All of them, by name."""
    phases: Counter[Phase] = field(default_factory=Counter)
    held: dict[str, objects.Pod] = field(default_factory=dict)
    """Those that carry our finalizer."""
    hanging: dict[str, objects.Pod] = field(default_factory=dict)
    """Those whose deletion waits for us."""
    ended: dict[str, objects.Pod] = field(default_factory=dict)
    """Not told to go: those that succeeded,"""
    failed: dict[str, objects.Pod] = field(default_factory=dict)
    """those that failed,"""
    unstarted: dict[str, objects.Pod] = field(default_factory=dict)
    """those that never started,"""
    bound: dict[str, objects.Pod] = field(default_factory=dict)
    """of these, those that have a node,"""
    stuck: dict[str, objects.Pod] = field(default_factory=dict)
    """and those that cannot start."""
    templates: Counter[str] = field(default_factory=Counter)
    """What those that never started were made from, by its hash."""

    def add(self, pod: objects.Pod) -> None:
        """Take a worker in."""
        name = pod.meta.key.name
        for group in self._groups(pod):
            group[name] = pod
        self.phases[phase_of(pod)] += 1
        if name in self.unstarted:
            self.templates[template_of(pod)] += 1

    def remove(self, pod: objects.Pod) -> None:
        """Give a worker up."""
        name = pod.meta.key.name
        if name in self.unstarted:
            self.templates[template_of(pod)] -= 1
        for group in self._groups(pod):
            del group[name]
        self.phases[phase_of(pod)] -= 1

    def __len__(self) -> int:
        return len(self.pods)

    def _groups(self, pod: objects.Pod) -> list[dict[str, objects.Pod]]:
        leaves = pod.meta.deleted_at is not None
        groups = [self.pods]
        groups += [self.held] if is_held(pod) else []
        groups += [self.hanging] if leaves and is_held(pod) else []
        return groups if leaves else groups + self._staying(pod)

    def _staying(self, pod: objects.Pod) -> list[dict[str, objects.Pod]]:
        match phase_of(pod):
            case Phase.SUCCEEDED:
                return [self.ended]
            case Phase.FAILED:
                return [self.failed]
            case Phase.RUNNING:
                return []
            case Phase.PENDING:
                bound = [self.bound] if pod.node_name else []
                return [self.unstarted, *bound, *([self.stuck] if trouble_of(pod) else [])]


def template_of(pod: objects.Pod) -> str:
    """Return the hash of what a worker was made from; empty where nobody noted it."""
    return pod.meta.annotations.get(keys.TEMPLATE_HASH, "")


WorkerIndex = incremental.IncrementalIndex[PoolId, objects.Pod, PoolWorkers]
NOBODY: Final = PoolWorkers()
"""The workers of a pool that has none. Never changed."""


def index(table: store.Table[objects.Pod]) -> WorkerIndex:
    """Make the index of a table of pods."""
    return incremental.IncrementalIndex(table, groups_of=pool_of, make=PoolWorkers)
