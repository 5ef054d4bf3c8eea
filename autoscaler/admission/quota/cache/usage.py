"""What a Workload, a slice or a pod without a Workload uses of which quota. Pure.

usage = min(spec, granted) + admitted slices not yet folded + open pods whose job has no admitted Workload. What is
left of a quota is not known here.
"""

from collections.abc import Mapping
from typing import NamedTuple

from autoscaler.admission.quota import amounts
from autoscaler.admission.quota.amounts import Amounts, FlavorResource
from autoscaler.admission.workloads.workload import Admission, Requests, Workload
from autoscaler.api import keys
from autoscaler.kube import objects


class Use(NamedTuple):
    """So much of one queue's quota."""

    queue: str
    amounts: Amounts


def granted(workload: Workload, admission: Admission) -> Use:
    """Return what an admission, or a claim, takes of its queue: of each pod set no more than it wants now."""
    total: dict[FlavorResource, int] = {}
    wanted = {each.name: each for each in workload.pod_sets}
    for assignment in admission.assignments:
        pod_set = wanted.get(assignment.name)
        if pod_set is not None:
            _add(total, pod_set.requests, min(pod_set.count, assignment.count), assignment.flavors)
    return Use(admission.cluster_queue, total)


def of(workload: Workload, parent: Workload | None) -> Use | None:
    """Return what a Workload uses, or a slice of `parent`; None: nothing."""
    if workload.admission is None or (workload.is_slice and not counts(workload, parent)):
        return None
    return granted(workload, workload.admission)


def counts(part: Workload, parent: Workload | None) -> bool:
    """Tell whether an admitted slice uses quota of its own: its parent has some, and it is not folded in yet."""
    if parent is None or parent.admission is None or parent.is_evicted or parent.is_finished:
        return False
    return part.meta.uid not in parent.folded


def of_pod(pod: objects.Pod) -> tuple[str, Use] | None:
    """Return the job's UID and what a pod uses whose gate we opened; None: it uses nothing, or not through us."""
    notes = pod.meta.annotations
    job = notes.get(keys.JOB_UID)
    if job is None or pod.is_terminal or keys.ADMISSION_GATE in pod.gates:
        return None
    total: dict[FlavorResource, int] = {}
    _add(total, pod.shape.requests, 1, _flavors(notes.get(keys.FLAVORS, "")))
    return job, Use(notes.get(keys.CLUSTER_QUEUE, ""), total)


def _add(total: dict[FlavorResource, int], requests: Requests, count: int, flavors: Mapping[str, str]) -> None:
    each = {FlavorResource(flavor, resource): requests.get(resource, 0) for resource, flavor in flavors.items()}
    amounts.add(total, each, count)


def _flavors(stamp: str) -> dict[str, str]:
    parts = (each.partition("=") for each in stamp.split(","))
    return {resource: flavor for resource, _, flavor in parts}
