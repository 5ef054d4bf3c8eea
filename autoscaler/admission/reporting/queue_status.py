"""What ClusterQueues and LocalQueues say of themselves: usage, who waits, whether they can admit anything. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from autoscaler.admission.quota.amounts import Amounts, FlavorResource
from autoscaler.admission.quota.cache.queues import Flavor, Queue
from autoscaler.admission.quota.refusals import Reason, Refusal, worded
from autoscaler.api import conditions, status
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources import ClusterQueue, LocalQueue
from autoscaler.api.resources.base import Condition
from autoscaler.kube import objects, shapes

ACTIVE = "Active"
IN_USE = "InUse"


class Standing(StrEnum):
    """Whether a queue can admit anything, beside the reasons for which work is refused."""

    READY = "Ready"
    FLAVOR_MISSING = "FlavorMissing"
    SOME_FLAVORS_MISSING = "SomeFlavorsMissing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A condition of a queue, as it should be."""

    holds: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """How many Workloads a queue has, and what they use."""

    pending: int = 0
    admitted: int = 0
    usage: Amounts = field(default_factory=dict)


def cluster_queue(
    stored: objects.Custom[ClusterQueue], queue: Queue, numbers: Numbers, active: Said, in_use: str, now: float
) -> Manifest:
    """Return what is to be written into the status of a ClusterQueue; nothing if it says all that."""
    before = stored.resource.status
    wanted = {
        "usage": _usage(queue, numbers.usage),
        "pending": numbers.pending,
        "admitted": numbers.admitted,
        "conditions": said(before.conditions, {ACTIVE: active}, in_use, now),
    }
    return status.changes(before, wanted)


def local_queue(
    stored: objects.Custom[LocalQueue], numbers: Numbers, active: Said, in_use: str, now: float
) -> Manifest:
    """Return what is to be written into the status of a LocalQueue; nothing if it says all that."""
    before = stored.resource.status
    wanted = {
        "pending": numbers.pending,
        "admitted": numbers.admitted,
        "conditions": said(before.conditions, {ACTIVE: active}, in_use, now),
    }
    return status.changes(before, wanted)


def said(before: Iterable[Condition], wanted: Mapping[str, Said], in_use: str, now: float) -> list[Manifest]:
    """Write conditions; who uses it is said only of what is being deleted and still used."""
    told = {**wanted, IN_USE: Said(holds=True, reason=IN_USE, message=in_use)} if in_use else wanted
    there = list(before)
    return [
        conditions.written(kind, holds=each.holds, reason=each.reason, message=each.message, before=there, now=now)
        for kind, each in told.items()
    ]


def of_cluster_queue(queue: Queue, flavors: Mapping[str, Flavor]) -> Said:
    """Tell whether a ClusterQueue can admit anything."""
    if queue.refusal is not None:
        return Said(holds=False, reason=queue.refusal.reason, message=worded(queue.refusal))
    missing = [name for group in queue.groups for name in group.flavors if _is_gone(flavors.get(name))]
    if not missing:
        return Said(holds=True, reason=Standing.READY, message="work that fits is admitted")
    named = f"flavors that do not exist, or are being deleted: {', '.join(missing)}"
    empty = [group for group in queue.groups if all(name in missing for name in group.flavors)]
    if empty:
        covered = sorted({resource for group in empty for resource in group.resources})
        message = f"no flavor is left for {', '.join(covered)}; {named}"
        return Said(holds=False, reason=Standing.FLAVOR_MISSING, message=message)
    message = f"work that fits into other flavors is admitted; {named}"
    return Said(holds=True, reason=Standing.SOME_FLAVORS_MISSING, message=message)


def _is_gone(flavor: Flavor | None) -> bool:
    return flavor is None or flavor.is_leaving


def of_local_queue(
    stored: objects.Custom[LocalQueue], queue: Queue | None, flavors: Mapping[str, Flavor], labels: Mapping[str, str]
) -> Said:
    """Tell whether jobs of a LocalQueue can be admitted."""
    name = stored.resource.spec.cluster_queue
    if stored.meta.deleted_at is not None:
        return _refused(Reason.LOCAL_QUEUE_LEAVING, stored.meta.key.name)
    if queue is None:
        return _refused(Reason.QUEUE_MISSING, name)
    if not queue.takes(labels):
        return _refused(Reason.NAMESPACE_REFUSED, name)
    return of_cluster_queue(queue, flavors)


def _refused(reason: Reason, name: str) -> Said:
    return Said(holds=False, reason=reason, message=worded(Refusal(reason=reason, queue=name)))


def _usage(queue: Queue, used: Amounts) -> list[Manifest]:
    """Write usage by flavor: first what the queue has quota of, in its order, then what is used beside that."""
    resources: dict[str, list[str]] = {}
    for key in (*queue.quotas, *sorted(used.keys() - queue.quotas.keys())):
        resources.setdefault(key.flavor, []).append(key.resource)
    return [
        {"name": flavor, "resources": [_resource(queue, used, FlavorResource(flavor, name)) for name in names]}
        for flavor, names in resources.items()
    ]


def _resource(queue: Queue, used: Amounts, key: FlavorResource) -> Manifest:
    quota, total = queue.quotas.get(key), used.get(key, 0)
    borrowed = max(0, total - (quota.nominal if quota is not None else 0))
    return {"name": key.resource, "total": quantity(key, total), "borrowed": quantity(key, borrowed)}


def quantity(key: FlavorResource, amount: int) -> str:
    """Write an amount as Kubernetes does."""
    if key.resource != shapes.CPU:
        return shapes.worded(key.resource, amount)
    return f"{amount}m" if amount % 1000 else str(amount // 1000)
