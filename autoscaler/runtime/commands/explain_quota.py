"""`python -m autoscaler explain workload …` and `… job …`: read the live cluster once, and say why a job waits."""

from collections.abc import Iterator
from typing import Any

from autoscaler.admission.jobs import KINDS
from autoscaler.admission.jobs import port as jobs
from autoscaler.admission.quota.cache import books
from autoscaler.admission.reporting import explaining
from autoscaler.admission.reporting.explaining import Evidence, Explanation
from autoscaler.admission.workloads import workload
from autoscaler.admission.workloads.workload import WORKLOADS
from autoscaler.api import keys, resources
from autoscaler.control import plans
from autoscaler.kube import kinds, objects, port, store
from autoscaler.kube.reading import listing


async def of_workload(api: port.Api, key: objects.Key, *, now: float) -> list[str]:
    """Explain a Workload; NotFoundError if there is none."""
    evidence = await _evidence(api, now)
    found = evidence.tables.workloads.get(key)  # as it was when all else was read
    if found is None:
        raise port.NotFoundError(404, "NotFound", f"there is no Workload {key.namespace}/{key.name}")
    return list(written(explaining.of_workload(evidence, found)))


async def of_job(api: port.Api, key: objects.Key, *, now: float) -> list[str]:
    """Explain a job of any kind that can be queued; NotFoundError if there is none of that name."""
    found = [job for kind in KINDS if (job := await _job(api, kind, key)) is not None]
    if not found:
        named = " or ".join(kind.resource.kind for kind in KINDS)
        raise port.NotFoundError(404, "NotFound", f"there is no {named} {key.namespace}/{key.name}")
    evidence = await _evidence(api, now)
    return [line for job in found for line in written(_of(evidence, job))]


async def of_pod(api: port.Api, pod: objects.Pod, *, now: float) -> list[str]:
    """Explain what a pod behind the gate of quota waits for."""
    owner = pod.meta.controller
    kind = next((each for each in KINDS if owner is not None and each.resource.kind == owner.kind), None)
    evidence = await _evidence(api, now)
    parent = evidence.workload_of(owner.uid) if owner is not None else None
    if parent is None or kind is None:
        why = f"no job with a Workload owns the pod, so nobody opens its gate {keys.ADMISSION_GATE}"
        return [plans.wrapped(why)]
    return list(written(explaining.of_pod(evidence, parent, pod, kind.pod_set_of)))


def written(explanation: Explanation) -> Iterator[str]:
    """Write an explanation down, in lines of 80 characters."""
    yield explanation.title
    yield from plans.facts(explanation.facts)
    if explanation.rows:
        yield f"quota of ClusterQueue {explanation.queue}"
        rows = [(row.flavor, row.resource, row.used, row.claimed, row.quota, row.free) for row in explanation.rows]
        heading = ("FLAVOR", "RESOURCE", "USED", "CLAIMED", "QUOTA", "FREE")
        yield from (f"  {line}" for line in plans.table([heading, *rows]))


def _of(evidence: Evidence, job: jobs.Job) -> Explanation:
    found = evidence.workload_of(job.meta.uid)
    return explaining.of_workload(evidence, found) if found else explaining.of_job_without_workload(job)


async def _job(api: port.Api, kind: jobs.ResizableJob, key: objects.Key) -> jobs.Job | None:
    try:
        return kind.decode(await port.get(api, kind.resource.path(key.name, key.namespace)))
    except port.NotFoundError:
        return None


async def _evidence(api: port.Api, now: float) -> Evidence:
    """Read everything that quota is decided on."""

    async def custom(kind: type[resources.Resource]) -> store.Table[Any]:
        return await listing.table(api, kinds.custom(kind), objects.custom(kind))

    tables = books.Tables(
        workloads=await listing.table(api, WORKLOADS, workload.decode),
        cluster_queues=await custom(resources.ClusterQueue),
        local_queues=await custom(resources.LocalQueue),
        flavors=await custom(resources.ResourceFlavor),
        namespaces=await listing.table(api, kinds.NAMESPACES, objects.simple),
        pods=await listing.table(api, kinds.PODS, objects.pod),
    )
    return Evidence.of(tables, now)
