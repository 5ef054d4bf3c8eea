"""A controller lets go of everything before the drain object, and tries again later and later where that is refused."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

from autoscaler.api import keys, names
from autoscaler.control import drain_object, farewell
from autoscaler.kube import kinds, objects, port
from autoscaler.kube.writing import writer
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import SimulatedCluster
from autoscaler.simulation.cluster.store import Key
from autoscaler.simulation.cluster.verbs.deletes import Options
from autoscaler.simulation.cluster.verbs.writes import Manner
from tests.autoscaler.kube.cluster import OpenFence, simulated

PART = "toy"
KEY = Key("default", names.DRAIN_OBJECT)


class Toy:
    """A part of the runtime that remembers when it was to leave, and does as it is told then."""

    def __init__(self, *, latency_seconds: float = 0.0) -> None:
        self.cluster = SimulatedCluster(virtual_time.clock(), latency_seconds=latency_seconds)
        self.make_drain_object()
        self.left_at: list[float] = []
        self.opened = 0
        self.error: port.KubeError | None = None
        self.go_on_at: float | None = None
        api = self.cluster.client("runtime")
        self.writer = writer.Writer(api, OpenFence())
        self._sources: list[Any] = []
        context: Any = SimpleNamespace(
            clock=virtual_time.clock(),
            api=api,
            namespace="default",
            writer=self.writer,
            feed=self._sources.append,
            held_back=lambda: None,
            wake=lambda _kind, _key: None,
        )
        self.farewell = farewell.Farewell(context, PART, self._leave, once_left=self._open)

    def make_drain_object(self) -> None:
        metadata = {"name": names.DRAIN_OBJECT, "namespace": "default"}
        self.cluster.create(kinds.CONFIG_MAPS, {"metadata": metadata})

    def delete_drain_object(self) -> None:
        self.cluster.server.deletes.delete(kinds.CONFIG_MAPS, KEY, Options(), Manner(user="admin"))

    def is_leaving(self) -> bool:
        return self.farewell.is_leaving

    def is_held(self) -> bool:
        found = self.cluster.server.store.find(kinds.CONFIG_MAPS, KEY)
        return found is not None and keys.part_finalizer(PART) in found.object["metadata"].get("finalizers", ())

    @contextlib.asynccontextmanager
    async def leaving(self) -> AsyncGenerator[None, None]:
        """Follow the drain object, which is being deleted."""
        tasks = [asyncio.create_task(source.run()) for source in self._sources]
        await asyncio.sleep(drain_object.LOOK_SECONDS)
        assert not self.is_leaving()
        assert self.is_held()
        self.delete_drain_object()
        await asyncio.sleep(drain_object.LOOK_SECONDS)
        assert self.is_leaving()
        yield
        for task in tasks:
            task.cancel()

    async def _leave(self) -> float | None:
        self.left_at.append(asyncio.get_running_loop().time())
        if self.error is not None:
            raise self.error
        return self.go_on_at

    async def _open(self) -> None:
        self.opened += 1


@simulated
async def test_what_is_refused_is_tried_again_less_and_less_often_whatever_wakes_us() -> None:
    toy = Toy()
    toy.error = port.UnreachableError("nobody answers")
    async with toy.leaving():
        for _ in range(3000):
            again_at = await toy.farewell.carry_out()
            await asyncio.sleep(0.1)
        pauses = [later - at for at, later in zip(toy.left_at, toy.left_at[1:], strict=False)]
        assert [round(pause) for pause in pauses] == [5, 10, 20, 40, 60, 60, 60]
        assert again_at is not None
        assert 0 < again_at - virtual_time.clock().now() <= 60
        assert toy.farewell.attempts == 1
        assert toy.is_held()
        toy.error = None
        await asyncio.sleep(60)
        assert await toy.farewell.carry_out() is None
        assert (toy.is_held(), toy.farewell.attempts) == (False, writer.ATTEMPTS)


@simulated
async def test_the_drain_object_is_let_go_once_nothing_is_left() -> None:
    toy = Toy()
    toy.go_on_at = 7.0
    async with toy.leaving():
        assert await toy.farewell.carry_out() == 7.0
        assert toy.is_held()
        toy.go_on_at = None
        assert await toy.farewell.carry_out() is None
        assert not toy.is_held()
        assert (len(toy.left_at), toy.opened) == (2, 0)
        await toy.farewell.carry_out()
        assert (len(toy.left_at), toy.opened) == (2, 1)


@simulated
async def test_whoever_was_to_stay_again_leaves_anew() -> None:
    toy = Toy()
    async with toy.leaving():
        await toy.farewell.carry_out()
        toy.make_drain_object()
        await asyncio.sleep(drain_object.LOOK_SECONDS)
        assert not toy.is_leaving()
        toy.delete_drain_object()
        await asyncio.sleep(drain_object.LOOK_SECONDS)
        assert toy.is_leaving()
        await toy.farewell.carry_out()
        assert (len(toy.left_at), toy.opened) == (2, 0)


@simulated
async def test_what_was_sent_before_has_ended_when_we_begin_to_leave() -> None:
    toy = Toy(latency_seconds=0.5)
    target: writer.Target[Any] = writer.Target(resource=kinds.CONFIG_MAPS, decode=objects.simple)
    async with toy.leaving():
        began = asyncio.get_running_loop().time()
        sent = asyncio.create_task(toy.writer.create(target, {"metadata": {"name": "late", "namespace": "default"}}))
        await asyncio.sleep(0.01)
        await toy.farewell.carry_out()
        assert sent.done()
        assert toy.left_at[0] >= began + 0.5
