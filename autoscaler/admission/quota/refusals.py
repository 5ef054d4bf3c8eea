"""Why somebody who waits is not admitted, with the numbers that were compared. Worded in one place. Pure.

Nothing is compared here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from autoscaler.admission.quota import amounts
from autoscaler.kube import shapes


class Reason(StrEnum):
    """Why somebody waits; also the reason of the condition QuotaReserved."""

    NO_ROOM = "NoRoom"
    NOT_COVERED = "ResourceNotCovered"
    FLAVORS_CONFLICT = "FlavorsConflict"
    BEHIND = "BehindAnother"
    DISPLACING = "WaitsForDisplaced"
    QUEUE_STOPPED = "ClusterQueueStopped"
    QUEUE_MISSING = "ClusterQueueMissing"
    QUEUE_LEAVING = "ClusterQueueBeingDeleted"
    LOCAL_QUEUE_MISSING = "LocalQueueMissing"
    LOCAL_QUEUE_LEAVING = "LocalQueueBeingDeleted"
    NAMESPACE_REFUSED = "NamespaceRefused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """What one flavor has too little of."""

    flavor: str
    resource: str
    wanted: int
    free: int
    """Less than nothing where more is used than there is."""
    most: int
    """What would be free if nothing were used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Why a flavor cannot be used by a pod set, quota aside."""

    flavor: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why somebody who waits is not admitted."""

    reason: Reason
    queue: str
    """The queue that the reason speaks of: a ClusterQueue or a LocalQueue."""
    pod_set: str = ""
    shortages: tuple[Shortage, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    resource: str = ""
    """The resource that the queue does not cover."""
    other: str = ""
    """Who is waited for."""

    @property
    def lacks_room(self) -> bool:
        """Whether quota that is given back could help: only such a Workload blocks those behind it."""
        return self.reason is Reason.NO_ROOM

    @property
    def never_fits(self) -> bool:
        """Whether none of the flavors would have enough if nothing were used."""
        too_small = {short.flavor for short in self.shortages if short.wanted > short.most}
        return self.lacks_room and too_small == {short.flavor for short in self.shortages}


_SENTENCES: Final[Mapping[Reason, str]] = {
    Reason.NO_ROOM: "{details}",
    Reason.NOT_COVERED: "pod set {pod_set} requests {resource}, which ClusterQueue {queue} has no quota for",
    Reason.FLAVORS_CONFLICT: "no flavor of ClusterQueue {queue} suits pod set {pod_set}: {details}",
    Reason.BEHIND: "waits behind {other} in ClusterQueue {queue}",
    Reason.DISPLACING: "waits until displaced jobs have given their quota back; {details}",
    Reason.QUEUE_STOPPED: "ClusterQueue {queue} is stopped (stopPolicy)",
    Reason.QUEUE_MISSING: "ClusterQueue {queue} does not exist",
    Reason.QUEUE_LEAVING: "ClusterQueue {queue} is being deleted",
    Reason.LOCAL_QUEUE_MISSING: "LocalQueue {queue} does not exist",
    Reason.LOCAL_QUEUE_LEAVING: "LocalQueue {queue} is being deleted",
    Reason.NAMESPACE_REFUSED: "ClusterQueue {queue} does not take jobs of this namespace (namespaceSelector)",
}


def worded(refusal: Refusal) -> str:
    """Say why somebody waits."""
    details = "; ".join([*map(_shortage, refusal.shortages), *map(_conflict, refusal.conflicts)])
    return _SENTENCES[refusal.reason].format(
        details=details,
        queue=refusal.queue,
        pod_set=refusal.pod_set,
        resource=refusal.resource,
        other=refusal.other,
    )


def _shortage(short: Shortage) -> str:
    wanted = amounts.worded(short.resource, short.wanted)
    if short.wanted > short.most:
        most = shapes.worded(short.resource, short.most)
        return f"needs {wanted} of flavor {short.flavor}, which never has more than {most}"
    missing = shapes.worded(short.resource, short.wanted - short.free)
    if short.free < 0:
        over = shapes.worded(short.resource, -short.free)
        return f"needs {wanted} of flavor {short.flavor}, which is used {over} above quota: {missing} missing"
    free = shapes.worded(short.resource, short.free)
    return f"needs {wanted} of flavor {short.flavor}, {free} are free: {missing} missing"


def _conflict(conflict: Conflict) -> str:
    return f"flavor {conflict.flavor} {conflict.why}"
