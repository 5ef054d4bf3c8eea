"""Leave queued jobs behind: when the stack goes, no pod may hang on a gate, and no object on a finalizer, of ours.

Gates of live pods are opened; jobs that are suspended stay so and are told. Nothing is admitted any more. Pods that are
made after that are let through for as long as this process lives.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import structlog

from autoscaler import control
from autoscaler.admission.jobs import port as jobs
from autoscaler.admission.state import gated_pods
from autoscaler.api import controllers, keys, resources
from autoscaler.control import farewell
from autoscaler.kube import kinds, objects, store
from autoscaler.kube.reading import listing
from autoscaler.kube.writing import batch, finalizers, writer

log = structlog.get_logger()
TOLD_AT_ONCE: Final = 500
"""So many jobs are told before the next are: the rest would find no room among the events."""
TELL_SECONDS: Final = 120.0
"""How long telling so many may take; who was not told by then is not told."""
HELD: Final = (resources.Workload, resources.LocalQueue, resources.ClusterQueue, resources.ResourceFlavor)
"""What carries our finalizer."""
STAYS_SUSPENDED: Final = (
    f"Sluice leaves this cluster: the job stays suspended, and its pods would wait behind the gate "
    f"{keys.ADMISSION_GATE} that nobody opens. To run it, make it anew without the label {keys.QUEUE_NAME}"
)


class Leaving:
    """Lets go of all queued jobs."""

    def __init__(
        self,
        context: control.ControllerContext,
        job_kinds: Iterable[jobs.ResizableJob],
        pods: store.Table[objects.Pod],
    ) -> None:
        self._context = context
        self._kinds = tuple(job_kinds)
        self._pods = pods
        self._gated = gated_pods.of(pods)
        self._told: set[str] = set()
        self._farewell = farewell.Farewell(context, controllers.ADMISSION, self._leave, once_left=self._open_gates)
        self.carry_out = self._farewell.carry_out

    @property
    def is_leaving(self) -> bool:
        """Whether nothing is to be admitted any more."""
        if not self._farewell.is_leaving:
            self._told.clear()
        return self._farewell.is_leaving

    async def _leave(self) -> None:
        """Open gates, tell who stays suspended, and take finalizers off."""
        pods, _ = await listing.read_readable(self._context.api, kinds.PODS, objects.pod)
        opened = await self._open(pod for pod in pods if gated_pods.waits(pod))
        told = await self._tell_suspended()
        freed = await self._free()
        log.info("queued_jobs_let_go", gates=opened, suspended=told, objects=freed)

    async def _open_gates(self) -> None:
        await self._open(self._still_gated())

    def _still_gated(self) -> Iterator[objects.Pod]:
        """Return the pods that were made behind a gate since."""
        for group in self._gated.as_dict().values():
            yield from (pod for key in group.keys.values() if (pod := self._pods.get(key)) is not None)

    async def _open(self, waiting: Iterable[objects.Pod]) -> int:
        """Open our gate of pods; other gates stay."""
        there = list(waiting)
        await batch.all_of(there, self._open_one)
        return len(there)

    async def _open_one(self, pod: objects.Pod) -> None:
        target = writer.Target(resource=kinds.PODS, decode=objects.pod, table=self._pods)
        changes = {"spec": {"schedulingGates": objects.other_gates(pod, keys.ADMISSION_GATE)}}
        only_if, attempts = writer.Precondition.of(pod), self._farewell.attempts
        await self._context.writer.patch(target, pod.meta.key, changes, only_if=only_if, attempts=attempts)

    async def _tell_suspended(self) -> int:
        """Tell each suspended job of our queues, once, that it stays suspended."""
        found: list[tuple[kinds.ResourceType, jobs.Job]] = []
        for kind in self._kinds:
            listed, _ = await listing.read_readable(self._context.api, kind.resource, kind.decode)
            found += [(kind.resource, job) for job in listed if stays_suspended(job)]
        untold = [each for each in found if each[1].meta.uid not in self._told]
        for start in range(0, len(untold), TOLD_AT_ONCE):
            await self._tell(untold[start : start + TOLD_AT_ONCE])
        return len(found)

    async def _tell(self, some: Sequence[tuple[kinds.ResourceType, jobs.Job]]) -> None:
        loop = asyncio.get_running_loop()
        ends: list[asyncio.Future[bool]] = []
        for resource, job in some:
            self._told.add(job.meta.uid)
            ends.append(loop.create_future())
            self._context.tell(
                resource,
                job,
                "StaysSuspended",
                STAYS_SUSPENDED,
                is_warning=True,
                is_change=True,
                ended=_Setter(ends[-1]),
            )
        done, late = await asyncio.wait(ends, timeout=TELL_SECONDS)
        untold = len(late) + sum(not each.result() for each in done)
        if untold:
            log.warning("suspended_jobs_not_told", jobs=untold)

    async def _free(self) -> int:
        """Take our finalizer off Workloads, queues and flavors, also off those that make no sense to us."""
        held: list[tuple[kinds.ResourceType, objects.Simple]] = []
        for kind in HELD:
            resource = kinds.custom(kind)
            listed = await listing.read(self._context.api, resource, objects.simple)
            held += [(resource, each) for each in listed if keys.FINALIZER in each.meta.finalizers]
        await batch.all_of(held, self._let_go)
        return len(held)

    async def _let_go(self, held: tuple[kinds.ResourceType, objects.Simple]) -> None:
        resource, stored = held
        target: writer.Target[objects.Simple] = writer.Target(resource=resource, decode=objects.simple)
        await finalizers.remove(self._context.writer, target, stored, keys.FINALIZER, attempts=self._farewell.attempts)


class _Setter:
    """Notes in a future whether an event was taken."""

    def __init__(self, future: asyncio.Future[bool]) -> None:
        self._future = future

    def __call__(self, is_told: bool) -> None:  # noqa: FBT001  # a callback's shape
        if not self._future.done():
            self._future.set_result(is_told)


def stays_suspended(job: jobs.Job) -> bool:
    """Tell whether a job of our queues is suspended, and stays so when nobody is left to resume it."""
    is_queued = job.queue is not None and job.left_alone is None
    return is_queued and job.is_suspended and job.finished is None and job.meta.deleted_at is None
