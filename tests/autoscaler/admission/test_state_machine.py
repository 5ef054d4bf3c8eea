"""Long random histories of a cohort of two ClusterQueues: larger than what can be explored exhaustively.

The decisions are the real ones, on the toy cluster of `tests.model`. After every step the invariants of E16 hold; and
when people stop, everything comes to rest with nobody waiting who fits.
SLUICE_HISTORIES=1000 plays so many histories instead of the usual few.
"""

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from autoscaler.admission.writes import Step
from tests.model import cohort, ends, invariants, scenario
from tests.model.cluster import State
from tests.model.cohort import Queue
from tests.model.contents import NOW
from tests.model.kept import Kept
from tests.model.runtime import FLAVORS, MIDDLE, PRIORITY
from tests.model.scenario import Scenario, Start
from tests.model.search import Cause
from tests.model.world import Move, World

HISTORIES: Final = int(os.environ.get("SLUICE_HISTORIES", "80"))
SLOW: Final = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
JUMPS: Final = (1000.0, 2000.0, 4000.0, 8000.0, 1e6)
STEPS_TO_REST: Final = 1000
EVICTIONS_TO_REST: Final = 30
OFTEN: Final = 1_000_000


class Then(NamedTuple):
    """How things go on of themselves after something has happened."""

    steps: int
    seed: int
    """What decides about their order."""
    is_rough: bool
    """Whether some writes are not answered."""


THEN: Final = st.builds(
    Then, steps=st.sampled_from([0, 2, 5, 10, 20, 50]), seed=st.integers(0, 2**16), is_rough=st.booleans()
)
NAMES: Final = ("team", "other")
CHOICE: Final = st.integers(0, 999)
LOST_SHARE: Final = 0.2
ORPHANS: Final = 0.3
SEEN_AT_ONCE: Final = 0.5
STRICT: Final = 0.3
NAMES_OF_JOBS: Final = "abcde"
CHANCES: Final = st.integers(0, 2**32 - 1).map(random.Random)
"""What decides where every choice is to be as likely as any other."""
SCENARIO: Final = Scenario(
    name="any history",
    quota=0,
    jobs=(),
    happenings=((scenario.Refuse(), OFTEN),),
    crashes=OFTEN,
    lost=OFTEN,
    lagging=3,
    pods_start=True,
    jumps=JUMPS,
)


class Histories(RuleBasedStateMachine):
    """One history."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(SCENARIO)
        self.state: State = self.world.start()
        self.told: list[str] = []
        self.has_refused = False
        self.queues: dict[str, Queue] = {}
        """As they are on the server."""
        self.seen_queues: dict[str, Queue] = {}
        """As the runtime has seen them."""
        self.held_queues: dict[str, Queue] = {}
        """As the runtime had seen them when it sent the write that was never answered."""

    @initialize(chance=CHANCES, jobs=st.integers(2, 4), then=THEN)
    def begin(self, chance: random.Random, jobs: int, then: Then) -> None:
        self.queues = {name: _some_queue(name, chance) for name in NAMES}
        self.told += [f"ClusterQueue {each}" for each in self.queues.values()]
        self.seen_queues = dict(self.queues)
        self._begin_process()
        for _ in range(jobs):
            self._create(_some_job(chance))
        self._go_on(then)

    # What goes on of itself

    @rule(then=THEN)
    def things_go_on(self, then: Then) -> None:
        self._go_on(then)

    @rule(choice=CHOICE)
    def the_runtime_writes(self, choice: int) -> None:
        self._choose((each for each in self._moves() if each[0].sent is not None and not each[0].late), choice)

    @rule(choice=CHOICE)
    def the_watch_shows_something(self, choice: int) -> None:
        self._choose((each for each in self._moves() if "watch" in each[0].text), choice)

    @rule(choice=CHOICE)
    def the_server_refuses_to_open_a_gate(self, choice: int) -> None:
        self._choose((each for each in self._moves() if "refuses for good" in each[0].text), choice)
        self.has_refused |= bool(self.state.refused)

    @rule(choice=CHOICE)
    def a_pod_becomes_ready(self, choice: int) -> None:
        self._choose((each for each in self._moves() if "becomes Ready" in each[0].text), choice)

    @rule(then=THEN)
    def time_passes(self, then: Then) -> None:
        if self.state.time < len(JUMPS) - 1:
            self._choose((each for each in self._moves() if "time passes" in each[0].text), 0)
            self._go_on(then)

    @rule(then=THEN)
    def the_runtime_crashes(self, then: Then) -> None:
        crashes = [each for each in self._moves() if "crashes" in each[0].text]
        if crashes:
            self._choose(iter(crashes), 0)
            self.seen_queues = dict(self.queues)
            self._begin_process()
            self._go_on(then)

    # People

    @rule(chance=CHANCES, then=THEN)
    def somebody_creates_a_job(self, chance: random.Random, then: Then) -> None:
        self._create(_some_job(chance))
        self._go_on(then)

    @rule(chance=CHANCES, then=THEN)
    def somebody_creates_an_urgent_job(self, chance: random.Random, then: Then) -> None:
        self._create(_some_job(chance)._replace(priority_class=PRIORITY))
        self._go_on(then)

    @rule(chance=CHANCES, then=THEN)
    def somebody_resizes_a_job(self, chance: random.Random, then: Then) -> None:
        self._happen_to_job(chance, lambda job: scenario.Resize(job=job, sizes=(chance.randint(0, 4),)), then)

    @rule(chance=CHANCES, then=THEN)
    def somebody_lets_a_job_grow(self, chance: random.Random, then: Then) -> None:
        self._happen_to_job(chance, lambda job: scenario.Resize(job=job, sizes=(4,)), then)

    @rule(chance=CHANCES, then=THEN)
    def somebody_takes_a_growth_back(self, chance: random.Random, then: Then) -> None:
        seen = self.world.seen(self.state)
        growing = [each for each in seen.parents.values() if seen.slices_of(each) and each.job in seen.jobs]
        if growing:
            chosen = chance.choice(growing)
            smaller = scenario.Resize(job=seen.jobs[chosen.job].name, sizes=(max(1, chosen.granted or 0),))
            self._happen(smaller, 0)
            self._go_on(then)

    @rule(chance=CHANCES, then=THEN)
    def somebody_deletes_a_job(self, chance: random.Random, then: Then) -> None:
        self._happen_to_job(chance, lambda job: scenario.Delete(job=job, orphan=chance.random() < ORPHANS), then)

    @rule(chance=CHANCES, then=THEN)
    def somebody_keeps_a_job_from_running(self, chance: random.Random, then: Then) -> None:
        what = chance.choice([scenario.Suspend, scenario.Deactivate])
        self._happen_to_job(chance, lambda job: what(job=job), then)

    @rule(chance=CHANCES, then=THEN)
    def a_pod_ends(self, chance: random.Random, then: Then) -> None:
        what = chance.choice([scenario.DeletePod(), scenario.LosePod(), scenario.EndPod()])
        self._happen(what, chance.randrange(1000))
        self._go_on(then)

    @rule(chance=CHANCES, then=THEN)
    def somebody_changes_a_quota(self, chance: random.Random, then: Then) -> None:
        name = chance.choice(NAMES)
        changed = {chance.choice(FLAVORS): chance.randint(0, 4)}
        self._reconfigure(name, chance, nominal={**self.queues[name].nominal, **changed})
        self._go_on(then)

    @rule(chance=CHANCES, then=THEN)
    def somebody_stops_a_queue_or_lets_it_go_on(self, chance: random.Random, then: Then) -> None:
        stop = chance.choice(["None", "None", "Hold", "HoldAndDrain"])
        self._reconfigure(chance.choice(NAMES), chance, stop=stop)
        self._go_on(then)

    def teardown(self) -> None:
        """Let people stop: everything comes to rest, and nobody waits who could be served."""
        if self.queues:
            self._see_queues()
            self._rest()
            while self.state.time < len(JUMPS):
                self._choose((each for each in self._moves() if "time passes" in each[0].text), 0)
            self._rest()
            seen = self.world.seen(self.state)
            self._check(ends.of_objects(seen, self.state.refused))
            self._check(cohort.unserved(seen, self.queues, may_rest=self.has_refused))

    # How

    def _begin_process(self) -> None:
        """Read all books anew, as a new process does."""
        self.world.runtime.kept = Kept(self.world.contents, cohort.configuration(self.seen_queues))

    def _reconfigure(self, name: str, chance: random.Random, **changes: Any) -> None:
        old, seen = self.queues[name], chance.random() < SEEN_AT_ONCE
        self.queues[name] = replace(old, generation=old.generation + 1, **changes)
        self.told.append(f"somebody changes {name}: {changes}, {'seen at once' if seen else 'not seen yet'}")
        if seen:
            self._see_queues()

    def _see_queues(self) -> None:
        self.seen_queues = dict(self.queues)
        assert self.world.runtime.kept is not None
        self.world.runtime.kept.configure(each.made() for each in self.queues.values())

    def _moves(self) -> Iterator[tuple[Move, State]]:
        return self.world.moves(self.state)

    def _go_on(self, then: Then) -> None:
        """Let things go on of themselves for some steps, in some order."""
        chance = random.Random(then.seed)  # noqa: S311  # no secret
        for _ in range(then.steps):
            is_lost = then.is_rough and self.state.held is None and chance.random() < LOST_SHARE
            moves = [each for each in self._moves() if _goes_on(each, is_lost=is_lost)]
            if not moves:
                return
            self._make(*chance.choice(moves))

    def _create(self, job: Start) -> None:
        """Create a Job under a name that is free; there are never more than there are names."""
        taken = {each.name for each in self.world.seen(self.state).jobs.values()}
        free = [name for name in NAMES_OF_JOBS if name not in taken]
        if free:
            self._happen(scenario.Create(job=job._replace(name=free[0])), 0)

    def _happen_to_job(self, chance: random.Random, what: Callable[[str], scenario.Happening], then: Then) -> None:
        names = [each.name for each in self.world.seen(self.state).jobs.values() if not each.finished]
        if names:
            self._happen(what(chance.choice(names)), 0)
            self._go_on(then)

    def _happen(self, what: scenario.Happening, choice: int) -> None:
        self._choose(self.world.people(self.state, what), choice)

    def _choose(self, moves: Iterator[tuple[Move, State]], choice: int) -> bool:
        """Make one of these moves, and check what it did; False: there is none."""
        found = list(moves)
        if found:
            self._make(*found[choice % len(found)])
        return bool(found)

    def _make(self, move: Move, after: State) -> None:
        before, now, unseen = self.world.seen(self.state), self.world.seen(after), self.state.unseen
        if self.state.held is None:
            self.held_queues = dict(self.seen_queues)
        self.state = after
        self.told.append(move.text)
        self._check(invariants.of_grants(now))
        self._check(invariants.of_change(move, before, now))
        queues = self.held_queues if move.late else self.seen_queues
        self._check(cohort.of_step(move, before, now, queues, unseen=unseen))
        assert self.world.runtime.kept is not None
        self.world.runtime.follow(after)
        self._check(self.world.runtime.kept.differences(NOW + (0.0, *JUMPS)[after.time]))

    def _rest(self) -> None:
        """Let things go on until nothing moves, with open pods becoming Ready."""
        chance = random.Random(len(self.told))  # noqa: S311  # no secret
        evictions = 0
        for _ in range(STEPS_TO_REST):
            moves = [each for each in self._moves() if each[0].cause is Cause.SYSTEM or "Ready" in each[0].text]
            if not moves:
                return
            move, after = chance.choice(moves)
            evictions += move.sent is not None and move.sent.step is Step.EVICT
            self._make(move, after)
            self._check(["evictions go on and on"] if evictions > EVICTIONS_TO_REST else [])
        self._check([f"nothing rests after {STEPS_TO_REST} steps"])

    def _check(self, wrong: Any) -> None:
        problem = next(iter(wrong), None)
        if problem is not None:
            told = "\n".join(f"{number:3}. {step}" for number, step in enumerate(self.told, 1))
            pytest.fail(f"{problem}, after\n{told}", pytrace=False)


def _some_queue(name: str, chance: random.Random) -> Queue:
    return Queue(
        name=name,
        nominal={"spot": chance.randint(0, 4), "demand": chance.choice([0, 0, 1, 2])},
        borrowing_limit=chance.choice([0, 1, 2, 8]),
        within=chance.choice(["LowerPriority", "LowerPriority", "Never"]),
        reclaim=chance.choice(["Any", "Any", "LowerPriority", "Never"]),
        strict=chance.random() < STRICT,
    )


def _some_job(chance: random.Random) -> Start:
    return Start(
        name="",
        size=chance.randint(1, 4),
        priority_class=chance.choice(["", MIDDLE, PRIORITY]),
        completions=chance.choice([None, None, 1, 3, 5]),
        queue=f"door-{chance.choice(NAMES)}",
    )


def _goes_on(moved: tuple[Move, State], *, is_lost: bool) -> bool:
    """Tell whether a move happens of itself; or, instead, whether a write is not answered by it."""
    move, after = moved
    return after.held is not None and move.cause is Cause.FAULT if is_lost else move.cause is Cause.SYSTEM


@pytest.mark.accept("E16", part="long random histories of two queues in a cohort")
@pytest.mark.accept("E10", part="nobody is evicted in vain, no eviction without end, in random histories")
def test_every_history_keeps_the_invariants_and_ends_well() -> None:
    chosen = settings(
        max_examples=HISTORIES,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=SLOW,
        derandomize="SLUICE_HISTORIES" not in os.environ,  # the same histories in each `make test`
    )
    run_state_machine_as_test(Histories, settings=chosen)
