"""Events are counted, bounded, never in the way, and go on counting after a restart."""

import asyncio

import msgspec
import pytest

from autoscaler.kube import events, kinds, objects, port, writer
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import SimulatedCluster, faults
from tests.autoscaler.kube.cluster import simulated

pytestmark = pytest.mark.simulated
POOL = events.Regarding(resource=kinds.CONFIG_MAPS, key=objects.Key("default", "pool"), uid="u-1")


def recorder(cluster: SimulatedCluster) -> events.Recorder:
    return events.Recorder(cluster.client("engine"), writer.OpenFence(), virtual_time.clock(), component="prod-us")


def event(message: str = "shut down", *, regarding: events.Regarding = POOL) -> events.Event:
    return events.Event(regarding=regarding, reason="Shutdown", message=message)


async def stored(cluster: SimulatedCluster) -> list[dict[str, object]]:
    request = port.Request(method="GET", path=kinds.EVENTS.collection("default"))
    items: list[dict[str, object]] = msgspec.json.decode(port.required(await cluster.client().send(request)))["items"]
    return items


@simulated
async def test_a_repeated_event_is_counted() -> None:
    cluster = SimulatedCluster(virtual_time.clock())
    made = recorder(cluster)
    for _ in range(10):
        made.record(event())
        await made.flush()
        await asyncio.sleep(60)
    (only,) = await stored(cluster)
    assert (only["count"], only["source"]) == (10, {"component": "prod-us"})
    assert (only["firstTimestamp"], only["lastTimestamp"]) == ("2026-01-01T00:00:00Z", "2026-01-01T00:09:00Z")


@simulated
async def test_counting_goes_on_after_a_restart_and_after_the_event_expired() -> None:
    cluster = SimulatedCluster(virtual_time.clock())
    for _ in range(2):
        made = recorder(cluster)
        made.record(event())
        await made.flush()
    (only,) = await stored(cluster)
    assert only["count"] == 2
    await cluster.client().send(port.Request(method="DELETE", path=kinds.EVENTS.collection("default")))
    made.record(event())
    await made.flush()
    (only,) = await stored(cluster)
    assert only["count"] == 1


@simulated
async def test_one_object_cannot_flood_the_cluster_nor_silence_another() -> None:
    cluster = SimulatedCluster(virtual_time.clock())
    made = recorder(cluster)
    for number in range(100):
        made.record(event(f"message {number}"))
    quiet = events.Regarding(resource=kinds.CONFIG_MAPS, key=objects.Key("default", "quiet"), uid="u-2")
    made.record(event(regarding=quiet))
    await made.flush()
    assert len(await stored(cluster)) == events.BURST + 1
    assert made.dropped == 100 - events.BURST
    await asyncio.sleep(events.REFILL_SECONDS)
    made.record(event("later"))
    await made.flush()
    assert len(await stored(cluster)) == events.BURST + 2


@simulated
async def test_a_failure_to_tell_is_not_a_failure_to_act() -> None:
    cluster = SimulatedCluster(virtual_time.clock())
    cluster.faults.add(faults.Refuse(), faults.Matching(username="engine"), times=None)
    made = recorder(cluster)
    task = asyncio.create_task(made.run())
    made.record(event())
    await asyncio.sleep(5)
    assert made.dropped == 1
    cluster.faults.clear()
    made.record(event())
    await asyncio.sleep(5)
    assert len(await stored(cluster)) == 1
    task.cancel()


@simulated
async def test_events_about_objects_of_the_whole_cluster_are_kept_in_the_default_namespace() -> None:
    cluster = SimulatedCluster(virtual_time.clock())
    made = recorder(cluster)
    node = events.Regarding(resource=kinds.NODES, key=objects.Key("", "node-1"), uid="u-3")
    made.record(event("x" * 5000, regarding=node))
    await made.flush()
    (only,) = await stored(cluster)
    assert len(str(only["message"])) == events.MESSAGE_MAX
