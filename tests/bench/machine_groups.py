"""Machines: what a change costs beside many guests that stay, and how long a thousand at once wait. In virtual time."""

import asyncio
import time
from collections.abc import Awaitable, Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from autoscaler import control, machines
from autoscaler.control import Controller, Dirty
from autoscaler.kube import kinds
from autoscaler.options import Options
from autoscaler.simulation import virtual_time
from tests.bench import results
from tests.scenarios import machine_world
from tests.scenarios.machine_world import GUESTS, World

TYPES_EACH: Final = 25
"""So many types has a Machine."""
NODES_EACH: Final = 10
"""So many nodes has a type."""
MACHINES_EACH: Final = 11
"""So many machines of a type fit on a node."""
STAY_EACH: Final = 10
"""So many guests stay on a node while others come and go."""
WAVE: Final = 500
"""So many guests come at once where all that counts is that they are there."""
STORM: Final = 1000
TYPE_LABEL: Final = "example.com/type"
REST_SECONDS: Final = 600.0
CHANGES: Final = 20


@dataclass(slots=True)
class Work:
    """The processor time that a controller itself took; what it sends is handled in tasks that do not count."""

    seconds: float = 0.0
    cycles: int = 0

    def build(self, context: control.ControllerContext, options: Options) -> Controller:
        """Make the controller of machines, and measure it."""
        inner = machines.build(context, options)
        return _Measured(inner, self)


@dataclass(slots=True)
class _Measured:
    inner: Controller
    work: Work

    async def reconcile(self, dirty: Dirty) -> float | None:
        self.work.cycles += 1
        wake_at: float | None = await _Steps(self.inner.reconcile(dirty), self.work)
        return wake_at


@dataclass(slots=True)
class _Steps(Awaitable[Any]):
    """Run something step by step, and add up what its own steps take."""

    inner: Awaitable[Any]
    work: Work

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self.inner.__await__()
        while True:
            started = time.process_time()
            try:
                waits_for = next(steps)
            except StopIteration as end:
                return end.value
            finally:
                self.work.seconds += time.process_time() - started
            yield waits_for


@dataclass(slots=True)
class Fleet:
    """A cluster with Machines, each type on nodes of its own."""

    types: int
    nodes_each: int = NODES_EACH
    work: Work = field(default_factory=Work)
    world: World = field(default_factory=World)

    def names(self) -> list[tuple[str, str]]:
        """Return all groups and types."""
        return [(f"g{number // TYPES_EACH}", f"t{number}") for number in range(self.types)]

    def make(self) -> None:
        """Make nodes and Machines."""
        by_group: dict[str, list[str]] = {}
        for group, kind in self.names():
            by_group.setdefault(group, []).append(kind)
            for number in range(self.nodes_each):
                self.world.add_node(f"{kind}-{number}", cpu=str(MACHINES_EACH), labels={TYPE_LABEL: kind})
        made = machine_world.machine_type(cpu="1", memory="1Gi", available=self.nodes_each * MACHINES_EACH)
        for group, kinds_there in by_group.items():
            entries = [machine_world.selected({TYPE_LABEL: kind}, kind) for kind in kinds_there]
            self.world.add_machine(group, types=dict.fromkeys(kinds_there, made), nodes=entries)

    def add_guests(self, count: int, prefix: str) -> list[str]:
        """Make so many guests, of all types in turn."""
        offered = self.names()
        for number in range(count):
            group, kind = offered[number % len(offered)]
            self.world.add_guest(f"{prefix}-{number}", kind, group=group)
        return [f"{prefix}-{number}" for number in range(count)]

    def placed(self, names: Iterable[str]) -> set[str]:
        """Return which of these guests have a node."""
        there = self.world.places()
        return {name for name in names if there[name] is not None}

    def told(self) -> set[str]:
        """Return the names of all pods that were told something."""
        there = self.world.all(kinds.EVENTS)
        return {each["involvedObject"]["name"] for each in there if each["metadata"]["namespace"] == GUESTS}

    async def fill(self, count: int) -> int:
        """Make so many guests, some at a time, and return how many have a node in the end."""
        names: list[str] = []
        for first in range(0, count, WAVE):
            wave = self.add_guests(min(WAVE, count - first), f"stay-{first}")
            await self.until_placed(wave, 300)
            names += wave
        return len(self.placed(names))

    async def until_placed(self, names: list[str], most_seconds: float) -> dict[str, Any]:
        """Wait until all of these guests have a node; tell when each was placed or told, and when all were placed."""
        loop, told_after = asyncio.get_running_loop(), None
        started = loop.time()
        while loop.time() < started + most_seconds:
            placed = self.placed(names)
            if told_after is None and placed | self.told() >= set(names):
                told_after = loop.time() - started
            if len(placed) == len(names):
                break
            await asyncio.sleep(0.25)
        return {
            "placed_or_told_after": told_after,
            "placed": len(self.placed(names)),
            "all_placed_after": loop.time() - started,
        }


def machine_changes(scale: float) -> None:
    """A guest comes and goes beside up to 5,000 that stay, of one type and of 50 (bar: no write in ten minutes)."""
    for types, nodes_each in ((1, 5), (1, 50), (1, 500), (5, NODES_EACH), (50, NODES_EACH)):
        virtual_time.run(_changes(types=max(1, int(types * scale)), nodes_each=max(1, int(nodes_each * scale))))


def machine_storms(scale: float) -> None:
    """1,000 guests at once, of 50 types and of one type whose nodes they share (bar: placed or told within 10 s)."""
    virtual_time.run(_storm(int(STORM * scale), types=max(1, int(50 * scale)), nodes_each=NODES_EACH))
    virtual_time.run(_storm(int(STORM * scale), types=1, nodes_each=1 + int(STORM * scale) // MACHINES_EACH))


async def _changes(*, types: int, nodes_each: int) -> None:
    fleet = Fleet(types, nodes_each)
    world, work = fleet.world, fleet.work
    fleet.make()
    async with machine_world.runtime(world, work.build):
        await asyncio.sleep(30)
        stay = types * nodes_each * STAY_EACH
        placed = await fleet.fill(stay)
        await asyncio.sleep(60)
        world.writes.clear()
        rested = work.seconds
        await asyncio.sleep(REST_SECONDS)
        rested, writes = work.seconds - rested, world.writes.total()
        began, cycles = work.seconds, work.cycles
        for number in range(CHANGES):
            fleet.add_guests(1, f"change-{number}")
            await asyncio.sleep(3)
            world.delete_guest(f"change-{number}-0")
            await asyncio.sleep(3)
        results.tell(
            "machine_changes",
            guests=stay,
            types=types,
            nodes=types * nodes_each,
            placed=placed,
            writes_at_rest=writes,
            seconds_at_rest=rested,
            ms_per_change=1000 * (work.seconds - began) / (2 * CHANGES),
            cycles_per_change=(work.cycles - cycles) / (2 * CHANGES),
        )


async def _storm(guests: int, *, types: int, nodes_each: int) -> None:
    fleet = Fleet(types, nodes_each)
    fleet.make()
    async with machine_world.runtime(fleet.world, fleet.work.build):
        await asyncio.sleep(60)
        fleet.world.writes.clear()
        began = fleet.work.seconds
        found = await fleet.until_placed(fleet.add_guests(guests, "storm"), 300)
        results.tell(
            "machine_storms",
            guests=guests,
            types=types,
            nodes=types * nodes_each,
            **found,
            writes=fleet.world.writes.total(),
            core_seconds=fleet.work.seconds - began,
        )
