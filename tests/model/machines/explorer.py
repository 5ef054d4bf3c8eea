"""The exploration of machines: the moves of the toy cluster, and what must be true of it."""

from collections.abc import Iterator

from tests.model.machines import judging
from tests.model.machines.cluster import State
from tests.model.machines.scenario import Scenario
from tests.model.machines.world import Move, World
from tests.model.search import Result, Search


class _Machines:
    """The rules of one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.name = scenario.name
        self._world = World(scenario)

    def start(self) -> State:
        return self._world.start()

    def moves(self, state: State) -> Iterator[tuple[Move, State]]:
        return self._world.moves(state)

    def of_state(self, state: State) -> Iterator[str]:
        return judging.of_state(self._world, state)

    def of_step(self, move: Move, before: State, after: State) -> Iterator[str]:
        del after
        return judging.of_step(self._world, move, before)

    def of_end(self, state: State) -> Iterator[str]:
        return judging.of_end(self._world, state)

    def endless(self, move: Move) -> str | None:
        return "the runtime writes for ever" if move.is_write else None


def explore(scenario: Scenario, *, most: int = 10_000_000) -> Result:
    """Explore a scenario."""
    return Search(_Machines(scenario), most).run()
