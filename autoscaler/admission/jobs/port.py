"""What a kind of job must be able to do so that it can wait for quota and be resized. No kind is known here.

A kind is one class, an adapter without state: it reads its objects into `Job`, tells which pods belong to which pod
set, and writes what suspends one. Everything else, from quota to gates, is the same for all kinds.
"""

from typing import Protocol

import msgspec

from autoscaler.admission.workloads.workload import Constraints, PodSet, Requests
from autoscaler.api.manifests import Manifest
from autoscaler.kube import kinds, objects


class WantedPods(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Pods of a job that are alike, as the job wants them now."""

    name: str
    """The pod set's name: a DNS label, unique within the job."""
    size: int
    """How many pods the job wants now; those that are done and need not run again are not among them."""
    requests: Requests
    """What each pod requests; the effective request, as the scheduler reckons it."""
    constraints: Constraints = Constraints()
    replica_pods: int = 1
    """How many pods one replica has: growth is granted by whole replicas."""

    @property
    def asked(self) -> PodSet:
        """What a Workload asks for these pods."""
        return PodSet(name=self.name, count=self.size, requests=self.requests, constraints=self.constraints)


class Finished(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """How a job ended."""

    succeeded: bool
    message: str


class Job(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A job of any kind, cut down to what decisions read."""

    meta: objects.Meta
    kind: str
    """The kind, as in its manifest: `Job`."""
    api_version: str
    queue: str | None
    """The LocalQueue that its label names; None: it is not ours."""
    is_suspended: bool
    pod_sets: tuple[WantedPods, ...] = ()
    priority_class: str = ""
    """The PriorityClass of its pods; empty: the cluster's default."""
    finished: Finished | None = None
    left_alone: str | None = None
    """Why it is not queued though it has a label, such as `owned by RayJob train`; None: it is queued."""
    problem: str | None = None
    """Why it cannot be queued as it is, and what to do; None: it can."""


class ResizableJob(Protocol):
    """A kind of job that can be suspended and resized."""

    @property
    def resource(self) -> kinds.ResourceType:
        """Where the API server serves it; a cluster that does not serve the kind has no jobs of it."""
        ...

    def decode(self, raw: bytes | msgspec.Raw) -> Job:
        """Read a job."""
        ...

    def pod_set_of(self, pod: objects.Pod) -> str:
        """Tell which pod set a pod belongs to whose controller is a job of this kind."""
        ...

    def place_of(self, pod: objects.Pod) -> int | None:
        """Return a pod's index among those of its pod set, where a shrink spares the lowest; None: it has none."""
        ...

    def suspension(self, *, is_suspended: bool) -> Manifest:
        """Write the merge patch that suspends a job, or resumes it."""
        ...
