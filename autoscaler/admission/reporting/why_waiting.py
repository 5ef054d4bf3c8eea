"""Why a Workload or slice waits, in words: the condition QuotaReserved of one that has no quota. Pure.

It says what the last look at it, or at another of the same shape, found; `explain` looks anew.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from autoscaler import clock
from autoscaler.admission.quota import refusals
from autoscaler.admission.quota.cache import waiting
from autoscaler.admission.quota.cache.books import Books
from autoscaler.admission.quota.cache.waiting import Place, WaitingClass
from autoscaler.admission.quota.refusals import Reason, Refusal
from autoscaler.admission.workloads.workload import ConditionType, Workload
from autoscaler.admission.workloads.workload_status import Change
from autoscaler.admission.writes import Event

_PASSING: Final = frozenset({Reason.NO_ROOM, Reason.DISPLACING, Reason.BEHIND})
"""What ends by itself; all else is for a person to see to."""
_TOLD: Final = frozenset(
    {
        Reason.LOCAL_QUEUE_MISSING,
        Reason.QUEUE_MISSING,
        Reason.NAMESPACE_REFUSED,
        Reason.NOT_COVERED,
        Reason.FLAVORS_CONFLICT,
    }
)
"""What is wrong with the job or its queue, and so is told to the job; that a queue is stopped says the queue."""


class Other(StrEnum):
    """Why one waits that is in no line."""

    INACTIVE = "Inactive"
    BACKOFF = "RequeueBackoff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """Why one waits."""

    reason: str
    message: str
    needs_person: bool = False
    """Whether it waits for ever unless somebody changes something."""

    @property
    def condition(self) -> Change:
        """The condition that says so."""
        return Change(type=ConditionType.QUOTA_RESERVED, holds=False, reason=self.reason, message=self.message)

    @property
    def event(self) -> Event | None:
        """What the job is told of it; None: nothing."""
        is_told = self.reason in _TOLD or (self.reason == Reason.NO_ROOM and self.needs_person)
        return Event(reason=self.reason, message=self.message, is_warning=True) if is_told else None


def class_of(books: Books, workload: Workload) -> WaitingClass | None:
    """Return the class in which one waits; None: it does not."""
    if not books.is_waiting(workload.meta.uid):
        return None
    return books.waiting.get(waiting.key_of(workload, books.parent_of(workload)))


def of(books: Books, workload: Workload, *, now: float, blocked_by: Place | None) -> Why | None:
    """Say why one waits; None: nobody has looked yet, or it does not wait."""
    aside = set_aside(workload, now)
    if aside is not None:
        return aside
    found = class_of(books, workload)
    if found is None:
        return None
    place = waiting.place_of(workload, books.parent_of(workload))
    if blocked_by is not None and is_behind(place, blocked_by):
        first = books.workload(blocked_by.uid).meta.key
        return told(Refusal(reason=Reason.BEHIND, queue=found.queue or "", other=f"{first.namespace}/{first.name}"))
    refusal = found.last_refusal()
    return told(refusal) if refusal is not None else None


def set_aside(workload: Workload, now: float) -> Why | None:
    """Say why one without quota is in no line; None: it is in one."""
    if workload.admission is not None:
        return None
    if not workload.active:
        message = "spec.active is false: set it to true to let the job wait again"
        return Why(reason=Other.INACTIVE, message=message)
    requeue = workload.requeue
    if requeue is not None and requeue.at > now:
        times = "once" if requeue.count == 1 else f"{requeue.count} times"
        at = clock.to_rfc3339(requeue.at)
        return Why(reason=Other.BACKOFF, message=f"its pods did not start in time {times}: it is tried again at {at}")
    return None


def told(refusal: Refusal) -> Why:
    """Word a refusal."""
    return Why(reason=refusal.reason, message=refusals.worded(refusal), needs_person=needs_person(refusal))


def needs_person(refusal: Refusal) -> bool:
    """Tell whether one waits for ever unless somebody changes something."""
    return refusal.reason not in _PASSING or refusal.never_fits


def among_many(why: Why | None, workload: Workload, *, shown: int) -> Why:
    """Say it to one far back, in words that stay true while those before it come and go."""
    if why is not None and (why.needs_person or why.reason in set(Other)):
        return why
    key = workload.meta.key
    command = f"python -m autoscaler explain workload {key.namespace}/{key.name}"
    message = f"at least {shown} come before it in its queue; `{command}` says what it waits for"
    return Why(reason=Reason.BEHIND, message=message)


def blocker(books: Books, queue: str | None, most: int) -> Place | None:
    """Return the Workload behind which all others of a StrictFIFO queue wait; None: there is none."""
    found = books.queues.get(queue or "")
    if found is None or not found.is_strict:
        return None
    return next((place for place in books.waiting.first(queue, most) if _blocks(books, place)), None)


def _blocks(books: Books, place: Place) -> bool:
    refusal = books.refusal_of(place.uid)
    return not place.is_slice and refusal is not None and refusal.lacks_room


def is_behind(place: Place, blocked: Place) -> bool:
    """Tell whether one waits behind another: a slice of the same priority that is older does not."""
    if place.is_slice and place.lowered_priority == blocked.lowered_priority:
        return (place.created_at, place.uid) > (blocked.created_at, blocked.uid)
    return place > blocked
