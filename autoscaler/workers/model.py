"""The values that the decision and its controller speak: a pool as it is now, and what to do about it."""

from dataclasses import dataclass
from enum import StrEnum

from autoscaler.api.resources.worker_pools import PoolStatus, WorkerPool
from autoscaler.kube import objects

Pool = objects.Custom[WorkerPool]
"""A WorkerPool as the API server has it."""


class Phase(StrEnum):
    """Where a worker stands in its life."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Reason(StrEnum):
    """Why an event is told; the names are the seed's."""

    ADOPTED = "Adopted"
    FAILED_TO_RECONCILE = "FailedToReconcile"
    CLEAN_UP = "CleanUp"
    FAILED_WORKER = "FailedWorker"
    CAPACITY_REACHED = "CapacityReached"
    CREATED_WORKERS = "CreatedWorkers"
    PAUSED = "Paused"
    SHUTDOWN = "Shutdown"
    FAILED_CLEANUP = "FailedCleanup"


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A pod of the pool."""

    name: str
    phase: Phase
    terminating: bool = False
    """It was told to go. It still takes a place, and it will do no more work."""
    trouble: str = ""
    """Why it cannot start, such as ErrImagePull; empty: nothing is known to be wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a person wants of the pool."""

    status: PoolStatus
    capacity: int
    """The most pods at once."""
    retain_failed: bool = False

    @property
    def is_active(self) -> bool:
        return self.status is PoolStatus.ACTIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Something worth an event."""

    reason: Reason
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanUp:
    """Workers to remove, and those that went wrong, removed or not."""

    remove: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    stuck: tuple[Worker, ...] = ()
    """Workers that cannot start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How many workers to make for what one reading of the queue said, and the numbers compared."""

    create: int
    wanted: int
    """How many the queue asks for beyond those that wait to start."""
    capacity: int
    """How many more the pool may have; never negative."""

    @property
    def left_out(self) -> int:
        """Return for how many jobs there is no place."""
        return max(0, self.wanted - self.capacity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The pool's workers in numbers, as its status shows them."""

    running: int
    pending: int
    failed: int
    total: int
    capacity: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a pool could not be reconciled."""

    reason: str
    """One word, for programs."""
    message: str
