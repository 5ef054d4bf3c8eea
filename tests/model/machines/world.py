"""Everything that can happen next in the toy cluster: moves of the runtime, of other controllers and of people."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.model.machines.cluster import (
    ABSENT,
    BOUND,
    FRESH,
    GATED,
    GONE,
    HELD,
    LATER,
    NEVER,
    OPEN,
    OVER,
    Content,
    Host,
    Pod,
    Sent,
    State,
)
from tests.model.machines.runtime import Runtime
from tests.model.machines.scenario import Scenario
from tests.model.search import Cause

_CRASHES: Final = 0
_LOST: Final = 1
_ENDS: Final = 2
_DELETIONS: Final = 3
_SLEEPER_DELETIONS: Final = 4
_FAILURES: Final = 5
_DROPS: Final = 6
_COMES: Final = 7
_GOES: Final = 8
_VISITORS: Final = 9
_STEPS_TO_REST: Final = 300
_Moves = Iterator[tuple["Move", State]]


class Move(NamedTuple):
    """One step of one actor."""

    cause: Cause
    text: str
    is_write: bool = False
    """Whether the runtime wrote."""
    place: int = -1


class World:
    """The rules of the toy cluster."""

    def __init__(self, chosen: Scenario) -> None:
        self.scenario = chosen
        self.sleepers = tuple(
            (number, ordinal)
            for number, each in enumerate(chosen.types)
            if each.sleepers
            for ordinal in range(each.maximum)
        )
        self.runtime = Runtime(chosen, self.sleepers)
        self.first_sleeper = len(chosen.visitors)
        self.foreign = self.first_sleeper + len(self.sleepers)
        self.first_host = self.foreign + 1
        self._type_number = {each.name: number for number, each in enumerate(chosen.types)}

    def start(self) -> State:
        """Return the first state: the Machine was just created, or all is at rest."""
        chosen = self.scenario
        guests = [GONE if each.comes else Pod(HELD if each.held else GATED) for each in chosen.visitors]
        contents: tuple[Content, ...] = (
            *guests,
            *(Pod(GATED) for _ in self.sleepers),
            GONE,
            *(Host() for _ in chosen.hosts),
        )
        budget = (
            chosen.crashes,
            chosen.lost,
            chosen.ends,
            chosen.deletions,
            chosen.deletions,
            chosen.failures,
            chosen.drops,
            int(chosen.foreign > 0),
            int(chosen.foreign_goes),
            *(int(each.comes) for each in chosen.visitors),
        )
        state = State(server=contents, cache=contents, budget=budget)
        return self._rested(state) if chosen.from_rest else state

    def _rested(self, state: State) -> State:
        for _ in range(_STEPS_TO_REST):
            state = next((after for move, after in self.moves(state) if move.cause is Cause.SYSTEM), state)
        return state

    def moves(self, state: State) -> _Moves:
        """Return every move that is possible now, and where it leads."""
        yield from self._runtime(state)
        yield from self._held(state)
        for place in sorted(state.stale):
            yield Move(Cause.SYSTEM, f"the runtime sees {self.name(place)}"), state.synced(place)
        yield from self._scheduler(state)
        yield from self._others(state)
        yield from self._clock(state)
        yield from self._people(state)

    # What is there

    def name(self, place: int) -> str:
        chosen = self.scenario
        if place < self.first_sleeper:
            return f"guest {chosen.visitors[place].name}"
        if place < self.foreign:
            number, ordinal = self.sleepers[place - self.first_sleeper]
            return f"sleeper {chosen.types[number].name}-{ordinal}"
        return "the pod of others" if place == self.foreign else f"node {chosen.hosts[place - self.first_host].name}"

    def pod(self, state: State, place: int) -> Pod:
        content = state.server[place]
        assert isinstance(content, Pod)
        return content

    def host(self, state: State, number: int) -> Host:
        content = state.server[self.first_host + number]
        assert isinstance(content, Host)
        return content

    def type_of(self, place: int) -> int:
        """Return the type of the guest or sleeper at a place."""
        if place < self.first_sleeper:
            return self._type_number[self.scenario.visitors[place].type]
        return self.sleepers[place - self.first_sleeper][0]

    def free(self, state: State, number: int) -> int:
        """Return the cpu that is free on a node."""
        there = [at for at in range(self.first_host) if _is_at(self.pod(state, at), number)]
        return self.scenario.hosts[number].cpu - sum(self.runtime.cpu(at) for at in there)

    def takes(self, state: State, number: int, place: int) -> bool:
        """Tell whether a node lets a pod in, if there is room."""
        host = self.host(state, number)
        if not host.ready or host.closed:
            return False
        if place == self.foreign:
            return True
        if self.scenario.types[self.type_of(place)].name not in self.scenario.hosts[number].types:
            return False
        if place >= self.first_sleeper:
            return True
        visitor = self.scenario.visitors[place]
        return self.scenario.hosts[number].name not in visitor.refused | visitor.barred

    def candidates(self, state: State, place: int) -> list[int]:
        """Return the nodes to which the scheduler can bind a pod."""
        pod = self.pod(state, place)
        chosen = range(len(self.scenario.hosts)) if pod.node < 0 else (pod.node,)
        cpu = self.runtime.cpu(place)
        return [each for each in chosen if self.takes(state, each, place) and self.free(state, each) >= cpu]

    # The runtime

    def _runtime(self, state: State) -> _Moves:
        wanted = state.inflight or self._wanted(state)
        for sent in wanted:
            others = tuple(each for each in wanted if each is not sent)
            after = state._replace(inflight=others).changed(sent.place, sent.result, seen=True)
            yield Move(Cause.SYSTEM, sent.text, is_write=True, place=sent.place), after
            if state.budget[_LOST] and state.held is None:
                lost = _spent(state, _LOST)._replace(inflight=others, held=sent)
                yield Move(Cause.FAULT, f"{sent.text}, and is not answered: it is still under way"), lost
        if state.budget[_CRASHES] and state.held is None:
            after = _spent(state, _CRASHES)._replace(cache=state.server, stale=frozenset(), inflight=())
            yield Move(Cause.FAULT, "the runtime is killed, and another one reads all anew"), after

    def _wanted(self, state: State) -> tuple[Sent, ...]:
        """Return what the runtime writes; it opens nothing while an unanswered opening may still take effect."""
        waits = state.held is not None and state.held.opens
        return tuple(
            each
            for each in self.runtime.writes(state.cache)
            if each.place not in state.stale and not (waits and each.opens)
        )

    def _held(self, state: State) -> _Moves:
        sent = state.held
        if sent is None:
            return
        free = state._replace(held=None)
        yield Move(Cause.SYSTEM, f"the unanswered write is lost: {sent.text}"), free
        text = f"the unanswered write takes effect: {sent.text}"
        after = free.changed(sent.place, sent.result, seen=True) if sent.opens else None
        yield Move(Cause.SYSTEM, text), after or self._by_others(free, sent.place, sent.result)

    def _by_others(self, state: State, place: int, content: Content) -> State:
        is_late = place in state.stale or len(state.stale) < self.scenario.lagging
        return state.changed(place, content, seen=not is_late)

    # Other controllers

    def _scheduler(self, state: State) -> _Moves:
        for place in range(self.first_host):
            pod = self.pod(state, place)
            if pod.phase != OPEN:
                continue
            found = self.candidates(state, place)
            for number in found:
                text = f"the scheduler binds {self.name(place)} to {self.scenario.hosts[number].name}"
                yield Move(Cause.SYSTEM, text), self._by_others(state, place, Pod(BOUND, number))
            if not found and place < self.first_sleeper and pod.unschedulable == NEVER:
                text = f"the scheduler finds no node for {self.name(place)}"
                told = pod._replace(unschedulable=FRESH)
                yield Move(Cause.SYSTEM, text), self._by_others(state, place, told)

    def _others(self, state: State) -> _Moves:
        for place in range(self.first_host):
            pod = self.pod(state, place)
            if pod.leaving:
                yield Move(Cause.SYSTEM, f"{self.name(place)} has stopped"), self._by_others(state, place, GONE)
            elif pod.phase == ABSENT and self.first_sleeper <= place < self.foreign:
                text = f"the StatefulSet controller makes {self.name(place)}"
                yield Move(Cause.SYSTEM, text), self._by_others(state, place, Pod(GATED))
        for number in range(len(self.scenario.hosts)):
            place, host = self.first_host + number, self.host(state, number)
            is_wanted = host.ready and not host.dropped
            if place not in state.stale and host.closed == is_wanted:
                text = f"the runtime {'opens' if is_wanted else 'closes'} {self.name(place)}"
                yield Move(Cause.SYSTEM, text), state.changed(place, host._replace(closed=not is_wanted), seen=True)

    def _clock(self, state: State) -> _Moves:
        """Let time pass once the scheduler has nothing left to do: it is faster than what the runtime waits for."""
        waiting = [at for at in range(self.first_sleeper) if self.pod(state, at).phase == OPEN]
        if not any(self.pod(state, at).unschedulable != NEVER for at in waiting):
            return
        if any(self.candidates(state, at) for at in range(self.first_host) if self.pod(state, at).phase == OPEN):
            return
        is_slow = bool(state.stale or state.held or state.inflight or self._wanted(state))
        cause = Cause.FAULT if is_slow else Cause.SYSTEM
        for age, text in ((LATER, "ten seconds pass"), (OVER, "a minute passes")):
            after = _aged(state, age)
            if after != state:
                yield Move(cause, f"{text}, and the runtime is slow" if is_slow else text), after

    # People

    def _people(self, state: State) -> _Moves:
        for place, visitor in enumerate(self.scenario.visitors):
            pod = self.pod(state, place)
            if state.budget[_VISITORS + place]:
                come = Pod(HELD if visitor.held else GATED)
                yield self._done(state, _VISITORS + place, place, come, f"{self.name(place)} comes")
            if pod.phase == HELD:
                text = f"the other gate of {self.name(place)} goes"
                yield Move(Cause.PEOPLE, text), self._by_others(state, place, Pod(GATED))
            if pod.phase == BOUND and not pod.leaving and state.budget[_ENDS]:
                yield self._done(state, _ENDS, place, GONE, f"{self.name(place)} ends")
            if pod.phase != ABSENT and not pod.leaving and state.budget[_DELETIONS]:
                after = pod._replace(leaving=True) if pod.phase == BOUND else GONE
                yield self._done(state, _DELETIONS, place, after, f"somebody deletes {self.name(place)}")
        yield from self._hands_on_sleepers(state)
        yield from self._hands_on_nodes(state)
        if state.budget[_COMES]:
            yield self._done(state, _COMES, self.foreign, Pod(OPEN), "a pod of others comes")
        if state.budget[_GOES] and self.pod(state, self.foreign).phase != ABSENT:
            yield self._done(state, _GOES, self.foreign, GONE, "the pod of others goes")

    def _hands_on_sleepers(self, state: State) -> _Moves:
        for place in range(self.first_sleeper, self.foreign):
            if self.pod(state, place).phase in {OPEN, BOUND} and state.budget[_SLEEPER_DELETIONS]:
                yield self._done(state, _SLEEPER_DELETIONS, place, GONE, f"somebody deletes {self.name(place)}")

    def _hands_on_nodes(self, state: State) -> _Moves:
        for number in range(len(self.scenario.hosts)):
            place, host = self.first_host + number, self.host(state, number)
            if host.ready and state.budget[_FAILURES]:
                yield self._done(state, _FAILURES, place, host._replace(ready=False), f"{self.name(place)} fails")
            if not host.ready:
                text = f"{self.name(place)} recovers"
                yield Move(Cause.PEOPLE, text), self._by_others(state, place, host._replace(ready=True))
            if not host.dropped and state.budget[_DROPS]:
                text = f"the Machine drops {self.name(place)}"
                yield self._done(state, _DROPS, place, host._replace(dropped=True), text)

    def _done(self, state: State, index: int, place: int, content: Content, text: str) -> tuple[Move, State]:
        return Move(Cause.PEOPLE, text), self._by_others(_spent(state, index), place, content)


def _is_at(pod: Pod, host: int) -> bool:
    return pod.phase == BOUND and pod.node == host


def _spent(state: State, index: int) -> State:
    budget = state.budget
    return state._replace(budget=(*budget[:index], budget[index] - 1, *budget[index + 1 :]))


def _aged(state: State, age: int) -> State:
    """Let time pass; no object changes by it."""
    return state._replace(
        server=tuple(_older(each, age) for each in state.server),
        cache=tuple(_older(each, age) for each in state.cache),
        inflight=tuple(each._replace(result=_older(each.result, age)) for each in state.inflight),
        held=state.held and state.held._replace(result=_older(state.held.result, age)),
    )


def _older(content: Content, age: int) -> Content:
    if not isinstance(content, Pod) or content.phase != OPEN:
        return content
    trying, told = content.trying, content.unschedulable
    return content._replace(
        trying=NEVER if trying == NEVER else max(trying, age),
        unschedulable=NEVER if told == NEVER else max(told, age),
    )
