"""The exploration of admission: the moves of the toy cluster, and what must be true of it."""

from collections.abc import Iterator

from autoscaler.admission.writes import Step
from tests.model import ends, invariants
from tests.model.cluster import State
from tests.model.scenario import Scenario
from tests.model.search import Result, Search
from tests.model.seen import Seen
from tests.model.world import Move, World


class _Admission:
    """The rules of one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.name = scenario.name
        self._scenario = scenario
        self._world = World(scenario)
        self._last: tuple[State | None, Seen] = (None, Seen())
        """The state that is looked at, and what its objects say."""

    def start(self) -> State:
        return self._world.start()

    def moves(self, state: State) -> Iterator[tuple[Move, State]]:
        return self._world.moves(state)

    def of_state(self, state: State) -> Iterator[str]:
        return invariants.of_state(self._seen(state), self._scenario.quota)

    def of_step(self, move: Move, before: State, after: State) -> Iterator[str]:
        seen, now = self._seen(before), self._world.seen(after)
        return invariants.of_step(move, seen, now, self._scenario.quota) if now is not seen else iter(())

    def of_end(self, state: State) -> Iterator[str]:
        chosen = self._scenario
        return ends.problems(self._seen(state), chosen.quota, preempts=chosen.preempts, refused=state.refused)

    def endless(self, move: Move) -> str | None:
        is_eviction = move.sent is not None and move.sent.step is Step.EVICT
        return "evictions go on for ever" if is_eviction else None

    def _seen(self, state: State) -> Seen:
        if self._last[0] is not state:
            self._last = (state, self._world.seen(state))
        return self._last[1]


def explore(scenario: Scenario, *, most: int = 10_000_000) -> Result:
    """Explore a scenario."""
    return Search(_Admission(scenario), most).run()
