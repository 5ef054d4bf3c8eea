"""What a controller is built from besides its ControllerContext: what a person chose, and the world outside.

It is the same for all controllers, and each takes what it needs. On a simulated cluster the world outside is simulated
too; no controller can tell. Nothing here decides or connects.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from autoscaler import control
from autoscaler.api.permissions import WorkerScope
from autoscaler.api.resources.accounts import ProviderAccountSpec
from autoscaler.api.settings import sleepers
from autoscaler.api.settings.scaling import Scaling
from autoscaler.cloud import port as cloud
from autoscaler.queues import port as queues


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a controller is to run, and what it reaches outside of the API server."""

    open_queues: Callable[[control.ControllerContext], queues.Queues]
    """Make what reads the queues of worker pools, within the loop."""
    open_cloud: Callable[[control.ControllerContext, str, ProviderAccountSpec], Awaitable[cloud.Cloud]]
    """Make the cloud of a ProviderAccount, by its name; raises CloudError if it cannot be used."""
    open_interruptions: Callable[[], cloud.Interruptions] | None = None
    """Make what tells of instances that are about to go; None: nothing does."""
    scope: WorkerScope = WorkerScope.NAMESPACE
    """Which worker pools are handled."""
    class_name: str | None = None
    """The class of worker pools that this run is for; None: those without a class."""
    classes: frozenset[str | None] = frozenset({None})
    """All classes that this runtime handles, this run's and those of others beside it."""
    scaling: Scaling = field(default_factory=Scaling)
    """How nodes are scaled."""
    elastic_jobs: bool = True
    """Whether a queued job may grow without being suspended; False: it is suspended and queued again as a whole."""
    pods_ready_timeout_seconds: float = 1800.0
    """A job whose pods were not all ready so long after its admission gives its quota back."""
    sleeper_image: str = sleepers.IMAGE
    """The image of pods that hold the room of machines."""
    suffix: Callable[[], str] | None = None
    """Makes the random part of a pod's name; None: as random as this computer can."""


class Build(Protocol):
    """What the room of a controller exports as `build`."""

    def __call__(self, context: control.ControllerContext, options: Options) -> control.Controller: ...
