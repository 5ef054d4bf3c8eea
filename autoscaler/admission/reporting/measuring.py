"""Count what admission does, and gather the numbers of queues when somebody asks for metrics.

There are as many series as ClusterQueues, and of usage and quota as these name, or still use, flavors and resources: a
queue that is gone takes its numbers along. Gathering costs as much as there are queues and owners of gated pods.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from autoscaler import clock
from autoscaler.admission.quota.cache.books import Books
from autoscaler.admission.reporting import queue_metrics
from autoscaler.admission.reporting.queue_metrics import Cycles, QueueNumbers, Quota
from autoscaler.admission.reporting.queue_reports import QueueReports
from autoscaler.admission.state.gated_pods import GatedPods
from autoscaler.admission.state.known import Known
from autoscaler.admission.workloads.workload import ConditionType
from autoscaler.admission.writes import Step, Write
from autoscaler.control import metrics


class Measuring:
    """The numbers of all ClusterQueues."""

    def __init__(self, time: clock.Clock, books: Books, queues: QueueReports, gated: GatedPods, jobs: Known) -> None:
        self._clock = time
        self._books = books
        self._queues = queues
        self._gated = gated
        self._jobs = jobs
        self._admissions: Counter[str] = Counter()
        self._evictions: dict[str, Counter[str]] = {}
        """By ClusterQueue and reason."""
        self._cycles = Cycles()

    def count(self, done: Iterable[Write]) -> None:
        """Count writes that were done."""
        for write in done:
            if write.step is Step.ADMIT:
                self._admissions[write.body["admission"]["clusterQueue"]] += 1
            elif write.step is Step.EVICT:
                stored = self._books.get(write.uid)
                queue = stored.admission.cluster_queue if stored is not None and stored.admission is not None else ""
                self._evictions.setdefault(queue, Counter())[_reason(write)] += 1

    def cycle_took(self, seconds: float) -> None:
        """Count one cycle."""
        self._cycles = replace(self._cycles, count=self._cycles.count + 1, seconds=self._cycles.seconds + seconds)

    def gather(self) -> Iterable[metrics.Metric]:
        """Return the numbers as they are now."""
        self._forget()
        gated = self._gated_pods()
        return queue_metrics.of((self._of(name, gated) for name in self._books.queues), self._cycles)

    def _of(self, name: str, gated: Counter[str]) -> QueueNumbers:
        queue, numbers = self._books.queues[name], self._queues.numbers(name)
        since = self._queues.waits_since(name)
        nominal = {key: quota.nominal for key, quota in queue.quotas.items()}
        return QueueNumbers(
            name=name,
            pending=numbers.pending,
            admitted=numbers.admitted,
            oldest_pending_seconds=max(0.0, self._clock.now() - since) if since is not None else 0.0,
            gated_pods=gated[name],
            quotas=tuple(
                Quota(key.flavor, key.resource, nominal.get(key, 0), numbers.usage.get(key, 0))
                for key in {**nominal, **numbers.usage}
            ),
            admissions=self._admissions[name],
            evictions=self._evictions.get(name, {}),
        )

    def _gated_pods(self) -> Counter[str]:
        """Count the gated pods of jobs by the ClusterQueue that their Workload has quota of, or waits for."""
        found: Counter[str] = Counter()
        for uid, group in self._gated.as_dict().items():
            stored = self._jobs.workload(uid)
            queue = self._books.queue_of(stored) if stored is not None else None
            if queue is not None:
                found[queue] += len(group)
        return found

    def _forget(self) -> None:
        """Forget what was counted of queues that are gone."""
        there = self._books.queues
        self._admissions = Counter({name: count for name, count in self._admissions.items() if name in there})
        self._evictions = {name: counts for name, counts in self._evictions.items() if name in there}


def _reason(write: Write) -> str:
    told = (each["reason"] for each in write.body["conditions"] if each["type"] == ConditionType.EVICTED)
    return next(told, "")
