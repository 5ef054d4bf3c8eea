"""The runtime of the toy cluster: the real decisions, on what the runtime has seen. What it decides is remembered.

Every decision sees the tables that the real runtime would build from these objects, through the same index of jobs and
the same books of quota.
"""

import contextlib
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from autoscaler import clock
from autoscaler.admission import decide as job_decisions
from autoscaler.admission import doubts, writes
from autoscaler.admission.jobs.batch_job import BatchJob
from autoscaler.admission.jobs.port import Job
from autoscaler.admission.quota import cycle
from autoscaler.admission.quota.cache import books
from autoscaler.admission.state import known, priorities
from autoscaler.admission.state.job_state import Memory, Policy
from autoscaler.admission.workloads import workload
from autoscaler.admission.writes import On, Step, Write
from autoscaler.control.writes import Verb
from autoscaler.kube import objects, port, store
from autoscaler.simulation.cluster import merging
from tests.autoscaler.admission import builders
from tests.model.cluster import Sent, State
from tests.model.contents import GONE, NODE, NOW, Contents, PodFacts, WorkloadFacts
from tests.model.kept import Kept

PRIORITY: Final = "high"
MIDDLE: Final = "middle"
FLAVORS: Final = ("spot", "demand")
POLICY: Final = Policy(pods_ready_timeout_seconds=1800.0)
_ENCODER: Final = msgspec.json.Encoder(order="sorted")
_KINDS: Final = (BatchJob(),)


class Runtime:
    """Decides what to write."""

    def __init__(
        self, known_contents: Contents, configuration: tuple[Any, ...], *, seconds: Callable[[int], float]
    ) -> None:
        self._contents = known_contents
        self._configuration = configuration
        self._seconds = seconds
        self._jobs: dict[Any, tuple[Sent, ...]] = {}
        self._plans: dict[Any, tuple[Sent, ...]] = {}
        self._fences: dict[Any, tuple[Sent, ...]] = {}
        self.kept: Kept | None = None
        """Books to decide about quota on, which follow each change; None: they are read anew each time."""

    def writes(self, state: State) -> list[Sent]:
        """Return every write that some decision on the runtime's view of the cluster asks for.

        Quota is decided only when all writes of the last such decision were answered or settled.
        """
        seen = [each.cache for each in state.entries if each.cache != GONE]
        by_job: dict[str, list[int]] = {}
        for number in seen:
            job = self._contents[number].job
            if job is not None:
                by_job.setdefault(job, []).append(number)
        planned = [write for job, numbers in by_job.items() for write in self._of_job(job, tuple(numbers), state)]
        return planned + list(self.fences(state) or self._of_quota(seen, state))

    def fences(self, state: State) -> tuple[Sent, ...]:
        """Return the writes that settle one that was not answered; none: nothing is in doubt."""
        doubt = state.doubt
        entry = state.get(doubt.sent.uid) if doubt is not None else None
        if doubt is None or entry is None or entry.cache == GONE:
            return ()
        key = (doubt.sent.step, entry.cache, doubt.moved)
        found = self._fences.get(key)
        if found is None:
            stored = self._contents[entry.cache].decoded
            found = self._fences[key] = tuple(_fences(stored, doubt.sent.step, moved=doubt.moved))
        return found

    def _of_job(self, uid: str, numbers: tuple[int, ...], state: State) -> tuple[Sent, ...]:
        touched = frozenset(each for each in state.touched if each.startswith(f"{uid}."))
        refused = frozenset(each for each in state.refused if each.startswith(f"{uid}."))
        key = (uid, numbers, touched, refused, state.time)
        found = self._jobs.get(key)
        if found is None:
            memory = Memory(touched=touched, refused=refused)
            found = self._jobs[key] = self._decided(uid, numbers, memory, NOW + self._seconds(state.time))
        return found

    def _decided(self, uid: str, numbers: tuple[int, ...], memory: Memory, now: float) -> tuple[Sent, ...]:
        """Decide about one job; what would only tell something is taken as told, for it stands in no content."""
        decoded = {number: self._contents[number].decoded for number in numbers}
        for _ in range(2):
            job_state = self._known(decoded.values()).state(uid, memory)
            writes = job_decisions.decide(job_state, now=now, policy=POLICY).writes
            telling = next((each for each in writes if self._only_tells(each, numbers)), None)
            if telling is None:
                return tuple(_sent(each, by_quota=False) for each in writes)
            number = next(each for each in numbers if self._contents[each].facts.uid == telling.uid)
            manifest = merging.merge(self._contents[number].manifest, {"status": telling.body})
            decoded[number] = workload.decode(msgspec.json.encode(manifest))
        raise AssertionError(f"told twice: {telling}")

    def _only_tells(self, write: Write, numbers: Iterable[int]) -> bool:
        if write.step is not Step.TELL:
            return False
        number = next(each for each in numbers if self._contents[each].facts.uid == write.uid)
        return self._contents.changed(number, {"status": write.body}) == number

    def _of_quota(self, seen: list[int], state: State) -> tuple[Sent, ...]:
        if self.kept is not None:
            self.follow(state)
            return tuple(_sent(each, by_quota=True) for each in self.kept.plan(NOW + self._seconds(state.time)))
        numbers = tuple(each for each in seen if self._is_counted(each))
        key = (numbers, state.time)
        found = self._plans.get(key)
        if found is None:
            kept = books.Books(self._tables(numbers))
            plan = cycle.decide(kept, now=NOW + self._seconds(state.time), most=100)
            found = self._plans[key] = tuple(_sent(each, by_quota=True) for each in plan.writes)
        return found

    def follow(self, state: State) -> None:
        """Let the books that are kept see what the runtime has seen."""
        if self.kept is not None:
            seen = [each.cache for each in state.entries if each.cache != GONE]
            self.kept.follow(each for each in seen if self._is_counted(each))

    def _is_counted(self, number: int) -> bool:
        facts = self._contents.facts(number)
        return isinstance(facts, WorkloadFacts) or (isinstance(facts, PodFacts) and facts.is_open)

    def _tables(self, numbers: Iterable[int]) -> books.Tables:
        made = builders.tables(*self._configuration)
        for number in numbers:
            decoded = self._contents[number].decoded
            builders.table_of(made, decoded).seen(decoded)
        return made

    def _known(self, decoded: Iterable[Any]) -> known.Known:
        tables = known.Tables(
            workloads=store.Table(),
            jobs={"Job": store.Table()},
            pods=store.Table(),
            nodes=store.Table(),
            flavors=store.Table(),
            cluster_queues=store.Table(),
            local_queues=store.Table(),
            namespaces=store.Table(),
            priority_classes=store.Table(),
        )
        tables.nodes.seen(_NODE)
        for each in _PRIORITIES:
            tables.priority_classes.seen(each)
        for flavor in _FLAVORS:
            tables.flavors.seen(flavor)
        found = known.Known(tables, _KINDS)
        for each in decoded:
            found_in: dict[type, Any] = {Job: tables.jobs["Job"], workload.Workload: tables.workloads}
            found_in.get(type(each), tables.pods).seen(each)
        return found


def _fences(stored: Any, step: Step, *, moved: bool) -> Iterable[Sent]:
    """Doubt a write that was sent to a version of an object, and look at that version of it, or at a later one."""
    if not isinstance(stored, workload.Workload):
        return
    table: store.Table[workload.Workload] = store.Table()
    table.seen(stored)
    found = doubts.Doubts(clock.SystemClock(), table)
    sent = writes.patch_status(On.WORKLOAD, step, stored, {}, "")
    with contextlib.suppress(port.UnreachableError), found.unless_answered(sent):
        raise port.UnreachableError
    if moved:
        meta = msgspec.structs.replace(stored.meta, resource_version=stored.meta.resource_version + 1)
        table.seen(msgspec.structs.replace(stored, meta=meta))
    yield from (_sent(each, by_quota=False) for each in found.fences())


def _sent(write: Write, *, by_quota: bool) -> Sent:
    body: Any = write.body
    if write.verb is Verb.PATCH_STATUS:
        body = {"status": body}
    elif write.step is Step.SUSPEND:
        body = _KINDS[0].suspension(is_suspended=body["suspend"])
    return Sent(
        step=write.step,
        on=write.on,
        verb=write.verb,
        uid=write.uid if write.verb is not Verb.CREATE else write.key.name,
        exact=write.resource_version is not None,
        body=_ENCODER.encode(body),
        why=write.why,
        by_quota=by_quota,
    )


_NODE: Final = objects.node(
    msgspec.json.encode(
        {
            "metadata": {"name": NODE, "resourceVersion": "1"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
    )
)
_PRIORITIES: Final = tuple(
    priorities.decode(msgspec.json.encode({"metadata": {"name": name, "resourceVersion": "1"}, "value": value}))
    for name, value in ((PRIORITY, 10), (MIDDLE, 5))
)
_FLAVORS: Final = tuple(map(builders.flavor, FLAVORS))
