"""What must not bring a process down, make it spin, or let it claim to be well."""

import asyncio
from collections.abc import Callable

import pytest

from autoscaler import control
from autoscaler.kube import kinds, objects
from autoscaler.kube.leases import election
from autoscaler.runtime import loop
from autoscaler.simulation.cluster import faults
from tests.autoscaler.kube.cluster import key, manifest, simulated
from tests.autoscaler.runtime.test_process import Probe, cluster_, replica

pytestmark = pytest.mark.simulated


@simulated
async def test_a_replica_is_not_ready_before_it_has_started() -> None:
    cluster, probe = cluster_(), Probe()
    cluster.faults.add(faults.Refuse(), faults.Matching(username="a"), times=None)
    async with replica(cluster, probe=probe) as running:
        assert running.unready()
        await asyncio.sleep(600)
        (missing,) = running.unready()
        assert "connection refused" in missing
        cluster.faults.clear()
        await asyncio.sleep(60)
        assert running.unready() == []
        assert probe.cycles


@simulated
async def test_a_server_that_is_busy_at_start_is_asked_again() -> None:
    cluster, probe = cluster_(), Probe()
    cluster.faults.add(faults.Answer(code=503), faults.Matching(username="a"), times=3)
    async with replica(cluster, probe=probe):
        await asyncio.sleep(60)
        assert probe.cycles


@simulated
async def test_nothing_is_decided_on_a_view_that_is_long_out_of_date() -> None:
    cluster, probe = cluster_(), Probe()
    async with replica(cluster, probe=probe) as running:
        await asyncio.sleep(5)
        forbidden = faults.Answer(code=403)
        cluster.faults.add(forbidden, faults.Matching(path="configmaps", username="a"), times=None)
        cluster.faults.add(forbidden, faults.Matching(method=faults.WATCH, path="configmaps", username="a"), times=None)
        cluster.faults.cut_watches("a")
        await asyncio.sleep(300)
        assert any("ConfigMap" in missing for missing in running.unready())
        cluster.faults.clear()
        await asyncio.sleep(60)
        assert running.unready() == []


@simulated
async def test_a_time_that_has_passed_does_not_make_a_controller_spin() -> None:
    async def overdue(probe: Probe) -> float:
        assert probe.context is not None
        return probe.context.clock.now() - 100

    cluster, probe = cluster_(), Probe(overdue)
    async with replica(cluster, probe=probe):
        await asyncio.sleep(60)
        assert 50 <= len(probe.cycles) <= 65


@simulated
async def test_of_two_observers_one_tells() -> None:
    cluster, first, second = cluster_(), Probe(), Probe()
    async with replica(cluster, "a", observe=True, probe=first), replica(cluster, "b", observe=True, probe=second):
        await asyncio.sleep(30)
        assert bool(first.cycles) != bool(second.cycles)


@simulated
async def test_a_cycle_that_cancels_itself_is_a_failure_like_any_other() -> None:
    async def careless(probe: Probe) -> None:
        if len(probe.cycles) == 1:
            task = asyncio.create_task(asyncio.sleep(100))
            task.cancel()
            await task

    cluster, probe = cluster_(), Probe(careless)
    async with replica(cluster, probe=probe) as running:
        await asyncio.sleep(30)
        assert running.dead() == []
        assert len(probe.cycles) == 2


class Feeding(Probe):
    """A controller with a source that does what the test says."""

    def __init__(self, run: Callable[[], None]) -> None:
        super().__init__()
        self.starts = 0
        self._run = run

    def build(self, context: control.ControllerContext) -> "Feeding":
        super().build(context)
        context.feed(self)
        return self

    async def run(self) -> None:
        self.starts += 1
        self._run()

    def unsynced(self) -> str | None:
        return None


@pytest.mark.parametrize("error", [None, RuntimeError("out of order")])
def test_a_source_that_ends_or_fails_is_started_again(error: Exception | None) -> None:
    def act() -> None:
        if error is not None:
            raise error

    async def scenario() -> None:
        cluster, probe, other = cluster_(), Feeding(act), Probe()
        async with replica(cluster, probe=probe, other=other) as running:
            await asyncio.sleep(60)
            assert running.dead() == []
            assert 5 <= probe.starts <= 15
            assert other.cycles

    simulated(scenario)()


class InTwoNamespaces(Probe):
    def build(self, context: control.ControllerContext) -> "InTwoNamespaces":
        self.tables = [context.watch(kinds.CONFIG_MAPS, objects.simple, name) for name in ("default", "kube-system")]
        return self


@simulated
async def test_one_kind_can_be_watched_in_several_namespaces() -> None:
    cluster, probe = cluster_(), InTwoNamespaces()
    async with replica(cluster, probe=probe) as running:
        await asyncio.sleep(5)
        cluster.create(kinds.CONFIG_MAPS, manifest("a"))
        await asyncio.sleep(1)
        assert [len(table) for table in probe.tables] == [1, 0]
        assert running.metrics.render().decode().count('sluice_watch_restarts_total{kind="ConfigMap"}') == 1


@simulated
async def test_a_write_under_way_is_finished_before_the_lease_is_released() -> None:
    cluster, order = cluster_(), []

    async def slow(probe: Probe) -> None:
        assert probe.context is not None
        await probe.context.writer.create(probe.target, manifest("late"))

    cluster.faults.add(faults.Delay(seconds=3), faults.Matching(method="POST", path="configmaps", username="a"))
    probe = Probe(slow)
    async with replica(cluster, probe=probe):
        await asyncio.sleep(1)
        order.append(asyncio.get_running_loop().time())
    assert cluster.server.store.find(kinds.CONFIG_MAPS, objects.Key("default", "late"))  # type: ignore[arg-type]
    assert asyncio.get_running_loop().time() - order[0] < election.Terms().lease_seconds


@simulated
async def test_a_replica_that_waits_for_long_does_not_remember_every_change() -> None:
    cluster, first, second = cluster_(), Probe(), Probe()
    async with replica(cluster, "a", probe=first):
        await asyncio.sleep(1)
        async with replica(cluster, "b", probe=second) as standby:
            await asyncio.sleep(1)
            runner = standby._runners["probe"]
            for number in range(loop.DIRTY_MAX + 5):
                runner.wake("ConfigMap", key(f"gone-{number}"))
            assert len(runner._dirty) < 10
            cluster.create(kinds.CONFIG_MAPS, manifest("there"))
            cluster.faults.partition("a")
            await asyncio.sleep(60)
            assert second.cycles[0][1] >= {("ConfigMap", key("there"))}
            assert len(second.cycles[0][1]) < 10
