"""A table stays equal to the cluster through everything that happens to watches."""

import asyncio

import msgspec
import pytest

from autoscaler.api import resources
from autoscaler.kube import kinds, objects, port, store
from autoscaler.kube.reading import listing, reflector
from autoscaler.kube.writing import writer
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import SimulatedCluster, faults
from tests import builders
from tests.autoscaler.kube import cluster as cluster_
from tests.autoscaler.kube.cluster import OpenFence, bench, key, simulated

pytestmark = pytest.mark.simulated
WATCHES = faults.Matching(method=faults.WATCH, username=cluster_.ENGINE)
CALLS = faults.Matching(username=cluster_.ENGINE)


class Counting:
    """Counts what is sent."""

    def __init__(self, api: port.Api) -> None:
        self.sent = 0
        self.watch = api.watch
        self._api = api

    async def send(self, request: port.Request) -> port.Response:
        self.sent += 1
        return await self._api.send(request)


@simulated
async def test_changes_arrive_as_they_happen() -> None:
    async with bench() as b:
        b.create("a")
        await asyncio.sleep(0.1)
        assert b.known() == {"a"}
        assert b.reflector.state is reflector.State.SYNCED


@simulated
async def test_a_long_list_is_read_page_by_page() -> None:
    cluster = SimulatedCluster(virtual_time.clock())
    for number in range(2 * listing.PAGE + 1):
        cluster.create(kinds.CONFIG_MAPS, cluster_.manifest(f"c{number}"))
    table: store.Table[objects.Simple] = store.Table()
    task = asyncio.create_task(reflector.Reflector(cluster.client(), kinds.CONFIG_MAPS, table, objects.simple).run())
    await asyncio.sleep(1)
    assert len(table) == 2 * listing.PAGE + 1
    task.cancel()


@pytest.mark.accept("R3")
@simulated
async def test_a_cut_watch_goes_on_where_it_was_without_a_new_list() -> None:
    async with bench() as b:
        b.create("a")
        await asyncio.sleep(0.1)
        b.cluster.faults.cut_watches()
        b.create("b")
        await asyncio.sleep(1)
        assert b.known() == {"a", "b"}
        assert b.changes.count("+a") == 1
        assert b.reflector.restarts == 1


@pytest.mark.accept("R3")
@simulated
async def test_lost_history_leads_to_a_new_list_that_notices_deletions() -> None:
    async with bench() as b:
        b.create("kept")
        b.create("dropped")
        await asyncio.sleep(0.1)
        b.cluster.faults.add(faults.Refuse(), WATCHES, times=2)
        b.cluster.faults.cut_watches()
        admin = writer.Writer(b.cluster.client(), OpenFence())
        dropped = b.table.get(key("dropped"))
        assert dropped is not None
        other: writer.Target[objects.Simple] = writer.Target(resource=kinds.CONFIG_MAPS, decode=objects.simple)
        await admin.delete(other, key("dropped"), only_if=writer.Precondition.of(dropped))
        b.create("new")
        b.cluster.compact()
        await asyncio.sleep(5)
        assert b.known() == {"kept", "new"}
        assert b.changes.count("-dropped") == 1
        assert b.changes.count("+kept") == 1


@pytest.mark.accept("R3")
@simulated
async def test_failures_are_spaced_out_and_forgotten_after_a_success() -> None:
    async with bench() as b:
        b.cluster.faults.add(faults.Refuse(), WATCHES, times=None)
        b.cluster.faults.cut_watches()
        await asyncio.sleep(600)
        assert 20 <= b.reflector.restarts <= 60  # at 30 s at most, never faster than every 15 s in the end
        assert b.reflector.state is reflector.State.FAILING
        assert "connection refused" in (b.reflector.problem or "")
        b.cluster.faults.clear()
        b.create("a")
        await asyncio.sleep(31)
        assert b.known() == {"a"}
        assert b.reflector.problem is None


@pytest.mark.accept("R3")
@simulated
async def test_a_watch_that_says_nothing_for_too_long_is_taken_for_dead() -> None:
    pace = reflector.Pace(inactivity_seconds=100, watch_seconds=100_000)
    async with bench(pace=pace) as b:
        b.cluster.faults.freeze(cluster_.ENGINE)
        await asyncio.sleep(200)
        b.create("a")
        b.cluster.faults.thaw(cluster_.ENGINE)
        await asyncio.sleep(5)
        assert b.known() == {"a"}
        assert b.reflector.restarts == 1


@simulated
async def test_an_idle_watch_with_bookmarks_is_left_alone_for_hours() -> None:
    async with bench() as b:
        await asyncio.sleep(6 * 3600)
        assert b.reflector.restarts == 0
        b.cluster.compact()
        b.cluster.faults.cut_watches()
        await asyncio.sleep(120)
        # A bookmark had told how far we are, so that even compacted history did not hurt.
        assert b.reflector.state is reflector.State.SYNCED
        assert b.reflector.restarts <= 2


@simulated
async def test_a_kind_that_is_not_served_is_empty_until_it_appears() -> None:
    cluster = SimulatedCluster(virtual_time.clock())
    table: store.Table[objects.Custom[resources.InstancePool]] = store.Table()
    kind = kinds.custom(resources.InstancePool)
    api = Counting(cluster.client())
    watched = reflector.Reflector(api, kind, table, objects.custom(resources.InstancePool))
    task = asyncio.create_task(watched.run())
    await asyncio.sleep(11)
    assert api.sent == 2
    await asyncio.sleep(3600)
    assert table.synced
    assert watched.state is reflector.State.ABSENT
    assert 120 <= api.sent <= 130  # twice a minute, and more often in the beginning
    cluster.install_definitions()
    await cluster.settle()
    cluster.create(kind, builders.resource("InstancePool"))
    await asyncio.sleep(31)
    (pool,) = table
    assert pool.resource.spec.limits.max_idle_seconds == 3600
    task.cancel()


@simulated
async def test_a_kind_that_is_served_no_more_makes_us_unsure_instead_of_deleting_everything() -> None:
    async with bench() as b:
        b.create("a")
        await asyncio.sleep(0.1)
        b.cluster.faults.add(faults.Answer(code=404), faults.Matching(path="configmaps", username=cluster_.ENGINE))
        b.cluster.faults.add(faults.Answer(code=404), WATCHES)
        b.cluster.faults.cut_watches()
        await asyncio.sleep(2)
        assert (b.table.synced, b.known()) == (False, {"a"})
        await asyncio.sleep(20)
        assert (b.table.synced, b.known()) == (True, {"a"})


@simulated
async def test_an_object_that_makes_no_sense_does_not_hide_the_others() -> None:
    cluster = SimulatedCluster(virtual_time.clock())
    for name in ("good", "bad"):
        cluster.create(kinds.CONFIG_MAPS, cluster_.manifest(name))

    def picky(raw: bytes | msgspec.Raw) -> objects.Simple:
        read = objects.simple(raw)
        if read.meta.key.name == "bad":
            raise ValueError("no such thing")
        return read

    table: store.Table[objects.Simple] = store.Table()
    task = asyncio.create_task(reflector.Reflector(cluster.client(), kinds.CONFIG_MAPS, table, picky).run())
    await asyncio.sleep(1)
    assert key("good") in table.snapshot()
    assert {place: why.problem for place, why in table.unreadable.items()} == {key("bad"): "no such thing"}
    task.cancel()


@simulated
async def test_our_own_write_is_read_once() -> None:
    read: list[int] = []

    def counting(raw: bytes | msgspec.Raw) -> objects.Simple:
        found = objects.simple(raw)
        read.append(found.meta.resource_version)
        return found

    cluster = SimulatedCluster(virtual_time.clock())
    api, table = cluster.client(), store.Table[objects.Simple]()
    task = asyncio.create_task(reflector.Reflector(api, kinds.CONFIG_MAPS, table, counting).run())
    await asyncio.sleep(1)
    target = writer.Target(resource=kinds.CONFIG_MAPS, decode=counting, table=table)
    await writer.Writer(api, OpenFence()).create(target, cluster_.manifest("own"))
    await asyncio.sleep(1)
    assert read.count(cluster.server.store.version) == 1
    assert table.resource_version == cluster.server.store.version
    cluster.create(kinds.CONFIG_MAPS, cluster_.manifest("other"))
    await asyncio.sleep(1)
    assert key("other") in table.snapshot()
    task.cancel()
