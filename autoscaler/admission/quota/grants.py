"""The writes by which quota is granted, claimed and taken back. Pure.

Who gets it, and from whom it is taken, was decided before; nothing is sent.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from autoscaler.admission import writes
from autoscaler.admission.quota.nomination import Nomination
from autoscaler.admission.workloads import workload_status
from autoscaler.admission.workloads.workload import ConditionType, Workload
from autoscaler.admission.workloads.workload_status import Change
from autoscaler.admission.writes import On, Step, Write
from autoscaler.api.manifests import Manifest

PODS_NOT_READY: Final = "PodsNotReadyYet"
NAMED_MAX: Final = 5
"""So many names stand in a message."""


class Eviction(StrEnum):
    """Why a Workload is evicted: the reason of its condition."""

    PREEMPTED = "Preempted"
    RECLAIMED = "Reclaimed"
    QUEUE_STOPPED = "QueueStopped"


def admit(nomination: Nomination, now: float) -> Write:
    """Grant what was found; the claim ends in the same write."""
    workload, queue = nomination.workload, nomination.queue.name
    status: Manifest = {
        "admission": workload_status.admission(nomination.admission),
        "claim": None,
        "position": None,
        "estimatedWaitSeconds": None,
        "conditions": workload_status.with_conditions(workload, _admitted(workload, queue), now),
    }
    if not workload.is_slice and not workload.first_admitted:
        granted = nomination.admission
        status["firstAdmitted"] = workload_status.counts(
            {each.name: granted.count(each.name) for each in workload.pod_sets}
        )
    return writes.patch_status(On.WORKLOAD, Step.ADMIT, workload, status, f"ClusterQueue {queue} has room")


def claim(nomination: Nomination, victims: Sequence[Workload]) -> Write:
    """Note what one will be granted when those whom it displaces are gone; nobody else is admitted into it."""
    status = {"claim": workload_status.admission(nomination.admission)}
    named = [f"{each.meta.key.namespace}/{each.meta.key.name}" for each in victims[:NAMED_MAX]]
    more = f" and {len(victims) - NAMED_MAX} more" if len(victims) > NAMED_MAX else ""
    why = f"it has room once these are evicted, which is under way: {', '.join(named)}{more}"
    return writes.patch_status(On.WORKLOAD, Step.CLAIM, nomination.workload, status, why)


def drop_claim(workload: Workload) -> Write:
    """Let others be admitted into what one can no longer get by displacing anybody, or does not want any more."""
    return writes.patch_status(On.WORKLOAD, Step.CLAIM, workload, {"claim": None}, "displacing others does not help")


def displace(victim: Workload, nomination: Nomination, now: float) -> Write:
    """Evict a Workload for one that has a claim."""
    key = nomination.workload.meta.key
    queue = nomination.queue.name
    if victim.admission is not None and victim.admission.cluster_queue != queue:
        message = f"quota that it borrowed is taken back for {key.namespace}/{key.name} of ClusterQueue {queue}"
        return evict(victim, Eviction.RECLAIMED, message, now)
    return evict(victim, Eviction.PREEMPTED, f"makes room for {key.namespace}/{key.name}, which comes first", now)


def drain(workload: Workload, queue: str, now: float) -> Write:
    """Evict a Workload of a queue that is drained."""
    return evict(workload, Eviction.QUEUE_STOPPED, f"ClusterQueue {queue} is drained (stopPolicy)", now)


def evict(workload: Workload, reason: Eviction, message: str, now: float) -> Write:
    """Tell a Workload to give its quota back; it keeps it until its pods are gone."""
    change = Change(type=ConditionType.EVICTED, holds=True, reason=reason, message=message)
    status = {"conditions": workload_status.with_conditions(workload, [change], now)}
    return writes.patch_status(On.WORKLOAD, Step.EVICT, workload, status, message)


def _admitted(workload: Workload, queue: str) -> list[Change]:
    message = f"admitted by ClusterQueue {queue}"
    changes = [
        Change(type=ConditionType.QUOTA_RESERVED, holds=True, reason="QuotaReserved", message=message),
        Change(type=ConditionType.ADMITTED, holds=True, reason="Admitted", message=message),
    ]
    if not workload.is_slice:
        waits = "not all pods are ready yet"
        changes.append(Change(type=ConditionType.PODS_READY, holds=False, reason=PODS_NOT_READY, message=waits))
    return changes
