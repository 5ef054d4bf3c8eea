"""When the toy cluster is at rest, and whether it then is as people want it: every job served, waiting, or growing."""

from collections.abc import Iterator

from tests.model.contents import JobFacts, WorkloadFacts
from tests.model.seen import Seen


def problems(seen: Seen, quota: int, *, preempts: bool, refused: frozenset[str]) -> Iterator[str]:
    """Say what is not as it should be once nothing moves any more."""
    yield from of_objects(seen, refused)
    yield from _unserved(seen, {each.job: each for each in seen.parents.values()}, quota, preempts=preempts)


def of_objects(seen: Seen, refused: frozenset[str]) -> Iterator[str]:
    """Say what is left over or half done, whatever the quota is."""
    parents = {each.job: each for each in seen.parents.values()}
    for workload in seen.parents.values():
        if workload.job not in seen.jobs and not seen.is_outlived(workload):
            yield f"{workload.uid} is left over from a job that is gone"
    for part in seen.slices.values():
        if part.owner not in seen.parents:
            yield f"slice {part.uid} is left over"
    for job in seen.jobs.values():
        yield from _of_job(seen, job, parents.get(job.uid), refused)


def _of_job(seen: Seen, job: JobFacts, workload: WorkloadFacts | None, refused: frozenset[str]) -> Iterator[str]:
    if workload is None:
        yield f"{job.uid} has no Workload"
        return
    if job.finished:
        if workload.granted is not None or not workload.finished:
            yield f"{job.uid} has finished, and its Workload has not"
        return
    pods = seen.pods_of(workload)
    if workload.recorded or workload.folded or workload.withdrawn or workload.evicted or workload.leaving:
        yield f"{workload.uid} is left in the middle of something"
    if workload.granted is None:
        yield from _waiting(seen, job, workload, len(pods))
    else:
        yield from _served(seen, job, workload, refused)


def _served(seen: Seen, job: JobFacts, workload: WorkloadFacts, refused: frozenset[str]) -> Iterator[str]:
    pods, granted = seen.pods_of(workload), workload.granted or 0
    if job.suspended:
        yield f"{job.uid} is admitted and suspended"
    if (workload.spec, len(pods)) != (job.size, job.size):
        yield f"{job.uid} wants {job.size} pods; its Workload says {workload.spec}, and it has {len(pods)}"
    if granted > job.size:
        yield f"{job.uid} wants {job.size} pods and is granted {granted}"
    opened = sum(each.is_open or each.uid in refused for each in pods)
    if opened < granted:
        yield f"{job.uid} is granted {granted} pods, and {opened} are open"
    waiting = sum(each.spec for each in seen.slices_of(workload) if each.granted is None)
    if not workload.resting and (waiting != job.size - granted or waiting != len(seen.slices_of(workload))):
        yield f"{job.uid} wants {job.size} pods, is granted {granted}, and slices for {waiting} wait"


def _waiting(seen: Seen, job: JobFacts, workload: WorkloadFacts, pods: int) -> Iterator[str]:
    if not job.suspended:
        yield f"{job.uid} waits and is not suspended"
    if workload.spec != job.size:
        yield f"{job.uid} wants {job.size} pods, and its Workload asks for {workload.spec}"
    if pods or seen.slices_of(workload):
        yield f"{job.uid} waits, and has pods or slices"


def _unserved(seen: Seen, parents: dict[str, WorkloadFacts], quota: int, *, preempts: bool) -> Iterator[str]:
    """Say who could be served, by what is free or by what others of lower priority have."""
    free = quota - seen.usage
    for job in seen.jobs.values():
        mine = parents.get(job.uid)
        if mine is None or job.finished or mine.resting or not mine.active:
            continue
        others = [each for each in parents.values() if preempts and each.priority < mine.priority]
        room = free + sum(seen.use_of(each) for each in others if not seen.is_outlived(each))
        if mine.granted is None and min(mine.spec, mine.first or mine.spec) <= room:
            yield f"{job.uid} waits and would fit: {room} could be had"
        if mine.granted is not None and mine.granted < job.size and room:
            yield f"{job.uid} grows and there is room for {room}"
        if mine.claim is not None:
            yield f"{job.uid} waits with a claim"
