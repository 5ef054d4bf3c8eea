"""Pods whose gate we opened and whose job has no Workload with quota any more: they use quota until they are gone.

Pods that their job does not own any more are not ended with it: a Workload keeps its quota for as long as they run.
Pods are added up by job, so that a Workload that comes or goes costs the same however many pods its job has. They are
counted, and nothing is done to them.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from autoscaler.admission.quota import amounts
from autoscaler.admission.quota.amounts import FlavorResource
from autoscaler.admission.quota.cache import usage
from autoscaler.admission.quota.cache.usage import Use
from autoscaler.admission.workloads.workload import Workload
from autoscaler.api import keys
from autoscaler.kube import objects


@dataclass(slots=True)
class _OfJob:
    """What the open pods of one job use, by queue."""

    pods: int = 0
    queues: dict[str, dict[FlavorResource, int]] = field(default_factory=dict)

    def add(self, use: Use, times: int) -> None:
        self.pods += times
        amounts.add(self.queues.setdefault(use.queue, {}), use.amounts, times)


class Strays:
    """The open pods of all jobs, of which those without an admitted Workload are counted."""

    def __init__(self, count: Callable[[Use, int], None], moved: Callable[[str], None]) -> None:
        """Call `count` with what strays use, and 1 where it is used now or -1 where it is no longer.

        Call `moved` with the queue in which a Workload may or may not be about to give its quota back now.
        """
        self._count = count
        self._moved = moved
        self._orphans: Counter[str] = Counter()
        """How many pods of each job run on whatever becomes of the job."""
        self._jobs: dict[str, _OfJob] = {}
        self._workloads: Counter[str] = Counter()

    def pod_changed(self, old: objects.Pod | None, new: objects.Pod | None) -> None:
        """Take over one change of the table of pods."""
        before = usage.of_pod(old) if old is not None else None
        after = usage.of_pod(new) if new is not None else None
        was_orphan, is_orphan = _is_orphan(old), _is_orphan(new)
        if (before, was_orphan) == (after, is_orphan):
            return
        if after is not None:
            self._add(*after, 1)
            self._add_orphan(*after, int(is_orphan))
        if before is not None:
            self._add(*before, -1)
            self._add_orphan(*before, -int(was_orphan))

    def has_orphans(self, job: str) -> bool:
        """Tell whether pods of a job run on whatever becomes of it, so that its Workload keeps its quota."""
        return job in self._orphans

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        """Take over one change of the table of Workloads."""
        before, after = _counted_for(old), _counted_for(new)
        if before == after:
            return
        if after is not None:
            self._workloads[after] += 1
            if self._workloads[after] == 1:
                self._count_all(after, -1)
        if before is not None:
            self._workloads[before] -= 1
            if not self._workloads[before]:
                del self._workloads[before]
                self._count_all(before, 1)

    def _add(self, job: str, use: Use, times: int) -> None:
        found = self._jobs.setdefault(job, _OfJob())
        found.add(use, times)
        if not found.pods:
            del self._jobs[job]
        if job not in self._workloads:
            self._count(use, times)

    def _add_orphan(self, job: str, use: Use, times: int) -> None:
        if times:
            self._orphans[job] += times
            if not self._orphans[job]:
                del self._orphans[job]
            self._moved(use.queue)

    def _count_all(self, job: str, times: int) -> None:
        found = self._jobs.get(job)
        for queue, total in found.queues.items() if found is not None else ():
            self._count(Use(queue, total), times)


def _counted_for(workload: Workload | None) -> str | None:
    """Return the UID of the job whose pods a Workload's own quota is for; None: it has none, or is a slice."""
    if workload is None or workload.is_slice or workload.admission is None:
        return None
    return workload.job_uid


def _is_orphan(pod: objects.Pod | None) -> bool:
    """Tell whether the job for which a pod's gate was opened does not own it, and nobody deletes it."""
    if pod is None or pod.meta.deleted_at is not None:
        return False
    owner = pod.meta.controller
    return owner is None or owner.uid != pod.meta.annotations.get(keys.JOB_UID)
