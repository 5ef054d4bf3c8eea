"""Breadth first over every state that rules allow; what is found wrong is told by the shortest way to it."""

from array import array
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Generic, Protocol, TypeVar


class Cause(Enum):
    """Who makes a move. The good end must be reachable by what goes on of itself alone."""

    SYSTEM = auto()
    PEOPLE = auto()
    FAULT = auto()


class Step(Protocol):
    """One step of one actor."""

    @property
    def cause(self) -> Cause: ...
    @property
    def text(self) -> str: ...


S = TypeVar("S", bound=Hashable)
M = TypeVar("M", bound=Step)


class Rules(Protocol[S, M]):
    """What there is at the start, what can happen next, and what must be true."""

    name: str

    def start(self) -> S:
        """Return the first state."""
        ...

    def moves(self, state: S) -> Iterator[tuple[M, S]]:
        """Return every move that is possible now, and where it leads."""
        ...

    def of_state(self, state: S) -> Iterator[str]:
        """Say what is wrong with a state."""
        ...

    def of_step(self, move: M, before: S, after: S) -> Iterator[str]:
        """Say what is wrong with a step."""
        ...

    def of_end(self, state: S) -> Iterator[str]:
        """Say what is wrong with a state in which nothing moves any more."""
        ...

    def endless(self, move: M) -> str | None:
        """Say what is wrong if this move can come again and again; None: nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """Something that must not be, and how it came about."""

    scenario: str
    problem: str
    steps: tuple[str, ...]

    def __str__(self) -> str:
        told = "\n".join(f"{number:3}. {step}" for number, step in enumerate(self.steps, 1))
        return f"{self.scenario}: {self.problem}, after\n{told}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What an exploration found."""

    states: int
    ends: int
    violation: Violation | None
    is_whole: bool
    """Whether every state was looked at."""


@dataclass(slots=True)
class Search(Generic[S, M]):
    """One exploration."""

    rules: Rules[S, M]
    most: int = 10_000_000
    """So many states at most: a first part of the whole."""
    _states: list[S] = field(default_factory=list)
    _numbers: dict[S, int] = field(default_factory=dict)
    _came_from: "array[int]" = field(default_factory=lambda: array("l"))
    _came_by: list[str] = field(default_factory=list)
    _onward: "list[array[int]]" = field(default_factory=list)
    _good: list[int] = field(default_factory=list)
    _endable: list[tuple[int, int, str, str]] = field(default_factory=list)
    """Moves that must not come again and again: from where, to where, what they are, and what would be wrong."""

    def run(self) -> Result:
        """Look at every state; stop at the first that is wrong."""
        self._number(self.rules.start(), -1, "")
        looked_at, violation = 0, None
        while violation is None and looked_at < len(self._states) and len(self._states) < self.most:
            violation = self._look_at(looked_at)
            looked_at += 1
        is_whole = looked_at == len(self._states)
        if violation is None and is_whole:
            violation = self._find_endless() or self._find_stuck()
        return Result(states=len(self._states), ends=len(self._good), violation=violation, is_whole=is_whole)

    def _number(self, state: S, came_from: int, by: str) -> int:
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self._states)
            self._states.append(state)
            self._came_from.append(came_from)
            self._came_by.append(by)
        return number

    def _look_at(self, number: int) -> Violation | None:
        state = self._states[number]
        wrong = next(self.rules.of_state(state), None)
        onward = array("l")
        self._onward.append(onward)
        if wrong is not None:
            return self._violation(number, wrong)
        for move, after in self.rules.moves(state):
            following = self._number(after, number, move.text)
            if move.cause is Cause.SYSTEM:
                onward.append(following)
            wrong = next(self.rules.of_step(move, state, after), None)
            if wrong is not None:
                return self._violation(number, wrong, move.text)
            again = self.rules.endless(move)
            if again is not None:
                self._endable.append((number, following, move.text, again))
        return self._ended(number) if not onward else None

    def _ended(self, number: int) -> Violation | None:
        wrong = next(self.rules.of_end(self._states[number]), None)
        if wrong is not None:
            return self._violation(number, f"nothing moves any more, and {wrong}")
        self._good.append(number)
        return None

    def _find_endless(self) -> Violation | None:
        """Find a move that can come again and again without anybody's doing."""
        groups = _components(self._onward)
        for before, after, text, wrong in self._endable:
            if groups[before] == groups[after]:
                return self._violation(before, wrong, f"{text}, again and again")
        return None

    def _find_stuck(self) -> Violation | None:
        """Find a state from which no good end can be reached by what goes on of itself."""
        backward: list[list[int]] = [[] for _ in self._states]
        for number, onward in enumerate(self._onward):
            for following in onward:
                backward[following].append(number)
        reached = bytearray(len(self._states))
        todo = list(self._good)
        for number in todo:
            reached[number] = 1
        while todo:
            for before in backward[todo.pop()]:
                if not reached[before]:
                    reached[before] = 1
                    todo.append(before)
        first = reached.find(0)
        return self._violation(first, "no good end can be reached") if first >= 0 else None

    def _violation(self, number: int, problem: str, last: str = "") -> Violation:
        steps = [last] if last else []
        while self._came_from[number] >= 0:
            steps.append(self._came_by[number])
            number = self._came_from[number]
        return Violation(scenario=self.rules.name, problem=problem, steps=tuple(reversed(steps)))


def _components(onward: "list[array[int]]") -> list[int]:
    """Number the strongly connected components of a graph (Kosaraju)."""
    backward: list[list[int]] = [[] for _ in onward]
    for node, following in enumerate(onward):
        for after in following:
            backward[after].append(node)
    groups = [-1] * len(onward)
    for root in reversed(_finished_last(onward)):
        if groups[root] < 0:
            groups[root], todo = root, [root]
            while todo:
                for before in backward[todo.pop()]:
                    if groups[before] < 0:
                        groups[before] = root
                        todo.append(before)
    return groups


def _finished_last(onward: "list[array[int]]") -> list[int]:
    """Return the nodes of a graph in the order in which a search depth first is done with them."""
    done: list[int] = []
    was_seen = bytearray(len(onward))
    for root in range(len(onward)):
        work = [] if was_seen[root] else [(root, iter(onward[root]))]
        was_seen[root] = 1
        while work:
            node, left = work[-1]
            after = next((each for each in left if not was_seen[each]), None)
            if after is None:
                done.append(node)
                work.pop()
            else:
                was_seen[after] = 1
                work.append((after, iter(onward[after])))
    return done
