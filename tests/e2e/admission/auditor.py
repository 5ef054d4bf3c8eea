"""Judge a run of admission: replay what happened, and check after each event what must hold whatever the interleaving.

It looks at what is, not at what was meant: at Workloads, pods and ClusterQueues as the API server stored them. The
first violation is told with the event and everything that was there.

Quota is judged when usage grows: people may lower a limit below what is used, and then nothing may grow. The limit is
that of the generation that the admission says it was decided on, for it may have been changed while the write was under
way; of the cohort's other queues, the best they had since the Workload's last version, which the write named.

Pods that are being deleted are left out where open pods are held against what is granted: a shrink gives quota back as
soon as its surplus pods are marked for deletion, so for their grace period more pods than granted may be on nodes. They
are not left out where a pod is recorded as about to be opened, nor where quota is given back as a whole.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence

from autoscaler.api import keys
from tests.e2e.admission import history, usage
from tests.e2e.admission.history import Event, History, Object, QueueSpec, State
from tests.e2e.admission.usage import Quota, Usage


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """What did not hold after an event."""

    clause: str
    message: str
    event: Event
    state: str

    def __str__(self) -> str:
        return f"{self.clause}: {self.message}\nafter {self.event}, with\n{self.state}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An event, with what was there before it."""

    event: Event
    old: Object | None
    new: Object | None
    usage_before: Usage
    """What was used before, where that changed."""
    usage: Usage
    folded_before: frozenset[str]
    """Slices that were ever folded into this Workload."""
    lost_nodes: frozenset[str]


def audit(run: History, *, lost_nodes: Iterable[str] = ()) -> Violation | None:
    """Return the first violation, if there is one. Pods being deleted on lost nodes take nobody's place."""
    state, book, folded = State(), usage.Book(), dict[str, frozenset[str]]()
    for item in run.initial:
        state.apply(Event(type="ADDED", object=item))
    for item in run.initial:
        book.update(state, Event(type="ADDED", object=item))
    for event in run.in_order():
        old, uid = state.apply(event), history.uid_of(event.object)
        change = Change(
            event=event,
            old=old,
            new=None if event.type == "DELETED" else event.object,
            usage_before=book.update(state, event),
            usage=book.total,
            folded_before=folded.get(uid, frozenset()) | usage.folded_of(old),
            lost_nodes=frozenset(lost_nodes),
        )
        for clause, check in CLAUSES.items():
            for message in check(state, change):
                return Violation(clause=clause, message=message, event=event, state=state.dump())
        folded[uid] = change.folded_before
    return None


def require(run: History, *, lost_nodes: Iterable[str] = ()) -> None:
    """Fail with the first violation."""
    found = audit(run, lost_nodes=lost_nodes)
    assert found is None, str(found)


# Quota


def _within_quota(state: State, change: Change) -> Iterator[str]:
    """Usage that grew is within the queue's quota, or within what it may borrow and its cohort has."""
    for quota, before in change.usage_before.items():
        if change.usage[quota] > before:
            yield from _overdrawn(state, change, quota)


def _overdrawn(state: State, change: Change, quota: Quota) -> Iterator[str]:
    specs = state.queues.get(quota.queue, [])
    noted = _noted_generation(change)
    spec = _spec_of(specs, noted)
    if spec is None:
        yield f"{quota} is granted by generation {noted}, which the queue never had"
        return
    used, most = change.usage[quota], usage.limit(spec, quota)
    cohort = spec.get("cohort")
    if cohort is None and used > most.nominal:
        yield f"{quota}: {used} used of {most.nominal}"
    if cohort is None:
        return
    if most.borrowing is not None and used > most.nominal + most.borrowing:
        yield f"{quota}: {used} used of {most.nominal}, and no more than {most.borrowing} may be borrowed"
    others = {name: _best(state, change, name, cohort, quota) for name in state.queues if name != quota.queue}
    members = {name: own for name, own in others.items() if own is not None}
    lent = sum(members.values())
    together = used + sum(change.usage[quota._replace(queue=name)] for name in members)
    if together > most.nominal + lent:
        yield f"{quota}: cohort {cohort} uses {together} of {most.nominal + lent}"


def _spec_of(specs: Sequence[QueueSpec], noted: int | None) -> Object | None:
    """Return a queue's spec of a generation; of one before we began to look, the first that we saw."""
    if specs and noted is not None and noted < min(each.generation for each in specs):
        return specs[0].spec
    return next((each.spec for each in reversed(specs) if noted in {None, each.generation}), None)


def _noted_generation(change: Change) -> int | None:
    admission = ((change.new or {}).get("status") or {}).get("admission") or {}
    generation: int | None = admission.get("clusterQueueGeneration")
    return generation if change.event.kind == "Workload" else None


def _best(state: State, change: Change, name: str, cohort: str, quota: Quota) -> int | None:
    """Return the most that a queue of a cohort had of its own since the decision; None: it was no member."""
    since = history.version_of(change.old) if change.old is not None else 0
    specs = [each for each in usage.in_force(state.queues[name], since) if each.get("cohort") == cohort]
    if not specs or name in state.gone_queues:
        return None
    return max(usage.limit(spec, quota._replace(queue=name)).nominal for spec in specs)


# Counts


def _granted_within_spec(_: State, change: Change) -> Iterator[str]:
    """What is granted is never more than what is asked for."""
    granted = usage.granted_of(change.new) if change.event.kind == "Workload" else None
    for name, count in (granted or {}).items():
        if count > _spec_count(change.new, name):
            yield f"{count} pods of {name} are granted, and {_spec_count(change.new, name)} are asked for"


def _open_within_grant(state: State, change: Change) -> Iterator[str]:
    """Of each pod set no more pods are open, or recorded as about to be, than are granted; those leaving left out."""
    job = _job(change.event)
    workload = state.workload_of(job) if job else None
    if workload is None:
        return
    granted, recorded = usage.granted_of(workload) or {}, usage.recorded_of(workload)
    for name in sorted({*granted, *recorded, *state.pods.sets_of(job)}):
        most = min(granted.get(name, 0), _spec_count(workload, name))
        opened = state.pods.staying(state.pods.open_of(job, name))
        both = opened | state.pods.staying(recorded.get(name, ()))
        if len(both) > most:
            yield f"{len(opened)} pods of {name} are open, {len(both - opened)} more recorded, {most} granted"


def _recorded_within_grant(state: State, change: Change) -> Iterator[str]:
    """When pods are recorded, all that are open or recorded, those leaving included, are within what is granted."""
    if change.event.kind != "Workload" or change.new is None:
        return
    job, granted = _job(change.event), usage.granted_of(change.new) or {}
    before = usage.recorded_of(change.old)
    for name, uids in usage.recorded_of(change.new).items():
        if not uids - before.get(name, set()):
            continue
        both = _occupying(state, change, job, name, uids)
        most = min(granted.get(name, 0), _spec_count(change.new, name))
        if len(both) > most:
            yield f"pods of {name} were recorded: {len(both)} are open or recorded and {most} are granted"


# Slices


def _folded_once(state: State, change: Change) -> Iterator[str]:
    """What is granted grows by slices that were admitted, each of them once, and they are noted until they are gone."""
    if change.event.kind != "Workload" or change.new is None or history.parent_of(change.new) is not None:
        return
    uid, old, new = history.uid_of(change.new), usage.folded_of(change.old), usage.folded_of(change.new)
    added: dict[str, int] = {}
    for each in new - old:
        part = state.slices.get(each)
        counts = usage.granted_of(part)
        if part is None or counts is None or history.parent_of(part) != uid:
            yield f"{each} was folded, which is no admitted slice of it"
        elif each in change.folded_before:
            yield f"slice {each} was folded a second time"
        for name, count in (counts or {}).items():
            added[name] = added.get(name, 0) + count
    yield from (f"slice {each} is forgotten and still there" for each in old - new if each in state.workloads)
    yield from _grown(change, added)


def _grown(change: Change, added: dict[str, int]) -> Iterator[str]:
    before, after = usage.granted_of(change.old), usage.granted_of(change.new)
    if before is None or after is None:
        return
    for name, count in after.items():
        if count > before.get(name, 0) + added.get(name, 0):
            yield (
                f"granted to {name} went from {before.get(name, 0)} to {count}, "
                f"and {added.get(name, 0)} were folded with it"
            )


# Giving back


def _given_back_last(state: State, change: Change) -> Iterator[str]:
    """Quota of a whole job is given back only when none of its pods is open or recorded, and no slice is left."""
    was_admitted = change.event.kind == "Workload" and usage.granted_of(change.old) is not None
    if not was_admitted or change.old is None or history.parent_of(change.old) is not None:
        return
    if usage.granted_of(change.new) is not None:
        return
    job, recorded = _job(change.event), usage.recorded_of(change.old)
    for name in sorted({*recorded, *state.pods.sets_of(job)}):
        both = _occupying(state, change, job, name, recorded.get(name, set()))
        if both:
            yield f"quota was given back while pods of {name} are open or recorded: {sorted(both)}"
    left = [history.uid_of(each) for each in state.slices_of(history.uid_of(change.old))]
    if left and change.new is not None:
        yield f"quota was given back while there are slices: {left}"


def _evicted_stays(_: State, change: Change) -> Iterator[str]:
    """Of an evicted job nothing is recorded, and neither what it asks for nor what is granted changes."""
    is_evicted = usage.holds(change.old, "Evicted") and usage.holds(change.new, "Evicted")
    if change.event.kind != "Workload" or not is_evicted:
        return
    before, after = usage.granted_of(change.old), usage.granted_of(change.new)
    if after is not None and after != before:
        yield f"what is granted to an evicted job went from {before} to {after}"
    if _spec_counts(change.old) != _spec_counts(change.new):
        yield f"an evicted job asks for {_spec_counts(change.new)} instead of {_spec_counts(change.old)}"
    recorded = usage.recorded_of(change.old)
    for name, uids in usage.recorded_of(change.new).items():
        if uids - recorded.get(name, set()):
            yield f"pods of {name} of an evicted job were recorded"


def _occupying(state: State, change: Change, job: str, name: str, recorded: Iterable[str]) -> set[str]:
    """Return the pods that are open or recorded, those leaving included, unless nobody can tell that they have left."""
    both = state.pods.open_of(job, name) | {uid for uid in recorded if uid in state.pods.all}

    def is_lost(pod: Object) -> bool:
        return history.is_leaving(pod) and pod["spec"].get("nodeName") in change.lost_nodes

    return {uid for uid in both if history.is_live(state.pods.all[uid]) and not is_lost(state.pods.all[uid])}


def _job(event: Event) -> str:
    """Return the UID of the job that an event is about; empty if it is about no job."""
    if event.kind == "Pod":
        return history.job_of(event.object)
    return history.label(event.object, keys.JOB_UID) if event.kind == "Workload" else ""


def _spec_counts(workload: Object | None) -> dict[str, int]:
    return {each["name"]: each["count"] for each in (workload or {}).get("spec", {}).get("podSets", ())}


def _spec_count(workload: Object | None, name: str) -> int:
    return _spec_counts(workload).get(name, 0)


CLAUSES: dict[str, Callable[[State, Change], Iterator[str]]] = {
    "usage within quota": _within_quota,
    "granted within spec": _granted_within_spec,
    "open within grant": _open_within_grant,
    "recorded within grant": _recorded_within_grant,
    "slices folded once": _folded_once,
    "quota given back last": _given_back_last,
    "evicted jobs stay as they are": _evicted_stays,
}
