"""The numbers of ClusterQueues, as metrics. Pure: who counts them says what they are, here is how they are shown."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from autoscaler.control import metrics
from autoscaler.kube import shapes

_PREFIX: Final = "sluice_admission"


class Quota(NamedTuple):
    """What a queue has and uses of one resource of one flavor: cpu in millis, all else in units."""

    flavor: str
    resource: str
    nominal: int
    used: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueNumbers:
    """How one ClusterQueue stands."""

    name: str
    pending: int = 0
    """Workloads that wait; slices are not counted."""
    admitted: int = 0
    """Workloads that have their quota."""
    oldest_pending_seconds: float = 0
    """How long the Workload has waited that has waited longest; 0: none waits."""
    gated_pods: int = 0
    """Pods of this queue's jobs whose gate is not opened yet."""
    quotas: Sequence[Quota] = ()
    """All that the queue has quota of, used or not, and what is used beside that."""
    admissions: int = 0
    """Workloads and slices admitted since this process leads."""
    evictions: Mapping[str, int] = field(default_factory=dict)
    """Workloads evicted since this process leads, by reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycles:
    """All cycles since this process leads."""

    count: int = 0
    seconds: float = 0


def of(queues: Iterable[QueueNumbers], cycles: Cycles) -> Iterable[metrics.Metric]:
    """Return the numbers of all queues and of the cycles that served them."""
    known = sorted(queues, key=lambda queue: queue.name)
    yield _gauge("pending_workloads", "Workloads that wait for quota.", [(one, one.pending) for one in known])
    yield _gauge("admitted_workloads", "Workloads that have their quota.", [(one, one.admitted) for one in known])
    waits = [(one, one.oldest_pending_seconds) for one in known]
    yield _gauge("oldest_pending_seconds", "The longest that a Workload has waited for quota.", waits)
    yield _gauge("gated_pods", "Pods that wait for their gate to be opened.", [(one, one.gated_pods) for one in known])
    quotas = [(_labels(queue, quota), quota) for queue in known for quota in queue.quotas]
    used = [(labels, _shown(quota, quota.used)) for labels, quota in quotas]
    yield metrics.gauge(f"{_PREFIX}_usage", "How much of a flavor's resource a queue uses, borrowed included.", used)
    nominal = [(labels, _shown(quota, quota.nominal)) for labels, quota in quotas]
    yield metrics.gauge(f"{_PREFIX}_quota", "How much of a flavor's resource is a queue's own.", nominal)
    admissions = [({"cluster_queue": one.name}, one.admissions) for one in known]
    yield metrics.counter(f"{_PREFIX}_admissions", "Workloads and slices that were admitted.", admissions)
    evictions = [
        ({"cluster_queue": one.name, "reason": reason}, number)
        for one in known
        for reason, number in sorted(one.evictions.items())
    ]
    yield metrics.counter(f"{_PREFIX}_evictions", "Workloads that were evicted, by reason.", evictions)
    name, text = f"{_PREFIX}_cycle_seconds", "How long cycles of admission take."
    yield metrics.summary(name, text, [({}, cycles.seconds, cycles.count)])


def _gauge(name: str, text: str, numbers: Iterable[tuple[QueueNumbers, float]]) -> metrics.Metric:
    return metrics.gauge(f"{_PREFIX}_{name}", text, [({"cluster_queue": one.name}, value) for one, value in numbers])


def _labels(queue: QueueNumbers, quota: Quota) -> dict[str, str]:
    return {"cluster_queue": queue.name, "flavor": quota.flavor, "resource": quota.resource}


def _shown(quota: Quota, amount: int) -> float:
    """Return an amount in cores, bytes or units, as people and other metrics count."""
    return amount / 1000 if quota.resource == shapes.CPU else amount
