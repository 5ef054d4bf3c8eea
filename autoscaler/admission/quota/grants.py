"""The writes by which quota is granted, claimed and taken back. Pure."""

from typing import Final

from autoscaler.admission import workload_status, writes
from autoscaler.admission.quota.nomination import Nomination
from autoscaler.admission.workload import ConditionType, Workload
from autoscaler.admission.workload_status import Change
from autoscaler.admission.writes import On, Step, Write
from autoscaler.api.manifests import Manifest

PODS_NOT_READY: Final = "PodsNotReadyYet"


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


def _admitted(workload: Workload, queue: str) -> list[Change]:
    message = f"admitted by ClusterQueue {queue}"
    changes = [
        Change(type=ConditionType.QUOTA_RESERVED, holds=True, reason="QuotaReserved", message=message),
        Change(type=ConditionType.ADMITTED, holds=True, reason="Admitted", message=message),
    ]
    if not workload.is_slice:
        waits = "not all pods are ready yet"
        changes.append(Change(type=ConditionType.PODS_READY, holds=False, reason=PODS_NOT_READY, message=waits))
    if ConditionType.EVICTED in workload.conditions:
        changes.append(Change(type=ConditionType.EVICTED, holds=False, reason="Admitted", message=message))
    return changes
