"""The whole process in virtual time: cycles, failures kept apart, leadership, pause, observation and a clean end."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Any

import msgspec
import pytest

from autoscaler import control
from autoscaler.api import keys, resources
from autoscaler.kube import kinds, objects, port
from autoscaler.kube.leases import election
from autoscaler.kube.writing import writer
from autoscaler.runtime import compatibility, leadership, planning, process
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import SimulatedCluster, faults
from tests import builders
from tests.autoscaler.kube.cluster import OpenFence, key, manifest, simulated

pytestmark = pytest.mark.simulated
NAMESPACE = "default"


class Probe:
    """A controller that remembers its cycles and does what the test says."""

    def __init__(self, act: Callable[["Probe"], Any] | None = None) -> None:
        self.cycles: list[tuple[float, control.Dirty]] = []
        self.context: control.ControllerContext | None = None
        self._act = act

    def build(self, context: control.ControllerContext) -> "Probe":
        self.context = context
        self.table = context.watch(kinds.CONFIG_MAPS, objects.simple)
        self.target = writer.Target(resource=kinds.CONFIG_MAPS, decode=objects.simple, table=self.table)
        return self

    async def reconcile(self, dirty: control.Dirty) -> float | None:
        self.cycles.append((asyncio.get_running_loop().time(), dirty))
        wanted: float | None = await self._act(self) if self._act else None
        return wanted


@contextlib.asynccontextmanager
async def replica(
    cluster: SimulatedCluster, identity: str = "a", *, observe: bool = False, **probes: Probe
) -> AsyncGenerator[process.Process, None]:
    api, clock = cluster.client(identity), virtual_time.clock()
    make = leadership.elector_maker(clock, namespace=NAMESPACE, identity=identity, terms=election.Terms())
    around = process.Surroundings(
        api=api,
        clock=clock,
        leadership=leadership.InLoop(api, make),
        plan=planning.inline,
        namespace=NAMESPACE,
        identity=identity,
        observe=observe,
    )
    made = process.Process(
        around, {name: process.Registration(lease="sluice", build=probe.build) for name, probe in probes.items()}
    )
    task = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        assert not task.done() or not task.exception(), task.exception()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def cluster_() -> SimulatedCluster:
    return SimulatedCluster(virtual_time.clock(), latency_seconds=0.005)


def beat(probe: Probe) -> Any:
    """Create one ConfigMap after another, ten a second."""

    async def act() -> float:
        assert probe.context is not None
        await probe.context.writer.create(probe.target, manifest(f"beat-{len(probe.cycles)}"))
        return probe.context.clock.now() + 0.1

    return act()


@simulated
async def test_a_burst_of_changes_is_one_cycle_and_says_what_changed() -> None:
    cluster, probe = cluster_(), Probe()
    async with replica(cluster, probe=probe):
        await asyncio.sleep(5)
        assert len(probe.cycles) == 1
        for number in range(100):
            cluster.create(kinds.CONFIG_MAPS, manifest(f"c{number}"))
            await asyncio.sleep(0.001)
        await asyncio.sleep(5)
        assert len(probe.cycles) == 2
        assert len(probe.cycles[1][1]) == 100
        assert ("ConfigMap", key("c7")) in probe.cycles[1][1]


@simulated
async def test_a_steady_stream_of_changes_does_not_put_off_the_cycle_for_more_than_a_second() -> None:
    cluster, probe = cluster_(), Probe()
    async with replica(cluster, probe=probe):
        await asyncio.sleep(5)
        for number in range(1000):
            cluster.create(kinds.CONFIG_MAPS, manifest(f"c{number}"))
            await asyncio.sleep(0.02)
        assert 15 <= len(probe.cycles) <= 25


@simulated
async def test_one_change_is_acted_on_within_a_tenth_of_a_second() -> None:
    cluster, probe = cluster_(), Probe()
    async with replica(cluster, probe=probe):
        await asyncio.sleep(5)
        cluster.create(kinds.CONFIG_MAPS, manifest("a"))
        await asyncio.sleep(0.1)
        assert len(probe.cycles) == 2


@simulated
async def test_a_controller_is_woken_when_it_asked_to_be() -> None:
    async def in_an_hour(probe: Probe) -> float:
        assert probe.context is not None
        return probe.context.clock.now() + 3600

    cluster, probe = cluster_(), Probe(in_an_hour)
    async with replica(cluster, probe=probe):
        await asyncio.sleep(10 * 3600 + 60)
        assert len(probe.cycles) == 11


@simulated
async def test_a_controller_that_throws_is_backed_off_keeps_its_work_and_does_not_stop_others() -> None:
    async def fail(probe: Probe) -> None:
        if len(probe.cycles) < 8:
            raise RuntimeError("out of order")

    cluster, broken, well = cluster_(), Probe(fail), Probe()
    async with replica(cluster, broken=broken, well=well) as running:
        await asyncio.sleep(1)
        cluster.create(kinds.CONFIG_MAPS, manifest("a"))
        await asyncio.sleep(600)
        assert len(well.cycles) == 2
        assert len(broken.cycles) == 8
        pauses = [later[0] - earlier[0] for earlier, later in zip(broken.cycles[2:], broken.cycles[3:], strict=False)]
        assert pauses == sorted(pauses)
        assert ("ConfigMap", key("a")) in broken.cycles[-1][1]
        assert running.dead() == []
        text = running.metrics.render().decode()
        assert 'sluice_reconcile_duration_seconds_count{controller="broken",outcome="failed"} 7.0' in text


@simulated
async def test_nothing_is_decided_before_everything_is_synced() -> None:
    cluster, probe = cluster_(), Probe()
    cluster.faults.add(faults.Refuse(), faults.Matching(path="configmaps", username="a"), times=None)
    async with replica(cluster, probe=probe) as running:
        await asyncio.sleep(60)
        assert probe.cycles == []
        (missing,) = running.unready()
        assert "ConfigMap" in missing
        assert "connection refused" in missing
        cluster.faults.clear()
        await asyncio.sleep(60)
        assert len(probe.cycles) == 1
        assert running.unready() == []


@pytest.mark.accept("R2")
@simulated
async def test_a_standby_keeps_its_caches_warm_and_takes_over() -> None:
    cluster, first, second = cluster_(), Probe(), Probe()
    cluster.faults.add(faults.Delay(seconds=5), faults.Matching(username="b"))
    async with replica(cluster, "b", probe=second) as standby:
        async with replica(cluster, "a", probe=first):
            await asyncio.sleep(60)
            assert first.cycles
            assert not second.cycles
            assert standby.unready() == []
        await asyncio.sleep(5)  # the lease was released, so nobody has to wait for it to expire
        assert second.cycles


@pytest.mark.accept("R2")
@simulated
async def test_a_cycle_under_way_is_cancelled_when_the_lease_is_lost() -> None:
    ended: list[str] = []

    async def long(probe: Probe) -> None:
        del probe
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    cluster, probe = cluster_(), Probe(long)
    async with replica(cluster, probe=probe):
        await asyncio.sleep(10)
        cluster.faults.partition("a")
        await asyncio.sleep(election.Terms().hold_seconds + 1)
        assert ended == ["cancelled"]


@pytest.mark.accept("R9")
@simulated
async def test_the_pause_annotation_stops_everything_within_a_second() -> None:
    cluster, probe = cluster_(), Probe(beat)
    async with replica(cluster, probe=probe):
        await asyncio.sleep(5)
        admin = writer.Writer(cluster.client(), OpenFence())
        spaces: writer.Target[objects.Simple] = writer.Target(resource=kinds.NAMESPACES, decode=objects.simple)
        own = port.Request(method="GET", path=kinds.NAMESPACES.path(NAMESPACE))
        uid = objects.simple(port.required(await cluster.client().send(own))).meta.uid
        place, any_version = objects.Key("", NAMESPACE), writer.Precondition(uid=uid)
        await admin.patch(spaces, place, {"metadata": {"annotations": {keys.PAUSED: "true"}}}, only_if=any_version)
        await asyncio.sleep(1)
        before = len(probe.table)
        await asyncio.sleep(600)
        assert len(probe.table) == before
        await admin.patch(spaces, place, {"metadata": {"annotations": {keys.PAUSED: None}}}, only_if=any_version)
        await asyncio.sleep(2)
        assert len(probe.table) > before


@pytest.mark.accept("R9")
@simulated
async def test_observe_mode_plans_and_writes_nothing() -> None:
    cluster, probe = cluster_(), Probe(beat)
    async with replica(cluster, observe=True, probe=probe) as running:
        await asyncio.sleep(60)
        assert 500 < len(probe.cycles) < 700  # at its own pace: nothing refused is tried again in a hurry
        assert len(probe.table) == 0
        assert 'outcome="observed",verb="create"} ' in running.metrics.render().decode()


@pytest.mark.accept("R8")
@simulated
async def test_an_ending_process_releases_its_lease() -> None:
    cluster, probe = cluster_(), Probe()
    async with replica(cluster, probe=probe):
        await asyncio.sleep(5)
    request = port.Request(method="GET", path=kinds.LEASES.path("sluice", NAMESPACE))
    assert b'"holderIdentity":""' in port.required(await cluster.client().send(request))


@pytest.mark.accept("S7")
@simulated
async def test_a_process_refuses_to_start_on_old_definitions() -> None:
    cluster = cluster_()
    cluster.install_definitions()
    definition = kinds.DEFINITIONS.path("scopes.sluice.dev")
    patch = f'{{"metadata":{{"labels":{{"{keys.VERSION}":"0.0.3"}}}}}}'.encode()
    request = port.Request(method="PATCH", path=definition, body=patch, content_type=port.MERGE_PATCH)
    port.required(await cluster.client().send(request))
    with pytest.raises(compatibility.IncompatibleError, match=r"scopes\.sluice\.dev is of version 0\.0\.3"):
        await compatibility.check(cluster.client())


class Pools(Probe):
    """A controller that watches worker pools."""

    def build(self, context: control.ControllerContext) -> "Pools":
        kind = kinds.custom(resources.WorkerPool)
        self.table = context.watch(kind, objects.custom(resources.WorkerPool))
        return self


@pytest.mark.accept("R5")
@simulated
async def test_an_object_older_than_a_rule_is_told_so_and_the_rest_works() -> None:
    cluster, probe = cluster_(), Pools()
    cluster.install_definitions()
    await cluster.settle()
    kind = kinds.custom(resources.WorkerPool)
    for name in ("good", "old"):
        cluster.create(kind, builders.resource("WorkerPool", name=name))
    old = cluster.server.store.find(kind, key("old"))  # type: ignore[arg-type]
    assert old is not None
    old.object["spec"]["queue"]["interval"] = "10s"  # as if written before the rule
    async with replica(cluster, pools=probe):
        await asyncio.sleep(60)
        assert [stored.meta.key.name for stored in probe.table] == ["good"]
        await asyncio.sleep(600)
        request = port.Request(method="GET", path=kinds.EVENTS.collection("default"))
        (event,) = msgspec.json.decode(port.required(await cluster.client().send(request)))["items"]
        assert (event["reason"], event["involvedObject"]["name"], event["count"]) == ("Unreadable", "old", 1)
        assert "must be HH:MM:SS" in event["message"]
