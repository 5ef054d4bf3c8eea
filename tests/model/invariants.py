"""What must be true of every state and every step, reckoned from the server's objects alone.

Nothing here calls what it judges: usage, places and slices are counted anew.
"""

from collections.abc import Iterator

from autoscaler.admission.writes import Step
from tests.model.contents import PodFacts, WorkloadFacts
from tests.model.search import Cause
from tests.model.seen import Seen
from tests.model.world import Move


def of_state(seen: Seen, quota: int) -> Iterator[str]:
    """Say what is wrong with a state."""
    if seen.usage > quota:
        yield f"usage is {seen.usage}, more than the quota of {quota}"
    running = sum(each.is_open and not each.leaving for each in seen.pods.values())
    if running > quota:
        yield f"{running} pods may run and are not being deleted, on a quota of {quota}"
    yield from of_grants(seen)


def of_grants(seen: Seen) -> Iterator[str]:
    """Say what is wrong with a state whatever the quota is."""
    for each in seen.parents.values():
        yield from _of_workload(seen, each)


def _of_workload(seen: Seen, workload: WorkloadFacts) -> Iterator[str]:
    granted = workload.granted or 0
    if granted > workload.spec:
        yield f"{workload.uid} is granted {granted}, more than its spec of {workload.spec}"
    pods = seen.pods_of(workload)
    counted = [
        each for each in pods if each.uid in workload.recorded or (each.is_open and workload.granted is not None)
    ]
    staying = [each for each in counted if not each.leaving]  # where nothing is granted, open ones count by themselves
    if len(staying) > granted:
        yield f"{len(staying)} pods of {workload.uid} are open or recorded and stay, of {granted} that are granted"


def of_step(move: Move, before: Seen, after: Seen, quota: int) -> Iterator[str]:
    """Say what is wrong with a step."""
    yield from of_change(move, before, after)
    sent = move.sent
    if sent is not None and sent.step is Step.ADMIT:
        claimed = after.claims(besides=sent.uid)
        if claimed and after.usage + claimed > quota:
            yield f"{sent.uid} was admitted into what is claimed by another"
    if sent is not None and sent.step is Step.EVICT and sent.by_quota and not move.late:
        yield from _evicted(before, sent.uid, quota)


def of_change(move: Move, before: Seen, after: Seen) -> Iterator[str]:
    """Say what is wrong with a step whatever the quota is."""
    sent = move.sent
    admits = sent is not None and sent.step is Step.ADMIT
    if after.usage > before.usage and not admits:
        yield f"usage rose from {before.usage} to {after.usage} without anybody being admitted"
    for uid, old in before.parents.items():
        new = after.parents.get(uid)
        if move.cause is not Cause.PEOPLE:
            yield from _given_back(before, old, new)
        if new is not None and old != new:
            yield from _changed(after, old, new)
    for uid, pod in before.pods.items():
        now = after.pods.get(uid)
        if now is not None and pod.gated and not now.gated:
            yield from _opened(before, now)
    if admits and sent is not None:
        yield from _admitted(before, sent.uid)


def _given_back(before: Seen, old: WorkloadFacts, new: WorkloadFacts | None) -> Iterator[str]:
    if old.granted is None or (new is not None and new.granted is not None):
        return
    held = [each for each in before.pods_of(old) if each.is_open or each.uid in old.recorded]
    if held:
        yield f"{old.uid} gave its quota back while {held[0].uid} was open or recorded"
    if _granted_slices(before, old):
        yield f"{old.uid} gave its quota back while it had slices that were admitted"


def _granted_slices(seen: Seen, parent: WorkloadFacts) -> bool:
    """Tell whether slices of a Workload have quota; one that has none may be there unseen, and does no harm."""
    return any(each.granted is not None for each in seen.slices_of(parent))


def _changed(after: Seen, old: WorkloadFacts, new: WorkloadFacts) -> Iterator[str]:
    added = new.recorded - old.recorded
    taken = [each for each in after.pods_of(new) if each.is_open or each.uid in new.recorded]
    if added and len(taken) > (new.granted or 0):
        yield f"{new.uid} recorded {sorted(added)}: {len(taken)} pods are open or recorded, {new.granted} are granted"
    gave_back = new.finished and new.granted is None
    if old.evicted and new.evicted and not gave_back and (added or old.spec != new.spec or old.granted != new.granted):
        yield f"{new.uid} was changed while it was evicted"
    dropped = [uid for uid in old.withdrawn - new.withdrawn if uid not in after.pods]
    job = after.jobs.get(new.job)
    wanted = min(job.size if job is not None else 0, new.granted or 0)  # a shrink gives the rest back by itself
    if dropped and new.granted == old.granted and len(taken) < wanted:
        yield f"{dropped[0]} was withdrawn, and {new.uid} kept its quota"
    if old.granted is not None and new.granted is not None and new.granted > old.granted and new.folded == old.folded:
        yield f"{new.uid} was granted more without a slice"


def _opened(before: Seen, pod: PodFacts) -> Iterator[str]:
    recorded = [each for each in before.parents.values() if pod.uid in each.recorded]
    if not recorded:
        yield f"the gate of {pod.uid} was opened and it stood on no record"


def _admitted(before: Seen, uid: str) -> Iterator[str]:
    parent = before.parents.get(uid)
    if parent is not None and _granted_slices(before, parent):
        yield f"{uid} was admitted while it had slices that were admitted"


def _evicted(before: Seen, uid: str, quota: int) -> Iterator[str]:
    victim = before.parents[uid]
    claimants = [each for each in (*before.parents.values(), *before.slices.values()) if each.claim is not None]
    if not claimants:
        yield f"{uid} was evicted and nobody has a claim"
    best = max((each.priority for each in claimants), default=0)
    if victim.priority >= best:
        yield f"{uid} was evicted for one of no higher priority"
    staying = [
        each
        for each in before.parents.values()
        if (each.priority >= best and not each.evicted) or before.is_outlived(each)
    ]
    others = sum(map(before.use_of, staying))
    if before.claims() + others + before.strays() > quota:
        yield f"{uid} was evicted in vain: its quota would not suffice"
