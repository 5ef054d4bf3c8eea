"""Which gates to open: first recorded in the Workload, then opened, never more than are granted. Pure.

What cannot be taken back is written down first: recorded and open pods together, those being deleted included, are
never more than min(granted, size). Places are given in the order in which a shrink would spare the pods.
"""

import re
from collections.abc import Container, Iterable
from dataclasses import replace
from typing import Final

from autoscaler import clock
from autoscaler.admission import writes
from autoscaler.admission.job_stages import evictions, grants, lifecycle, manifests
from autoscaler.admission.job_stages.grants import Draft
from autoscaler.admission.state.job_state import JobState, Policy
from autoscaler.admission.workloads.workload import Admission, ConditionType, Requeue
from autoscaler.admission.writes import Event, On, Step, Write
from autoscaler.api.resources.workloads import OPENED_MAX
from autoscaler.kube import objects

_NUMBERS: Final = re.compile(r"(\d+)")


def record(state: JobState, draft: Draft, now: float, policy: Policy) -> Draft:
    """Note which pods are about to be opened, and which are taken back because they did not start."""
    draft = _rested(state, _withdrawn(state, draft, now, policy), now)
    opened = {name: _recorded(state, draft, name, now) for name in {**draft.assignments, **draft.opened}}
    return replace(draft, opened=opened)


def pods(state: JobState, now: float) -> tuple[Write, ...]:
    """Open the gates of recorded pods, and delete pods that were withdrawn."""
    workload = state.workload
    if workload is None or workload.admission is None:
        return ()
    planned: list[Write] = []
    for name, uids in workload.opened.items():
        gated = state.pods.of(name).gated
        planned += [_open(state, workload.admission, name, gated[uid], now) for uid in uids if uid in gated]
    for name, uids in workload.withdrawn.items():
        there = state.pods.of(name).unstarted
        why = "it did not start in time"
        planned += [writes.delete(On.POD, Step.WITHDRAW, there[uid], why) for uid in uids if uid in there]
    return tuple(planned)


def wake_at(state: JobState, now: float, policy: Policy) -> float | None:
    """Return when time alone changes what is to be done about an admitted job."""
    workload = state.workload
    if workload is None:
        return None
    patience = policy.pods_ready_timeout_seconds
    late = [
        evictions.opened_at(pod) + patience for each in state.pods.pod_sets.values() for pod in each.unstarted.values()
    ]
    times = [min(late, default=None), state.lost_at(now)]
    if not workload.holds(ConditionType.PODS_READY):
        times.append(evictions.starts_at(workload) + patience)
    if workload.requeue is not None:
        times.append(workload.requeue.at)
    return clock.earliest(at for at in times if at is not None and at > now)


def _recorded(state: JobState, draft: Draft, name: str, now: float) -> tuple[str, ...]:
    """Keep on record what is still gated, and add what may be opened besides."""
    there = state.pods.of(name)
    listed = [uid for uid in draft.opened.get(name, ()) if uid in state.pods.uids and uid not in there.open]
    kept = dict.fromkeys(uid for uid in listed if not (uid in state.memory.refused and uid in state.memory.touched))
    if draft.withdrawn.get(name):
        return tuple(kept)
    places = min(draft.granted(name), state.size(name)) - len(state.occupying(name, now))
    most = min(places, OPENED_MAX - len(kept))
    if most <= 0:
        return tuple(kept)
    waiting = [pod for uid, pod in there.gated.items() if uid not in kept and uid not in state.memory.refused]
    return (*kept, *(pod.meta.uid for pod in spared_first(state, waiting)[:most]))


def spared_first(state: JobState, waiting: Iterable[objects.Pod]) -> list[objects.Pod]:
    """Sort pods so that those come first that a shrink would spare: lowest index, else oldest, then name by number."""
    kinds = state.pods.kinds

    def rank(pod: objects.Pod) -> tuple[int, float, list[str | int]]:
        place = kinds.place_of(pod) if kinds is not None else None
        by_number = [int(part) if part.isdigit() else part for part in _NUMBERS.split(pod.meta.key.name)]
        return place or 0, pod.meta.created_at, by_number

    return sorted(waiting, key=rank)


def _open(state: JobState, admission: Admission, name: str, pod: objects.Pod, now: float) -> Write:
    """Open a pod's gate; one that was refused for good is changed instead, so that it can be taken off the record."""
    if pod.meta.uid in state.memory.refused:
        why = "the API server refuses to open its gate"
        told = Event(reason="GateNotOpened", message=f"pod {pod.meta.key.name}: {why}", is_warning=True)
        return lifecycle.touch(pod, why, event=told)
    assigned = admission.of(name)
    if assigned is None:
        raise ValueError(f"pod set {name} has pods on record and no quota")
    flavors = [state.flavors[each] for each in sorted(set(assigned.flavors.values())) if each in state.flavors]
    patch = manifests.opened(pod, state.uid, assigned, admission.cluster_queue, now).on(flavors)
    return writes.patch(On.POD, Step.OPEN, pod, patch, f"{assigned.count} pods of {name} are granted")


def _withdrawn(state: JobState, draft: Draft, now: float, policy: Policy) -> Draft:
    """Withdraw pods of a growth that did not start in time, and give their quota back once they are being deleted."""
    workload = state.workload
    if workload is None or not workload.holds(ConditionType.PODS_READY):
        return draft
    withdrawn, assignments, requeue = dict(draft.withdrawn), dict(draft.assignments), draft.requeue
    for name, assigned in draft.assignments.items():
        there = state.pods.of(name)
        kept = dict.fromkeys(uid for uid in withdrawn.get(name, ()) if uid in there.unstarted)
        gone = [uid for uid in withdrawn.get(name, ()) if uid not in there.open or uid in there.leaving]
        if gone:
            least = len(state.staying(name))
            lowered = max(assigned.count - len(gone), min(assigned.count, least))
            assignments[name] = assigned.with_count(lowered)
            requeue = _later(requeue, now)
        withdrawn[name] = (*kept, *_late(state, name, now, policy, known=kept)[: OPENED_MAX - len(kept)])
    return replace(draft, withdrawn=withdrawn, assignments=assignments, requeue=requeue)


def _late(state: JobState, name: str, now: float, policy: Policy, *, known: Container[str]) -> list[str]:
    """Return the pods whose gate was opened long ago and that never started."""
    patience = policy.pods_ready_timeout_seconds
    there = state.pods.of(name).unstarted
    return sorted(uid for uid, pod in there.items() if uid not in known and evictions.opened_at(pod) + patience <= now)


def _later(before: Requeue | None, now: float) -> Requeue:
    count = before.count + 1 if before is not None else 1
    tried = before.flavors_tried if before is not None else ()
    return Requeue(count=count, at=now + evictions.REQUEUE.pause(count), flavors_tried=tried)


def _rested(state: JobState, draft: Draft, now: float) -> Draft:
    """Forget attempts that failed once all pods that the job wants have started."""
    is_over = draft.requeue is not None and now >= draft.requeue.at
    is_whole = all(state.size(name) <= draft.granted(name) for name in draft.assignments)
    return replace(draft, requeue=None) if is_over and is_whole and grants.is_ready(state, draft) else draft
