"""What is written into the status of those who wait: why, and of the first of each queue the position and an estimate.

What it costs follows what changed. A ClusterQueue is looked at when something in it changed, at most once a second, and
of it only the first 20; each of these is written to at most every 10 seconds, and only where something else is to be
said. All others are told once why they wait, so many a second, and once more if a person has to see to something else.
So n who wait cost n writes once, and then at most 2 a second for each queue.
"""

import heapq
import itertools
from collections.abc import Iterable, Iterator
from typing import Any, Final

from autoscaler import clock
from autoscaler.admission import writes
from autoscaler.admission.quota import estimates
from autoscaler.admission.quota.cache import waiting
from autoscaler.admission.quota.cache.books import Books, Tables
from autoscaler.admission.quota.cache.waiting import ClassKey, Place, WaitingClass
from autoscaler.admission.quota.cycle import Refused
from autoscaler.admission.reporting import why_waiting
from autoscaler.admission.reporting.why_waiting import Why
from autoscaler.admission.workloads import workload_status
from autoscaler.admission.workloads.workload import Workload
from autoscaler.admission.writes import On, Step, Write
from autoscaler.api.manifests import Manifest
from autoscaler.control import pacing

LOOK_SECONDS: Final = 1.0
"""How often a queue is looked at."""
AGAIN_SECONDS: Final = 60.0
"""How often a queue is looked at in which nothing moves: estimates grow."""
TELL_SECONDS: Final = 10.0
"""How often one Workload is written to."""
FIRST_AT_ONCE: Final = 50
"""Once so many of the first are to be written to, the other queues wait for the next look."""
REST_PER_SECOND: Final = 50
"""How many of those far back are told in a second."""
REASONS_MAX: Final = 1000
"""So many reasons are remembered before those of classes are forgotten of which nobody waits any more."""


class WaitingReports:
    """Knows who is to be told what."""

    def __init__(self, time: clock.Clock, books: Books, tables: Tables) -> None:
        self._clock = time
        self._books = books
        self._looks: pacing.Pacer[str | None] = pacing.Pacer(time, LOOK_SECONDS)
        self._first: dict[str | None, frozenset[str]] = {}
        """The UIDs of those who were told a position, by queue."""
        self._told_at: dict[str, float] = {}
        """When each was last written to, oldest first; forgotten once that does not matter any more."""
        self._rest: dict[str, None] = {}
        """The UIDs of those to be told once, first come first."""
        self._rest_at = float("-inf")
        """When some of them are told next."""
        self._later: list[tuple[float, str]] = []
        """Those of them whose write was refused, and when it is tried again: a heap."""
        self._ends: dict[str | None, Place] = {}
        """The place of the last who is told a position, in queues in which others wait behind."""
        self._blockers: dict[str | None, Place | None] = {}
        """Behind whom all others of a StrictFIFO queue waited when it was last looked at."""
        self._reasons: dict[ClassKey, str] = {}
        """What a person has to see to, by class, as it was last told; classes that wait for nobody are absent."""
        for stored in tables.workloads:
            self._workload_changed(None, stored)
        tables.workloads.listen(self._workload_changed)
        for table in (tables.cluster_queues, tables.local_queues, tables.flavors, tables.namespaces):
            table.listen(self._configured)

    def note_refused(self, refused: Iterable[Refused]) -> None:
        """Note who was looked at and not admitted: there may be something else to say to all of the same shape."""
        for each in refused:
            self._looks.note(self._books.queue_of(each.workload))
            found = why_waiting.class_of(self._books, each.workload)
            if found is not None:
                self._note_reason(found, each.refusal.reason if why_waiting.needs_person(each.refusal) else "")

    def note_not_done(self, write: Write, at: float) -> None:
        """Note that a write was refused, and when it may be tried again, on the monotonic clock."""
        stored = self._books.get(write.uid)
        if stored is None:
            return
        self._told_at.pop(write.uid, None)
        queue = self._books.queue_of(stored)
        if write.uid in self._first.get(queue, ()):
            self._looks.note(queue, at=at)
        else:
            heapq.heappush(self._later, (at, write.uid))

    def due(self) -> list[Write]:
        """Return what is to be written now."""
        self._forget()
        planned: list[Write] = []
        for queue in self._looks.take():
            planned += self._look(queue)
            if len(planned) >= FIRST_AT_ONCE:
                break
        planned += self._tell_rest()
        for write in planned:
            self._told_at.pop(write.uid, None)
            self._told_at[write.uid] = self._clock.monotonic()
        return planned

    @property
    def next_at(self) -> float | None:
        """When something is due, on the monotonic clock; None: nothing is."""
        rest = self._rest_at if self._rest else None
        return clock.earliest((self._looks.next_at, rest, self._later[0][0] if self._later else None))

    # The first of a queue

    def _look(self, queue: str | None) -> Iterator[Write]:
        """Tell the first of a queue how they stand, and those that were among them that they are not any more."""
        now = self._clock.now()
        is_known = queue is not None and queue in self._books.queues
        outlooks = estimates.first(self._books, queue or "", now=now) if is_known else []
        blocked_by = self._blockers[queue] = why_waiting.blocker(self._books, queue, estimates.SHOWN)
        self._note_unblocked(queue, blocked_by)
        first = {each.workload.meta.uid: each for each in outlooks}
        dropped = self._first.pop(queue, frozenset()) - first.keys()
        self._ends.pop(queue, None)
        if len(outlooks) == estimates.SHOWN:
            self._ends[queue] = self._place_of(outlooks[-1].workload)
        if first:
            self._first[queue] = frozenset(first)
            self._looks.note(queue, at=self._clock.monotonic() + AGAIN_SECONDS)
        for outlook in outlooks:
            why = why_waiting.of(self._books, outlook.workload, now=now, blocked_by=blocked_by)
            wait = None if why is not None and why.needs_person else _rounded(outlook.wait_seconds)
            wanted = {"position": outlook.position, "estimatedWaitSeconds": wait}
            yield from self._tell(outlook.workload, wanted, why, queue)
        self._rest.update(dict.fromkeys(dropped))

    def _note_unblocked(self, queue: str | None, blocked_by: Place | None) -> None:
        """Note classes that waited for a person, and now wait behind the first of a StrictFIFO queue."""
        if blocked_by is None:
            return
        for key in list(self._reasons):
            found = self._books.waiting.get(key)
            if found is not None and found.queue == queue and found.members[0] > blocked_by:
                self._note_reason(found, "")

    def _note_reason(self, found: WaitingClass, reason: str) -> None:
        """Have all of a class told where a person has to see to something else, or no longer has to."""
        if reason != self._reasons.pop(found.key, ""):
            self._rest.update(dict.fromkeys(place.uid for place in found.members))
        if reason:
            self._reasons[found.key] = reason

    # The others

    def _tell_rest(self) -> Iterator[Write]:
        """Tell some of the others why they wait."""
        now = self._clock.monotonic()
        while self._later and self._later[0][0] <= now:
            self._rest[heapq.heappop(self._later)[1]] = None
        if not self._rest or now < self._rest_at:
            return
        self._rest_at = now + 1.0
        for uid in list(itertools.islice(self._rest, REST_PER_SECOND)):
            del self._rest[uid]
            stored = self._books.get(uid)
            if stored is not None and uid not in self._first.get(self._books.queue_of(stored), ()):
                yield from self._tell_one_of_rest(stored)

    def _tell_one_of_rest(self, stored: Workload) -> Iterator[Write]:
        now = self._clock.now()
        found, aside = why_waiting.class_of(self._books, stored), why_waiting.set_aside(stored, now)
        if found is None and aside is None:  # it does not wait any more, or not yet
            return
        if found is not None and self._may_be_first(stored, found.queue):
            heapq.heappush(self._later, (self._clock.monotonic() + LOOK_SECONDS, stored.meta.uid))
            return
        blocked_by = self._blockers.get(found.queue) if found is not None else None
        if blocked_by is not None and self._books.get(blocked_by.uid) is None:
            blocked_by = None
        why = why_waiting.of(self._books, stored, now=now, blocked_by=blocked_by)
        why = why_waiting.among_many(why, stored, shown=estimates.SHOWN)
        yield from self._tell(stored, {"position": None, "estimatedWaitSeconds": None}, why, None)

    def _may_be_first(self, stored: Workload, queue: str | None) -> bool:
        """Tell whether one may be among the first when its queue is looked at next."""
        end = self._ends.get(queue)
        return queue in self._books.queues and (end is None or self._place_of(stored) <= end)

    # One

    def _tell(self, stored: Workload, wanted: Manifest, why: Why | None, queue: str | None) -> Iterator[Write]:
        """Write what is not said yet, unless it was written to a moment ago: then it is looked at again."""
        status = _changes(stored, wanted, why, self._clock.now())
        if not status:
            return
        told_at = self._told_at.get(stored.meta.uid)
        if told_at is not None:
            self._put_off(stored.meta.uid, told_at + TELL_SECONDS, queue)
            return
        event = why.event if why is not None and "conditions" in status and not stored.is_slice else None
        reason = why.message if why is not None else "its place changed"
        yield writes.patch_status(On.WORKLOAD, Step.TELL, stored, status, reason, event=event)

    def _put_off(self, uid: str, at: float, queue: str | None) -> None:
        if uid in self._first.get(queue, ()):
            self._looks.note(queue, at=at)
        else:
            heapq.heappush(self._later, (at, uid))

    # What changed

    def _workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        if _matters(old) == _matters(new):
            return
        for each in (old, new):
            if each is not None:
                self._looks.note(self._books.queue_of(each))
        if new is not None and new.admission is None and not new.is_finished and not new.is_leaving:
            self._rest[new.meta.uid] = None
        elif old is not None:
            self._rest.pop(old.meta.uid, None)

    def _configured(self, old: Any, new: Any) -> None:  # noqa: ANN401  # an object of any of these kinds
        """Look at all queues again where configuration changed: it does so seldom."""
        if old is None or new is None or old.meta.generation != new.meta.generation or _gone(old) != _gone(new):
            for queue in self._books.waiting.queues():
                self._looks.note(queue)

    def _place_of(self, stored: Workload) -> Place:
        return waiting.place_of(stored, self._books.parent_of(stored))

    def _forget(self) -> None:
        end = self._clock.monotonic() - TELL_SECONDS
        while self._told_at and next(iter(self._told_at.values())) <= end:
            del self._told_at[next(iter(self._told_at))]
        if len(self._reasons) > REASONS_MAX:
            kept = {key: each for key, each in self._reasons.items() if self._books.waiting.get(key) is not None}
            self._reasons = kept


def _changes(stored: Workload, wanted: Manifest, why: Why | None, now: float) -> Manifest:
    """Return the fields of a status that say something else than they should."""
    there = {"position": stored.position, "estimatedWaitSeconds": stored.estimated_wait_seconds}
    status = {name: value for name, value in wanted.items() if there[name] != value}
    if why is not None and not workload_status.says(stored, why.condition):
        status["conditions"] = workload_status.with_conditions(stored, [why.condition], now)
    return status


def _matters(stored: Workload | None) -> object:
    """Return what of a Workload changes how it, or those behind it, stand."""
    if stored is None:
        return None
    is_gone = stored.is_leaving or stored.is_finished
    waits = (stored.queue, stored.priority, stored.active, stored.pod_sets, stored.requeue, stored.claim)
    return (stored.meta.uid, is_gone, stored.admission is None, waits if stored.admission is None else None)


def _gone(stored: Any) -> object:  # noqa: ANN401  # an object of any of several kinds
    return stored.meta.deleted_at is not None, stored.meta.labels


def _rounded(seconds: int | None) -> int | None:
    """Round an estimate to what it is worth, so that it is not written anew all the time: 73 becomes 80."""
    if seconds is None:
        return None
    step = next((step for most, step in ((120, 10), (600, 60), (3600, 300), (36_000, 600)) if seconds <= most), 3600)
    return -(-seconds // step) * step
