"""Breadth first over every state that a scenario can come to; what is found wrong is told by the shortest way to it."""

from array import array
from dataclasses import dataclass, field

from autoscaler.admission.writes import Step
from tests.model import ends, invariants
from tests.model.cluster import State
from tests.model.scenario import Scenario
from tests.model.seen import Seen
from tests.model.world import Cause, Move, World


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
class Explorer:
    """One exploration."""

    scenario: Scenario
    most: int = 10_000_000
    """So many states at most: a first part of the whole."""
    world: World = field(init=False)
    _states: list[State] = field(default_factory=list)
    _numbers: dict[State, int] = field(default_factory=dict)
    _came_from: "array[int]" = field(default_factory=lambda: array("l"))
    _came_by: list[str] = field(default_factory=list)
    _onward: "list[array[int]]" = field(default_factory=list)
    _good: list[int] = field(default_factory=list)
    _evictions: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world = World(self.scenario)

    def run(self) -> Result:
        """Look at every state; stop at the first that is wrong."""
        self._number(self.world.start(), -1, "")
        looked_at, violation = 0, None
        while violation is None and looked_at < len(self._states) and len(self._states) < self.most:
            violation = self._look_at(looked_at)
            looked_at += 1
        is_whole = looked_at == len(self._states)
        if violation is None and is_whole:
            violation = self._endless() or self._stuck()
        return Result(states=len(self._states), ends=len(self._good), violation=violation, is_whole=is_whole)

    def _number(self, state: State, came_from: int, by: str) -> int:
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self._states)
            self._states.append(state)
            self._came_from.append(came_from)
            self._came_by.append(by)
        return number

    def _look_at(self, number: int) -> Violation | None:
        state = self._states[number]
        seen = self.world.seen(state)
        wrong = next(invariants.of_state(seen, self.scenario.quota), None)
        onward = array("l")
        self._onward.append(onward)
        if wrong is not None:
            return self._violation(number, wrong)
        for move, after in self.world.moves(state):
            following = self._number(after, number, move.text)
            if move.cause is Cause.SYSTEM:
                onward.append(following)
            wrong = self._wrong_step(move, seen, after)
            if wrong is not None:
                return self._violation(number, wrong, move.text)
            if move.sent is not None and move.sent.step is Step.EVICT:
                self._evictions.append((number, following))
        return self._ended(number, seen) if not onward else None

    def _wrong_step(self, move: Move, seen: Seen, after: State) -> str | None:
        now = self.world.seen(after)
        return next(invariants.of_step(move, seen, now, self.scenario.quota), None) if now is not seen else None

    def _ended(self, number: int, seen: Seen) -> Violation | None:
        chosen, refused = self.scenario, self._states[number].refused
        wrong = next(ends.problems(seen, chosen.quota, preempts=chosen.preempts, refused=refused), None)
        if wrong is not None:
            return self._violation(number, f"nothing moves any more, and {wrong}")
        self._good.append(number)
        return None

    def _endless(self) -> Violation | None:
        """Find an eviction that can come again and again without anybody's doing."""
        groups = _components(self._onward)
        for before, after in self._evictions:
            if groups[before] == groups[after]:
                return self._violation(before, "evictions go on for ever", "and is evicted again")
        return None

    def _stuck(self) -> Violation | None:
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
        return Violation(scenario=self.scenario.name, problem=problem, steps=tuple(reversed(steps)))


def explore(scenario: Scenario, *, most: int = 10_000_000) -> Result:
    """Explore a scenario."""
    return Explorer(scenario, most).run()


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
