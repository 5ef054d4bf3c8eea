"""The values that worker pools are decided and told in."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from autoscaler.api.resources.worker_pools import WorkerPool
from autoscaler.control import plans
from autoscaler.kube import objects

Pool = objects.Custom[WorkerPool]
"""A WorkerPool as the API server has it."""


class Phase(StrEnum):
    """Where a worker stands."""

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


class Cause(StrEnum):
    """Why a worker is removed."""

    ENDED = "it ended"
    FAILED = "it failed"
    TOO_MANY_FAILED = "more failed workers are kept than failedWorkersLimit allows, and it is the oldest"
    OTHER_TEMPLATE = "it has not started, and what workers are made from has changed since"
    NOT_STARTED = "it has a node and has not started within startTimeoutMinutes"
    SHUTDOWN = "the pool is shut down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Something worth an event."""

    reason: Reason
    message: str
    warning: bool = False
    is_change: bool = False
    """The pool's state changed, and this is told once."""
    condition: str = ""
    """Where it is told as a condition too: the reason there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck:
    """A worker that cannot start."""

    name: str
    trouble: str
    """Such as ErrImagePull."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanUp:
    """Workers to remove and why, and those that went wrong, removed or not."""

    remove: tuple[tuple[str, Cause], ...] = ()
    failed: tuple[str, ...] = ()
    stuck: tuple[Stuck, ...] = ()

    def of(self, *causes: Cause) -> tuple[str, ...]:
        """Return the names of those that are removed for one of these causes."""
        return tuple(name for name, cause in self.remove if cause in causes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How many workers to make for what one reading of the queue said, and the numbers compared."""

    create: int = 0
    wanted: int = 0
    """How many the queue asks for beyond those that wait to start."""
    capacity: int = 0
    """How many more the pool may have; never negative."""

    @property
    def left_out(self) -> int:
        """Return for how many jobs there is no room."""
        return max(0, self.wanted - self.capacity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be done for one pool after its queue was read."""

    pool: objects.Key
    clean_up: CleanUp = CleanUp()
    growth: Growth = Growth()

    def commands(self) -> Iterable[plans.Command]:
        """Say it in commands."""
        for name, cause in self.clean_up.remove:
            yield plans.Command(verb="delete", what=f"pod {self.pool.namespace}/{name}", why=cause)
        growth = self.growth
        if growth.create:
            why = f"the queue asks for {growth.wanted} more, and the pool may have {growth.capacity} more"
            what = f"{growth.create} pods of workerpool {self.pool.namespace}/{self.pool.name}"
            yield plans.Command(verb="create", what=what, why=why)


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
