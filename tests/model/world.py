"""Everything that can happen next in the toy cluster: the moves of the runtime, of other controllers and of people."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from autoscaler.admission.writes import Step
from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.control.writes import Verb
from tests.autoscaler.admission import builders
from tests.model import contents, scenario
from tests.model.cluster import Doubt, Entry, Sent, State
from tests.model.contents import GONE, Contents, JobFacts, PodFacts, WorkloadFacts
from tests.model.runtime import Runtime
from tests.model.scenario import Scenario
from tests.model.search import Cause
from tests.model.seen import Seen

_CRASHES: Final = 0
_LOST: Final = 1
_FIRST: Final = 2
_STEPS_TO_REST: Final = 200
_READY: Final = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
_SUCCEEDED: Final = {"status": {"phase": "Succeeded"}}


class Move(NamedTuple):
    """One step of one actor."""

    cause: Cause
    text: str
    sent: Sent | None = None
    """The write that took effect by it."""
    late: bool = False
    """Whether it was decided on some time ago."""


_SYNC: Final = "the runtime's watch"
_JOBS: Final = "the Job controller"
_GARBAGE: Final = "the garbage collector"
_KUBELET: Final = "the kubelet"


class World:
    """The rules of the toy cluster."""

    def __init__(self, chosen: Scenario) -> None:
        self.scenario = chosen
        self.contents = Contents()
        self.runtime = Runtime(self.contents, _configuration(chosen), seconds=self._seconds)
        self._pods_made: dict[str, int] = {}
        self._seen: dict[tuple[int, ...], Seen] = {}

    def start(self) -> State:
        """Return the first state: the Jobs were just created and the runtime has seen them, or all is at rest."""
        chosen = self.scenario
        state = State(entries=(), budget=(chosen.crashes, chosen.lost, *(count for _, count in chosen.happenings)))
        for each in chosen.jobs:
            state = self._create_job(state, each, seen=True)
        return self._rested(state) if chosen.from_rest else state

    def _rested(self, state: State) -> State:
        """Let things go on of themselves until nothing moves any more; where that never comes, begin in the middle."""
        for _ in range(_STEPS_TO_REST):
            state = next((after for move, after in self.moves(state) if move.cause is Cause.SYSTEM), state)
        return state

    def moves(self, state: State) -> Iterator[tuple[Move, State]]:
        """Return every move that is possible now, and where it leads."""
        for move, after in self._moves(state):
            yield move, after if self.runtime.fences(after) else after._replace(doubt=None)

    def _moves(self, state: State) -> Iterator[tuple[Move, State]]:
        yield from self._runtime(state)
        yield from self._unsettled(state)
        yield from self._held(state)
        yield from self._watch(state)
        yield from self._job_controller(state)
        yield from self._garbage(state)
        yield from self._pods(state)
        yield from self._clock(state)
        yield from self._crash(state)
        for index, (each, _) in enumerate(self.scenario.happenings, _FIRST):
            if state.budget[index]:
                yield from self.people(_spent(state, index), each)

    # What is there

    def seen(self, state: State) -> Seen:
        """Return what the server's objects say."""
        key = tuple([each.server for each in state.entries if each.server != GONE])
        found = self._seen.get(key)
        if found is None:
            found = self._seen[key] = Seen.of(map(self.contents.facts, key))
        return found

    def _owned(self, state: State) -> list[PodFacts | WorkloadFacts]:
        seen = self.seen(state)
        return [*seen.pods.values(), *seen.parents.values(), *seen.slices.values()]

    def _named(self, state: State, name: str) -> JobFacts | None:
        return next((each for each in self.seen(state).jobs.values() if each.name == name), None)

    def _seconds(self, time: int) -> float:
        return (0.0, *self.scenario.jumps)[time]

    def wanted(self, state: State) -> list[tuple[Sent, State]]:
        """Return the writes that the runtime wants and that would take effect now."""
        found = []
        for sent in self.runtime.writes(state):
            entry = state.get(sent.uid)
            if sent.verb is not Verb.CREATE and sent.exact and (entry is None or not entry.current):
                continue
            after = self._applied(state, sent, seen=True)
            if after is not None:
                found.append((sent, after))
        return found

    # The runtime

    def _runtime(self, state: State) -> Iterator[tuple[Move, State]]:
        for sent, after in self.wanted(state):
            yield Move(Cause.SYSTEM, _told(sent), sent), after
            if self._may_be_lost(state, sent):
                text = f"{_told(sent)}, and is not answered: it is still under way"
                lost = _spent(state, _LOST)._replace(held=sent, doubt=Doubt(sent))
                yield Move(Cause.FAULT, text), _remembered(lost, sent)
            if sent.step is Step.OPEN:
                yield from self._refused(state, sent)

    def _may_be_lost(self, state: State, sent: Sent) -> bool:
        is_known = state.held is None and state.doubt is None
        return bool(state.budget[_LOST]) and is_known and sent.step in self.scenario.lost_steps

    def _unsettled(self, state: State) -> Iterator[tuple[Move, State]]:
        """Let a fence be refused, be not answered, or let the time of what is in doubt end."""
        for fence in self.runtime.fences(state):
            entry = state.get(fence.uid)
            if entry is not None and not entry.current:
                yield Move(Cause.SYSTEM, f"{_told(fence)}, is refused, and reads it"), _forgetful(state.synced(entry))
            elif entry is not None and state.budget[_LOST]:
                after = self._by_others(_spent(state, _LOST), entry.uid, entry.server)
                yield Move(Cause.FAULT, f"{_told(fence)}, which takes effect and is not answered"), after
            if state.held is None:
                text = "the time of the unanswered write is over, and everything is read anew"
                yield Move(Cause.SYSTEM, text), _read_anew(state)._replace(doubt=None)

    def _refused(self, state: State, sent: Sent) -> Iterator[tuple[Move, State]]:
        for index, (each, _) in enumerate(self.scenario.happenings, _FIRST):
            if isinstance(each, scenario.Refuse) and state.budget[index] and sent.uid not in state.refused:
                spent = _remembered(_spent(state, index), sent)
                refused = spent._replace(refused=state.refused | {sent.uid})
                yield Move(Cause.FAULT, f"the server refuses for good: {_told(sent)}"), refused

    def _held(self, state: State) -> Iterator[tuple[Move, State]]:
        sent = state.held
        if sent is None:
            return
        free = state._replace(held=None)
        yield Move(Cause.SYSTEM, f"the unanswered write is lost: {_told(sent)}"), free
        after = self._applied(free, sent, seen=False)
        if after is not None:
            yield Move(Cause.SYSTEM, f"the unanswered write takes effect: {_told(sent)}", sent, late=True), after

    def _applied(self, state: State, sent: Sent, *, seen: bool) -> State | None:
        """Return the state after a write took effect; None: it is refused, or changes nothing."""
        if sent.verb is Verb.CREATE:
            return self._created(state, sent, seen=seen)
        entry = state.get(sent.uid)
        if entry is None or entry.server == GONE:
            return None
        result = self._result(entry.server, sent)
        if result == entry.server and sent.step not in {Step.TOUCH, Step.FENCE}:
            return None
        if seen:
            return _forgetful(_remembered(state.changed(sent.uid, result, seen=True), sent, is_done=True))
        return _forgetful(self._by_others(state, sent.uid, result))

    def _result(self, number: int, sent: Sent) -> int:
        is_deletion = sent.verb is Verb.DELETE
        return self.contents.deleted(number) if is_deletion else self.contents.changed(number, sent.body)

    def _created(self, state: State, sent: Sent, *, seen: bool) -> State | None:
        there = self.seen(state)
        if any(each.name == sent.uid for each in (*there.parents.values(), *there.slices.values())):
            return None
        manifest = msgspec.json.decode(sent.body)
        job, is_slice = manifest["metadata"]["labels"][keys.JOB_UID], sent.step is Step.SLICE
        uid = self._free_uid(state, f"{job}.{'s' if is_slice else 'w'}")
        manifest["metadata"]["uid"] = uid
        number = self.contents.add(manifest)
        return state.changed(uid, number, seen=True) if seen else self._by_others(state, uid, number)

    # Those around it

    def _watch(self, state: State) -> Iterator[tuple[Move, State]]:
        for entry in state.entries:
            if not entry.current:
                what = "is gone" if entry.server == GONE else "as it is now"
                yield Move(Cause.SYSTEM, f"{_SYNC} shows {entry.uid} {what}"), _forgetful(state.synced(entry))

    def _by_others(self, state: State, uid: str, number: int) -> State:
        """Change an object; the runtime is behind with it, unless it is behind with as many as it may be."""
        old = state.get(uid)
        is_behind = old is not None and not old.current
        seen = not is_behind and state.lagging >= self.scenario.lagging
        return state.changed(uid, number, seen=seen)

    def _job_controller(self, state: State) -> Iterator[tuple[Move, State]]:
        for job in self.seen(state).jobs.values():
            if not job.leaving and not job.finished:
                pods = [each for each in self.seen(state).pods.values() if each.owner == job.uid]
                yield from self._pods_of(state, job, pods)

    def _pods_of(self, state: State, job: JobFacts, pods: list[PodFacts]) -> Iterator[tuple[Move, State]]:
        living = [each for each in pods if not each.leaving and not each.ended]
        ended = [each for each in pods if each.ended]
        want = 0 if job.suspended else job.size
        if ended:
            yield from self._counted(state, job, ended[0])
        elif len(living) < want:
            uid = self._free_uid(state, f"{job.uid}.p")
            if uid not in self._pods_made:
                self._pods_made[uid] = self.contents.add(contents.pod(uid, job))
            made = self._pods_made[uid]
            yield Move(Cause.SYSTEM, f"{_JOBS} creates pod {uid}"), self._by_others(state, uid, made)
        elif len(living) > want:
            first = [each for each in living if not each.ready] or living
            for each in first[:1] if job.suspended else first:
                yield Move(Cause.SYSTEM, f"{_JOBS} deletes pod {each.uid}"), self._deleted(state, each.uid)

    def _counted(self, state: State, job: JobFacts, pod: PodFacts) -> Iterator[tuple[Move, State]]:
        succeeded = job.succeeded + 1
        status: dict[str, Any] = {"succeeded": succeeded}
        if succeeded == job.completions:
            status["conditions"] = [{"type": "Complete", "status": "True"}]
        after = self._patched(state, job.uid, {"status": status})
        after = _forgetful(self._by_others(after, pod.uid, GONE))
        yield Move(Cause.SYSTEM, f"{_JOBS} counts pod {pod.uid}, which has ended"), after

    def _garbage(self, state: State) -> Iterator[tuple[Move, State]]:
        there = {each.uid for each in state.entries if each.server != GONE}
        for job in self.seen(state).jobs.values():
            if job.leaving:
                yield from self._orphaned(state, job)
        for each in self._owned(state):
            if each.owner is not None and each.owner not in there and not each.leaving:
                yield Move(Cause.SYSTEM, f"{_GARBAGE} deletes {each.uid}"), self._deleted(state, each.uid)

    def _orphaned(self, state: State, job: JobFacts) -> Iterator[tuple[Move, State]]:
        """Take the owner off what belongs to a Job, then let the Job go."""
        left = [each.uid for each in self._owned(state) if each.owner == job.uid]
        for uid in left:
            after = self._patched(state, uid, {"metadata": {"ownerReferences": None}})
            yield Move(Cause.SYSTEM, f"{_GARBAGE} makes {uid} an orphan"), after
        if not left:
            yield Move(Cause.SYSTEM, f"{_GARBAGE} lets Job {job.uid} go"), self._by_others(state, job.uid, GONE)

    def _pods(self, state: State) -> Iterator[tuple[Move, State]]:
        for pod in self.seen(state).pods.values():
            if pod.leaving:
                gone = _forgetful(self._by_others(state, pod.uid, GONE))
                yield Move(Cause.SYSTEM, f"{_KUBELET} ends pod {pod.uid}, which is gone"), gone
            elif pod.is_open and self.scenario.pods_start and not pod.ready:
                yield Move(Cause.PEOPLE, f"pod {pod.uid} becomes Ready"), self._patched(state, pod.uid, _READY)
            elif pod.is_open and self.scenario.pods_end:
                yield Move(Cause.SYSTEM, f"pod {pod.uid} succeeds"), self._patched(state, pod.uid, _SUCCEEDED)

    def _clock(self, state: State) -> Iterator[tuple[Move, State]]:
        if state.time < len(self.scenario.jumps):
            after = state._replace(time=state.time + 1)
            yield Move(Cause.PEOPLE, f"time passes: {self._seconds(after.time):.0f} s since the start"), after

    def _crash(self, state: State) -> Iterator[tuple[Move, State]]:
        """Begin anew: a new leader has seen everything, and remembers nothing; quota's writes have ended by then."""
        if not state.budget[_CRASHES] or (state.held is not None and state.held.by_quota):
            return
        anew = _read_anew(_spent(state, _CRASHES))._replace(doubt=None, touched=frozenset(), refused=frozenset())
        yield Move(Cause.FAULT, "the runtime crashes, and another takes over"), anew

    # People

    def people(self, state: State, what: scenario.Happening) -> Iterator[tuple[Move, State]]:
        """Return what may happen by people's hands, however often."""
        match what:
            case scenario.Create():
                if self._named(state, what.job.name) is None:
                    text = f"somebody creates Job {what.job.name} of {what.job.size} pods"
                    yield Move(Cause.PEOPLE, text), self._create_job(state, what.job, seen=False)
            case scenario.DeletePod() | scenario.LosePod() | scenario.EndPod():
                for pod in self.seen(state).pods.values():
                    yield from self._to_pod(state, pod, what)
            case (
                scenario.Resize()
                | scenario.Delete()
                | scenario.Suspend()
                | scenario.Deactivate()
                | scenario.LoseWorkload()
            ):
                job = self._named(state, what.job)
                if job is not None and not job.leaving and not job.finished:
                    yield from self._to_job(state, job, what)
            case _:
                return

    def _to_pod(self, state: State, pod: PodFacts, what: scenario.Happening) -> Iterator[tuple[Move, State]]:
        match what:
            case scenario.LosePod():
                gone = _forgetful(self._by_others(state, pod.uid, GONE))
                yield Move(Cause.PEOPLE, f"pod {pod.uid} is lost with its node"), gone
            case scenario.EndPod():
                owner = self.seen(state).jobs.get(pod.owner or "")
                if pod.is_open and not pod.leaving and owner is not None and owner.completions is not None:
                    yield Move(Cause.PEOPLE, f"pod {pod.uid} succeeds"), self._patched(state, pod.uid, _SUCCEEDED)
            case _:
                if not pod.leaving and not pod.ended:
                    yield Move(Cause.PEOPLE, f"somebody deletes pod {pod.uid}"), self._deleted(state, pod.uid)

    def _to_job(self, state: State, job: JobFacts, what: scenario.Happening) -> Iterator[tuple[Move, State]]:
        match what:
            case scenario.Resize():
                now = self.contents[state.get(job.uid).server].manifest["spec"]["parallelism"]  # type: ignore[union-attr]
                for size in what.sizes:
                    if size != now:
                        after = self._patched(state, job.uid, {"spec": {"parallelism": size}})
                        yield Move(Cause.PEOPLE, f"somebody resizes Job {job.uid} to {size}"), after
            case scenario.Delete(orphan=True):
                leaving = {"metadata": {"deletionTimestamp": builders.time(0), "finalizers": ["orphan"]}}
                text = f"somebody deletes Job {job.uid}, but not its pods"
                yield Move(Cause.PEOPLE, text), self._patched(state, job.uid, leaving)
            case scenario.Delete():
                yield Move(Cause.PEOPLE, f"somebody deletes Job {job.uid}"), self._by_others(state, job.uid, GONE)
            case scenario.LoseWorkload():
                for each in self.seen(state).parents.values():
                    if each.job == job.uid and not each.recorded:
                        after = self._by_others(state, each.uid, GONE)
                        yield Move(Cause.PEOPLE, f"somebody lets {each.uid} be gone"), after
            case scenario.Suspend():
                word = "resumes" if job.suspended else "suspends"
                after = self._patched(state, job.uid, {"spec": {"suspend": not job.suspended}})
                yield Move(Cause.PEOPLE, f"somebody {word} Job {job.uid} by hand"), after
            case _:
                yield from self._deactivated(state, job)

    def _deactivated(self, state: State, job: JobFacts) -> Iterator[tuple[Move, State]]:
        for each in self.seen(state).parents.values():
            if each.job == job.uid:
                spec = self.contents[state.get(each.uid).server].manifest["spec"]  # type: ignore[union-attr]
                active = spec.get("active", True)
                after = self._patched(state, each.uid, {"spec": {"active": not active}})
                yield Move(Cause.PEOPLE, f"somebody sets spec.active of {each.uid} to {not active}"), after

    # Changes

    def _patched(self, state: State, uid: str, patch: Manifest) -> State:
        entry = state.get(uid)
        assert entry is not None
        return self._by_others(state, uid, self.contents.changed(entry.server, patch))

    def _deleted(self, state: State, uid: str) -> State:
        entry = state.get(uid)
        assert entry is not None
        return _forgetful(self._by_others(state, uid, self.contents.deleted(entry.server)))

    def _create_job(self, state: State, job: scenario.Start, *, seen: bool) -> State:
        uid = self._free_uid(state, job.name)
        made = contents.job(
            job.name,
            uid,
            parallelism=job.size,
            completions=job.completions,
            priority_class=job.priority_class,
            queue=job.queue,
        )
        number = self.contents.add(made)
        return state.changed(uid, number, seen=True) if seen else self._by_others(state, uid, number)

    def _free_uid(self, state: State, prefix: str) -> str:
        """Return the first UID that stands nowhere in the state: so there are few, and none is confused."""
        numbers = {number for each in state.entries for number in (each.server, each.cache) if number != GONE}
        taken = {uid for number in numbers for uid in self.contents[number].mentions}
        taken |= {each.uid for each in state.entries} | state.touched | state.refused
        text = state.held.body.decode() if state.held is not None else ""
        count = 0
        while f"{prefix}{count}" in taken or f'"{prefix}{count}"' in text:
            count += 1
        return f"{prefix}{count}"


def _configuration(chosen: Scenario) -> tuple[Any, ...]:
    within = "LowerPriority" if chosen.preempts else "Never"
    queue = builders.cluster_queue(flavors={"spot": {"cpu": chosen.quota}}, within=within)
    return (queue, builders.local_queue(), builders.flavor())


def _told(sent: Sent) -> str:
    return f"the runtime: {sent.step} ({sent.verb} {sent.on} {sent.uid}: {sent.why})"


def _read_anew(state: State) -> State:
    entries = tuple(Entry(each.uid, each.server, each.server, True) for each in state.entries if each.server != GONE)
    return state._replace(entries=entries)


def _spent(state: State, index: int) -> State:
    budget = state.budget
    return state._replace(budget=(*budget[:index], budget[index] - 1, *budget[index + 1 :]))


def _remembered(state: State, sent: Sent, *, is_done: bool = False) -> State:
    """Remember which pods were changed since we last tried to open them."""
    if sent.step is Step.OPEN and sent.uid in state.touched:
        return state._replace(touched=state.touched - {sent.uid})
    if sent.step is Step.TOUCH and is_done:
        return state._replace(touched=state.touched | {sent.uid})
    return state


def _forgetful(state: State) -> State:
    """Forget what was remembered of pods that the runtime sees no more."""
    if not state.touched and not state.refused:
        return state
    there = {each.uid for each in state.entries if each.cache != GONE}
    return state._replace(touched=state.touched & there, refused=state.refused & there)
