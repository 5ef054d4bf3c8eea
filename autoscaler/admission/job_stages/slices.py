"""Slices: one Workload for each replica that a job has grown by, made and deleted as the job wants them. Pure.

They are made only while the Workload's spec is what the job wants. Those that were counted are deleted, those whose
pods want something else by now, and of those that are too many the newest; but only once the Workload's spec says so,
too: a write that counts such a slice may be under way, and must not succeed after the slice has given its quota back.
"""

from collections.abc import Iterable
from typing import Final

from autoscaler.admission import writes
from autoscaler.admission.job_stages import manifests
from autoscaler.admission.jobs.port import WantedPods
from autoscaler.admission.state.job_state import JobState
from autoscaler.admission.workloads.workload import Workload
from autoscaler.admission.writes import On, Step, Write
from autoscaler.control.writes import Verb
from autoscaler.kube.objects import Key

AT_ONCE: Final = 500
"""So many slices of a pod set exist at most; more are made as these are counted."""


def wanted(state: JobState, now: float) -> tuple[Write, ...]:
    """Make the slices that are missing, and delete those that were counted or are too many."""
    job, workload = state.wanted, state.workload
    if job is None or workload is None:
        return ()
    names = {each.pod_sets[0].name for each in state.slices}
    sets = {each.name: each for each in job.pod_sets}
    planned = [*_counted(state, workload), *_outdated(state), *_orphaned(state)]
    for name in sorted(names | sets.keys()):
        planned += _surplus(state, workload, name)
        if name in sets:
            planned += _missing(state, workload, sets[name], now)
    return tuple(planned)


def _counted(state: JobState, workload: Workload) -> Iterable[Write]:
    counted = [each for each in state.slices if each.meta.uid in workload.folded and not each.is_leaving]
    return [writes.delete(On.WORKLOAD, Step.SLICE, each, "its pods are counted in the Workload") for each in counted]


def _outdated(state: JobState) -> Iterable[Write]:
    there = [each for each in state.outdated if not each.is_leaving]
    return [writes.delete(On.WORKLOAD, Step.SLICE, each, "its pods want something else by now") for each in there]


def _orphaned(state: JobState) -> Iterable[Write]:
    there = [each for each in state.orphans if not each.is_leaving]
    return [writes.delete(On.WORKLOAD, Step.SLICE, each, "its Workload is gone") for each in there]


def _surplus(state: JobState, workload: Workload, name: str) -> Iterable[Write]:
    """Delete slices, newest first, for as long as the rest is still enough."""
    pod_set = workload.pod_set(name)
    if (pod_set.count if pod_set is not None else 0) != max(state.size(name), state.granted(name)):
        return []
    there = [each for each in state.unfolded(name) if not each.is_leaving]
    total, planned = sum(each.pod_sets[0].count for each in there), []
    for each in reversed(there):
        total -= each.pod_sets[0].count
        if total < _growth(state, name):
            break
        planned.append(writes.delete(On.WORKLOAD, Step.SLICE, each, "the job wants fewer pods"))
    return planned


def _missing(state: JobState, workload: Workload, pods: WantedPods, now: float) -> Iterable[Write]:
    """Make the slices that are missing, with the lowest ordinals that are free."""
    if workload.pod_set(pods.name) != pods.asked or _is_resting(workload, now):
        return []
    there = [each for each in state.unfolded(pods.name) if not each.is_leaving]
    pods_missing = _growth(state, pods.name) - sum(each.pod_sets[0].count for each in there)
    missing = min(-(-pods_missing // pods.replica_pods), AT_ONCE - len(there))
    taken = {each.meta.key.name for each in state.slices}
    return [_made(workload, pods, ordinal) for ordinal in _free_ordinals(workload, pods.name, taken, missing)]


def _growth(state: JobState, name: str) -> int:
    """Return how many pods are wanted and not granted; negative: more are granted."""
    return state.size(name) - state.granted(name)


def _is_resting(workload: Workload, now: float) -> bool:
    """Tell whether pods of an earlier growth did not start, and it is too soon to ask again."""
    return workload.requeue is not None and now < workload.requeue.at


def _free_ordinals(workload: Workload, pod_set: str, taken: set[str], count: int) -> list[int]:
    free: list[int] = []
    ordinal = 0
    while len(free) < count:
        if manifests.slice_name(workload, pod_set, ordinal) not in taken:
            free.append(ordinal)
        ordinal += 1
    return free


def _made(workload: Workload, pods: WantedPods, ordinal: int) -> Write:
    return Write(
        step=Step.SLICE,
        on=On.WORKLOAD,
        verb=Verb.CREATE,
        key=Key(workload.meta.key.namespace, manifests.slice_name(workload, pods.name, ordinal)),
        body=manifests.slice_of(workload, pods, ordinal),
        why=f"{pods.name} has grown by a replica",
    )
