"""Why a queued job waits, computed anew from objects alone, so that anybody who may read them can ask. Pure.

It asks the same books and the same nomination as the controller, and changes nothing.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from autoscaler import clock
from autoscaler.admission.jobs.port import Job
from autoscaler.admission.quota import amounts, estimates, nomination, refusals
from autoscaler.admission.quota.amounts import FlavorResource
from autoscaler.admission.quota.cache import waiting
from autoscaler.admission.quota.cache.books import Books, Tables
from autoscaler.admission.quota.cache.queues import Queue
from autoscaler.admission.quota.refusals import Reason, Refusal
from autoscaler.admission.reporting import why_waiting
from autoscaler.admission.workloads.workload import ConditionType, Workload
from autoscaler.api import keys
from autoscaler.kube import objects, shapes

_MINUTE: Final = 60
_HOUR: Final = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a queue has of one resource of a flavor."""

    flavor: str
    resource: str
    used: str
    claimed: str
    quota: str
    free: str
    """How much more it may use, borrowing included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """How one stands, as facts with names, and the quota of its queue."""

    title: str
    facts: tuple[tuple[str, str], ...]
    queue: str = ""
    rows: tuple[Row, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that quota is decided on, as it was read at one moment."""

    tables: Tables
    books: Books
    now: float

    @classmethod
    def of(cls, tables: Tables, now: float) -> "Evidence":
        """Make books of what was read."""
        books = Books(tables)
        books.wake(now)
        return cls(tables=tables, books=books, now=now)

    def workload_of(self, job_uid: str) -> Workload | None:
        """Return the Workload of a job."""
        there = (each for each in self.tables.workloads if each.job_uid == job_uid and not each.is_slice)
        return next(there, None)


def of_workload(evidence: Evidence, workload: Workload) -> Explanation:
    """Explain how a Workload or slice stands."""
    books = evidence.books
    owner = workload.meta.controller
    of = f", of {owner.kind} {owner.name}" if owner is not None else ""
    queue = books.queues.get(books.queue_of(workload) or "")
    return Explanation(
        title=f"Workload {_named(workload.meta.key)}{of}",
        facts=tuple(_facts(evidence, workload, queue)),
        queue=queue.name if queue is not None else "",
        rows=tuple(_rows(books, queue)) if queue is not None else (),
    )


def of_pod(
    evidence: Evidence, workload: Workload, pod: objects.Pod, pod_set_of: Callable[[objects.Pod], str]
) -> Explanation:
    """Explain how a pod behind the gate stands: its job, and how many of its pod set have passed."""
    whole, name = of_workload(evidence, workload), pod_set_of(pod)
    if workload.admission is None:
        return whole
    granted = workload.admission.count(name)
    passed = sum(_has_passed(each, workload) and pod_set_of(each) == name for each in evidence.tables.pods)
    told = f"quota is granted for {_pods(granted)} of {name}, and {passed} of them have passed the gate"
    why = "it is to be opened" if passed < granted else "it waits until one of them ends, or more is granted"
    return replace(whole, facts=(*whole.facts, ("this pod", f"{told}: {why}")))


def _has_passed(pod: objects.Pod, workload: Workload) -> bool:
    owner = pod.meta.controller
    is_ours = owner is not None and owner.uid == workload.job_uid
    return is_ours and keys.ADMISSION_GATE not in pod.gates and not pod.is_terminal


def of_job_without_workload(job: Job) -> Explanation:
    """Explain how a job stands that has no Workload."""
    return Explanation(title=f"{job.kind} {_named(job.meta.key)}", facts=(("state", _without_workload(job)),))


def _without_workload(job: Job) -> str:
    if job.queue is None:
        return f"it is not queued: it has no label {keys.QUEUE_NAME}"
    if job.left_alone is not None:
        return f"it is not queued: it is {job.left_alone}"
    if job.finished is not None:
        return "it has ended"
    if job.problem is not None:
        return f"it cannot be queued: {job.problem}"
    return f"it waits for LocalQueue {job.queue} and has no Workload yet: the runtime makes one as soon as it runs"


# Facts


def _facts(evidence: Evidence, workload: Workload, queue: Queue | None) -> Iterator[tuple[str, str]]:
    books, now = evidence.books, evidence.now
    yield "queue", _queues(books, workload, queue)
    yield "state", _state(workload)
    if books.is_waiting(workload.meta.uid):
        yield from _line(books, workload, queue, now)
    why = _why(books, workload, now)
    if why:
        yield "why not yet", why
    yield from _resize(books, workload, now)
    yield from _claims(books, queue)


def _queues(books: Books, workload: Workload, queue: Queue | None) -> str:
    if queue is None:
        missing = books.queue_of(workload)
        return f"LocalQueue {workload.queue}" + (f", ClusterQueue {missing} (missing)" if missing else " (missing)")
    strategy = "StrictFIFO" if queue.is_strict else "BestEffortFIFO"
    cohort = f", cohort {queue.cohort.cohort}" if queue.cohort.cohort else ""
    return f"LocalQueue {workload.queue}, ClusterQueue {queue.name} ({strategy}{cohort})"


def _state(workload: Workload) -> str:
    conditions = workload.conditions
    if workload.is_finished:
        return f"finished: {conditions[ConditionType.FINISHED].message}"
    if workload.is_leaving:
        return "is being deleted; it keeps its quota until its pods are gone"
    if workload.is_evicted:
        return f"evicted: {conditions[ConditionType.EVICTED].message}; it keeps its quota until its pods are gone"
    if workload.admission is None:
        return "waits"
    admitted = conditions.get(ConditionType.ADMITTED)
    since = f" since {clock.to_rfc3339(admitted.since)}" if admitted is not None else ""
    granted = [f"{_pods(each.count)} of {each.name}{_flavors(each.flavors)}" for each in workload.admission.assignments]
    return f"admitted{since}: {', '.join(granted) or _pods(0)}"


def _line(books: Books, workload: Workload, queue: Queue | None, now: float) -> Iterator[tuple[str, str]]:
    """Say where one stands in its line, and about how long that takes, unless somebody has to change something."""
    if queue is None:
        return
    places = books.waiting.first(queue.name)
    position = places.index(waiting.place_of(workload, books.parent_of(workload))) + 1
    yield "position", f"{position} of {len(places)}"
    refusal = _refusal(books, workload)
    if isinstance(refusal, Refusal) and why_waiting.needs_person(refusal):
        return
    seconds = estimates.first(books, queue.name, now=now, most=position)[-1].wait_seconds
    yield "estimate", f"about {_duration(seconds)}" if seconds is not None else "none: too little was admitted so far"


def _why(books: Books, workload: Workload, now: float) -> str:
    """Say why one who waits is not admitted now; empty: it does not wait."""
    aside = why_waiting.set_aside(workload, now)
    if aside is not None:
        return aside.message
    refusal = _refusal(books, workload)
    if refusal is None:
        return ""
    if isinstance(refusal, Refusal):
        return refusals.worded(refusal)
    return f"there is room for it in ClusterQueue {refusal.queue.name}: it is admitted as soon as the runtime looks"


def _refusal(books: Books, workload: Workload) -> Refusal | nomination.Nomination | None:
    found = why_waiting.class_of(books, workload)
    if found is None:
        return None
    place, queue = waiting.place_of(workload, books.parent_of(workload)), books.queues.get(found.queue or "")
    if queue is not None and queue.is_strict:
        blocked_by = _blocker(books, queue.name, place)
        if blocked_by is not None:
            return Refusal(reason=Reason.BEHIND, queue=queue.name, other=_named(blocked_by.meta.key))
    return nomination.nominate(books, books.ledger.copy(), found, place.uid, siblings={})


def _blocker(books: Books, queue: str, place: waiting.Place) -> Workload | None:
    """Return the Workload before a place that lacks room and so blocks a StrictFIFO queue."""
    for before in books.waiting.first(queue):
        if before == place:
            return None
        workload = books.workload(before.uid)
        found = why_waiting.class_of(books, workload)
        if before.is_slice or found is None or not why_waiting.is_behind(place, before):
            continue
        refusal = nomination.nominate(books, books.ledger.copy(), found, before.uid, siblings={})
        if isinstance(refusal, Refusal) and refusal.lacks_room:
            return workload
    return None


def _resize(books: Books, workload: Workload, now: float) -> Iterator[tuple[str, str]]:
    """Say what a resize waits for: what the Workload says, and why its slices wait."""
    if workload.holds(ConditionType.RESIZE_REQUESTED):
        yield "resize", workload.conditions[ConditionType.RESIZE_REQUESTED].message
    family = (books.workload(uid) for uid in books.families.members(workload.meta.uid))
    waits = [each for each in family if each.is_slice and each.admission is None]
    for why, count in Counter(_why(books, each, now) for each in waits).items():
        if why:
            yield "slices", f"{count} {'waits' if count == 1 else 'wait'}: {why}"


def _claims(books: Books, queue: Queue | None) -> Iterator[tuple[str, str]]:
    """Say who holds which quota of the queue's cohort until those it displaces are gone."""
    for workload in books.claimants():
        claim = books.claim_of(workload.meta.uid)
        held = books.queues.get(claim.queue) if claim is not None else None
        if claim is not None and held is not None and queue is not None and held.cohort == queue.cohort:
            what = ", ".join(_amount(key, amount) for key, amount in sorted(claim.amounts.items()))
            yield "claim", f"{_named(workload.meta.key)} holds {what} until those that it displaces are gone"


def _rows(books: Books, queue: Queue) -> Iterator[Row]:
    used, taken = books.usage.get(queue.name, {}), books.ledger.taken(queue.name)
    for key, quota in queue.quotas.items():
        yield Row(
            flavor=key.flavor,
            resource=key.resource,
            used=_number(key, used.get(key, 0)),
            claimed=_number(key, taken.get(key, 0) - used.get(key, 0)),
            quota=_number(key, quota.nominal),
            free=_number(key, max(0, books.ledger.free(queue, key))),
        )


# Words


def _flavors(flavors: Mapping[str, str]) -> str:
    names = sorted(set(flavors.values()))
    return f" on {', '.join(names)}" if names else ""


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count or 'no'} pods"


def _amount(key: FlavorResource, amount: int) -> str:
    return f"{amounts.worded(key.resource, amount)} of flavor {key.flavor}"


def _number(key: FlavorResource, amount: int) -> str:
    return shapes.worded(key.resource, amount)


def _duration(seconds: int) -> str:
    if seconds < 2 * _MINUTE:
        return f"{seconds} seconds"
    if seconds < 2 * _HOUR:
        return f"{math.ceil(seconds / _MINUTE)} minutes"
    return f"{math.ceil(seconds / _HOUR)} hours"


def _named(key: objects.Key) -> str:
    return f"{key.namespace}/{key.name}"
