"""How a stack wants queued jobs handled, beyond what queues and flavors say themselves. What it tells the runtime.

Values only: the runtime's admission controller decides by them.
"""

from typing import Annotated, Final

from pydantic import Field

from autoscaler.api.resources.base import Model

PODS_READY_TIMEOUT_MINUTES: Final = 30
"""The timeout where nobody says otherwise."""

Minutes = Annotated[int, Field(ge=1, le=7 * 24 * 60)]


class FeatureGates(Model):
    """What can be switched off while it is new."""

    elastic_jobs: bool = True
    """Whether a queued job may grow without being suspended: what it grows by waits for quota by itself. false: a job
    that grows is suspended and queued again as a whole."""


class QueuedJobs(Model):
    """How queued jobs are handled."""

    feature_gates: FeatureGates = FeatureGates()
    """What can be switched off while it is new."""
    pods_ready_timeout_minutes: Minutes = PODS_READY_TIMEOUT_MINUTES
    """A job whose pods were not all ready this long after its admission gives its quota back."""

    @property
    def pods_ready_timeout_seconds(self) -> float:
        """The timeout, as the runtime counts it."""
        return self.pods_ready_timeout_minutes * 60.0
