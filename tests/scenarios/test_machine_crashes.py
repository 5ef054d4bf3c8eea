"""A runtime that is killed at every single write of a machine group's life: the end is always the same.

No type ever has more open guests and sleepers than machines: every opening is audited (`machine_audit`).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest

from autoscaler import machines
from autoscaler.api import keys
from autoscaler.kube import kinds, port
from autoscaler.simulation import virtual_time
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.machine_audit import MACHINES
from tests.scenarios.machine_world import GROUP, GUESTS, RUNTIME, World, entry, machine_type, runtime
from tests.scenarios.worker_world import Doomed, Forgetful

pytestmark = pytest.mark.simulated
TAKEOVER_SECONDS: Final = 25.0
"""A Lease of 15 seconds ends, and another leader waits until what was under way has ended, too."""
SETTLED_SECONDS: Final = 10.0


@dataclass(frozen=True, kw_only=True)
class Story:
    """What happens to a group at rest, at every write of which the runtime is killed once."""

    then: Callable[[World], object]
    rooms: dict[str, int]
    """Where sleepers hold room in the end."""
    bound: int
    """How many guests have a node in the end."""


def first(world: World) -> None:
    """Make a Machine of two nodes, each with room for one machine."""
    for name in ("n1", "n2"):
        world.add_node(name, cpu="2")
    world.add_machine(types={"medium": machine_type(available=2)}, nodes=[entry("n1"), entry("n2", taint=True)])


def three_guests(world: World) -> None:
    for name in ("g1", "g2", "g3"):
        world.add_guest(name)


STORIES: Final[dict[str, Story]] = {
    "a guest comes": Story(then=lambda world: world.add_guest("g1"), rooms={"n2": 1}, bound=1),
    "more guests than machines": Story(then=three_guests, rooms={}, bound=2),
    "a node is dropped": Story(
        then=lambda world: world.change_machine(nodePool=[entry("n2", taint=True)]), rooms={"n2": 1}, bound=0
    ),
    "the type changes": Story(
        then=lambda world: world.change_machine(
            machineTypes=[{"name": "medium", **machine_type(cpu="1", available=2)}]
        ),
        rooms={"n1": 2},
        bound=0,
    ),
    "the Machine is deleted": Story(then=lambda world: world.delete(MACHINES, GROUP), rooms={}, bound=0),
}


@pytest.mark.accept("M14", part="killed before and after every write, in virtual time")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("story", STORIES)
def test_a_runtime_that_is_killed_at_any_write_ends_where_an_unharmed_one_does(story: str, after: bool) -> None:  # noqa: FBT001
    want, writes = virtual_time.run(_play(STORIES[story], Doomed))
    assert 2 <= writes <= 40
    for at in range(1, writes + 1):
        found, _ = virtual_time.run(_play(STORIES[story], Doomed, at=at, after=after))
        assert found == want, f"killed {'after' if after else 'before'} write {at} of {writes}"


@pytest.mark.accept("M14", part="answers that are lost")
@pytest.mark.parametrize("story", STORIES)
def test_the_answer_to_any_write_may_be_lost(story: str) -> None:
    want, writes = virtual_time.run(_play(STORIES[story], Forgetful))
    for at in range(1, writes + 1):
        found, _ = virtual_time.run(_play(STORIES[story], Forgetful, at=at))
        assert found == want, f"the answer to write {at} of {writes} was lost"


@pytest.mark.accept("M14", part="watches that lag")
@pytest.mark.parametrize("story", STORIES)
def test_watches_may_lag_behind(story: str) -> None:
    want, _ = virtual_time.run(_play(STORIES[story], Doomed))
    found, _ = virtual_time.run(_play(STORIES[story], Doomed, lag_seconds=3.0))
    assert found == want


async def _play(
    story: Story, kind: type[Doomed], *, at: int = 0, after: bool = False, lag_seconds: float = 0.0
) -> tuple[object, int]:
    world, made = World(), list[Doomed]()
    first(world)
    world.cluster.faults.watch_lag_seconds = lag_seconds

    def doomed(api: port.Api) -> port.Api:
        made.append(kind(api, at=at, after=after))
        return made[-1]

    async with runtime(world, machines.build, wrap=doomed):
        await asyncio.sleep(1)
        async with runtime(world, machines.build, pod="b"):
            await asyncio.sleep(SETTLED_SECONDS + 3 * lag_seconds)
            made[0].is_doomed = True
            story.then(world)
            await asyncio.sleep(TAKEOVER_SECONDS + 60)
    placed = [node for node in world.places().values() if node is not None]
    assert (dict(world.rooms()), len(placed)) == (story.rooms, story.bound)
    return _end(world), made[0].writes


def _end(world: World) -> object:
    """Return all else that matters of where a world has come to."""
    marks = {name: (world.marks(name), world.taints(name)) for name in ("n1", "n2")}
    machine = world.status().get("availableMachines") if world.exists(MACHINES, GROUP) else None
    return marks, machine, world.exists(kinds.STATEFUL_SETS, f"medium-{GROUP}")


# An opening that is not answered and takes effect late


class Slow:
    """A connection that breaks at the first opening of a guest, which takes effect a little later."""

    def __init__(self, api: port.Api, late_seconds: float, then: Callable[[], object]) -> None:
        self.late: asyncio.Task[port.Response] | None = None
        self.watch = api.watch
        self._api = api
        self._late_seconds = late_seconds
        self._then = then

    async def send(self, request: port.Request) -> port.Response:
        is_opening = f"/{GUESTS}/pods/" in request.path and b"schedulingGates" in (request.body or b"")
        if self.late is None and is_opening:
            self.late = asyncio.create_task(self._later(request))
            self._then()
            raise port.UnreachableError("the connection broke")
        return await self._api.send(request)

    async def _later(self, request: port.Request) -> port.Response:
        await asyncio.sleep(self._late_seconds)
        return await self._api.send(request)


@pytest.mark.accept("M14", part="an opening that is not answered")
@pytest.mark.parametrize("late_seconds", [0.006, 0.05, 1.0, 5.0])
def test_nobody_is_opened_into_what_an_unanswered_opening_may_still_take(late_seconds: float) -> None:
    virtual_time.run(_play_late(late_seconds))


async def _play_late(late_seconds: float) -> None:
    world, made = World(), list[Slow]()
    for name in ("n1", "n2"):
        world.add_node(name, cpu="8")
    world.add_machine(types={"medium": machine_type(available=1)}, nodes=[entry("n1"), entry("n2")])

    def slow(api: port.Api) -> port.Api:
        better = lambda: world.add_guest("better", nodeSelector={"kubernetes.io/hostname": "n1"})  # noqa: E731
        made.append(Slow(api, late_seconds, better))
        return made[-1]

    async with runtime(world, machines.build, wrap=slow):
        await asyncio.sleep(SETTLED_SECONDS)
        world.add_guest("first")
        await asyncio.sleep(60)
    assert made[0].late is not None
    assert made[0].late.done()
    assert [name for name in ("first", "better") if keys.MACHINE_GATE not in _gates(world, name)] == ["first"]


def _gates(world: World, name: str) -> set[str]:
    return {each["name"] for each in world.guest(name)["spec"].get("schedulingGates") or ()}


# A Machine that comes while the catalogue is written


class Answering:
    """A connection that is slow to answer the first write of the catalogue; something happens meanwhile."""

    def __init__(self, api: port.Api, then: Callable[[], object]) -> None:
        self.watch = api.watch
        self._api = api
        self._then: Callable[[], object] | None = then

    async def send(self, request: port.Request) -> port.Response:
        answer = await self._api.send(request)
        if request.method == "POST" and request.path == kinds.CONFIG_MAPS.collection(RUNTIME.namespace) and self._then:
            self._then()
            self._then = None
            await asyncio.sleep(1)
        return answer


@pytest.mark.accept("M2", part="the catalogue has every Machine")
@simulated
async def test_a_machine_that_comes_while_the_catalogue_is_written_is_in_it() -> None:
    world = World()
    world.add_node("n1", cpu="4")

    def come() -> None:
        world.add_machine(types={"medium": machine_type()}, nodes=[entry("n1")])

    async with runtime(world, machines.build, wrap=lambda api: Answering(api, come)):
        await asyncio.sleep(60)
        assert f"{GROUP}.medium.cpu" in world.catalogue()
