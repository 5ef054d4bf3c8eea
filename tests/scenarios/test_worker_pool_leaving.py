"""When the stack leaves, worker pools and their workers stay, and nothing of theirs hangs on our finalizer."""

import asyncio
import contextlib
from typing import Any

import pytest

from autoscaler.api import keys, names
from autoscaler.kube import kinds
from autoscaler.simulation import virtual_time
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.worker_world import NAMESPACE, POOLS, Body, Mortal, World, runtime

THEIRS = "https://web-server/api/theirs"


class Stack(World):
    """A world that somebody leaves."""

    def add_drain_object(self) -> None:
        self.cluster.create(kinds.CONFIG_MAPS, {"metadata": {"name": names.DRAIN_OBJECT, "namespace": NAMESPACE}})

    def drain_object(self) -> Body | None:
        return self._find(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)

    def leave(self) -> None:
        self.delete(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)

    def held(self, name: str = "pool") -> list[str]:
        """Return the objects of a pool that carry our finalizer."""
        there = [self.pool(name), *self.pods(name)]
        return [each["kind"] for each in there if keys.FINALIZER in each["metadata"].get("finalizers", ())]


@pytest.mark.accept("S1")
@simulated
async def test_pools_and_workers_are_let_go_and_no_worker_is_made_any_more() -> None:
    world = Stack(job_seconds=600.0)
    world.add("pool", poolCapacity=5)
    world.line.length = 3
    world.add_drain_object()
    async with runtime(world):
        await asyncio.sleep(60)
        held = world.drain_object()
        assert held is not None
        assert held["metadata"]["finalizers"] == [keys.part_finalizer("workers")]
        assert sorted(world.held()) == ["Pod", "Pod", "Pod", "WorkerPool"]
        world.leave()
        await asyncio.sleep(20)
        world.line.length = 100
        assert world.drain_object() is None
        assert world.held() == []
        await asyncio.sleep(300)
        assert world.made["pool"] == 3
        assert {pod["status"]["phase"] for pod in world.pods()} == {"Running"}  # nobody was killed
        assert world.held() == []  # and nothing was put back
        world.delete(POOLS, "pool")
        assert not world.has_pool()


@simulated
async def test_pools_of_another_operator_are_left_alone_and_those_of_an_old_class_are_not() -> None:
    world = Stack(job_seconds=600.0)
    world.add("theirs", workerPoolClassName="theirs", queue__source__endpoint=THEIRS)
    world.add("pool")
    world.lines[THEIRS].length = world.line.length = 1
    world.add_drain_object()
    async with runtime(world, "others", class_name="theirs", pod="b"):
        await asyncio.sleep(30)
        async with runtime(world, "sluice"):
            await asyncio.sleep(60)
            assert sorted(world.held()) == ["Pod", "WorkerPool"]
            world.change("pool", workerPoolClassName="dropped")
            await asyncio.sleep(10)
            assert world.held() == []
    async with runtime(world, "sluice"):
        await asyncio.sleep(30)
        world.leave()
        await asyncio.sleep(30)
        assert world.held() == []
        assert sorted(world.held("theirs")) == ["Pod", "WorkerPool"]


@simulated
async def test_a_drain_object_that_comes_back_lets_pools_grow_again() -> None:
    world = Stack()
    world.add("pool")
    world.add_drain_object()
    async with runtime(world):
        await asyncio.sleep(30)
        world.leave()
        await asyncio.sleep(30)
        assert world.held() == []
        world.add_drain_object()
        world.line.length = 1
        await asyncio.sleep(30)
        assert sorted(world.held()) == ["Pod", "WorkerPool"]


@pytest.mark.accept("S1")
def test_a_kill_at_any_write_ends_as_if_nobody_had_been_killed() -> None:
    """One farewell, killed just before and just after each of its writes; a second replica takes over."""
    want, writes = _story(at=0, after=False)
    assert want == {"held": [], "drain object": None, "workers": 2}
    assert writes > 8
    for at in range(1, writes + 1):
        for after in (False, True):
            assert _story(at=at, after=after)[0] == want, f"killed {'after' if after else 'before'} write {at}"


def _story(*, at: int, after: bool) -> tuple[dict[str, Any], int]:
    """Leave while two workers run; return the end."""

    async def act() -> tuple[dict[str, Any], int]:
        world = Stack(job_seconds=36_000.0)
        world.add("pool", poolCapacity=2)
        world.line.length = 2
        world.add_drain_object()
        mortals: list[Mortal] = []

        def mortal(api: Any) -> Mortal:
            mortals.append(Mortal(api, at=at, after=after))
            return mortals[-1]

        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(runtime(world, wrap=mortal))
            await asyncio.sleep(1)  # it leads
            await stack.enter_async_context(runtime(world, pod="b"))
            await asyncio.sleep(120)
            world.leave()
            await asyncio.sleep(120)
        end = {"held": world.held(), "drain object": world.drain_object(), "workers": len(world.pods())}
        return end, mortals[0].writes

    return virtual_time.run(act())
