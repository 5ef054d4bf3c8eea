"""Events are counted, bounded, never in the way, and go on counting after a restart."""

import asyncio

import msgspec
import pytest

from autoscaler.kube import kinds, objects, port
from autoscaler.kube.writing import events
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import SimulatedCluster, faults
from tests.autoscaler.kube.cluster import OpenFence, simulated

pytestmark = pytest.mark.simulated
POOL = events.Regarding(resource=kinds.CONFIG_MAPS, key=objects.Key("default", "pool"), uid="u-1")


def recorder(cluster: SimulatedCluster) -> events.Recorder:
    return events.Recorder(cluster.client("engine"), OpenFence(), virtual_time.clock(), component="prod-us")


def event(message: str = "shut down", *, regarding: events.Regarding = POOL, is_change: bool = False) -> events.Event:
    return events.Event(regarding=regarding, reason="Shutdown", message=message, is_change=is_change)


class Counting:
    """Counts what the engine sends."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.sent = self.writes = 0
        follow, count = cluster.faults.next, self._count

        def counted(method: str, path: str, username: str) -> list[faults.Effect]:
            if username == "engine":
                count(method)
            return follow(method, path, username)

        cluster.faults.next = counted  # type: ignore[method-assign]

    def _count(self, method: str) -> None:
        self.sent += 1
        self.writes += method != "GET"


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
async def test_repeats_cost_nothing_and_a_change_of_state_is_told_after_any_chatter() -> None:
    cluster = SimulatedCluster(virtual_time.clock())
    made = recorder(cluster)
    for number in range(200):  # two things that happen again and again, and ever new ones
        made.record(event("cleaned up"))
        made.record(event("created"))
        made.record(event(f"message {number}"))
        await made.flush()
    for number in range(events.RESERVE):
        made.record(event(f"change {number}", is_change=True))
    await made.flush()
    told = {str(each["message"]): each["count"] for each in await stored(cluster)}
    assert (told["cleaned up"], told["created"]) == (200, 200)
    assert sum(message.startswith("change") for message in told) == events.RESERVE


@simulated
async def test_events_take_a_quarter_of_the_time_of_a_busy_server_and_never_rest_long() -> None:
    cluster = SimulatedCluster(virtual_time.clock())
    made, calls = recorder(cluster), Counting(cluster)
    task = asyncio.create_task(made.run())
    for seconds, want in ((0.01, 30), (0.1, 25), (10.0, 1)):
        cluster.faults.clear()
        cluster.faults.add(faults.Delay(seconds=seconds), times=None)
        before = calls.sent
        for number in range(30):
            about = events.Regarding(resource=kinds.CONFIG_MAPS, key=POOL.key, uid=f"u-{seconds}-{number}")
            made.record(event(regarding=about))
        await asyncio.sleep(0.5 if seconds < events.BUSY_SECONDS else 10.0)
        assert calls.sent - before == pytest.approx(want, abs=1)
    task.cancel()


@simulated
async def test_repeats_are_written_now_and_then_with_all_of_their_number() -> None:
    cluster = SimulatedCluster(virtual_time.clock())
    made = recorder(cluster)
    task = asyncio.create_task(made.run())
    calls = Counting(cluster)
    for _ in range(600):
        made.record(event())
        await asyncio.sleep(0.1)
    await asyncio.sleep(events.REPEAT_SECONDS)
    (only,) = await stored(cluster)
    assert only["count"] == 600
    assert calls.writes <= 60 / events.REPEAT_SECONDS + 2
    task.cancel()


@simulated
async def test_what_is_not_taken_is_told_later_and_only_then_counts_as_told() -> None:
    cluster = SimulatedCluster(virtual_time.clock())
    cluster.faults.add(faults.Refuse(), faults.Matching(username="engine"), times=None)
    made, told = recorder(cluster), list[bool]()
    task = asyncio.create_task(made.run())
    made.record(event(), ended=told.append)
    await asyncio.sleep(30)
    assert (told, made.dropped) == ([], 0)
    cluster.faults.clear()
    await asyncio.sleep(60)
    assert told == [True]
    assert len(await stored(cluster)) == 1
    task.cancel()


@pytest.mark.parametrize("code", [403, 404, 422, 429, 500])
def test_what_is_refused_for_ever_is_tried_less_and_less_often_and_given_up(code: int) -> None:
    @simulated
    async def play() -> None:
        cluster = SimulatedCluster(virtual_time.clock())
        cluster.faults.add(faults.Answer(code=code), faults.Matching(username="engine"), times=None)
        made, told = recorder(cluster), list[bool]()
        task = asyncio.create_task(made.run())
        calls = Counting(cluster)
        for number in range(60):
            made.record(event(f"message {number % 30}"), ended=told.append)
            await asyncio.sleep(1)
        assert calls.sent <= 20
        before = calls.sent
        await asyncio.sleep(3600)
        assert calls.sent - before <= 2 * 60
        made.record(event("much later"))
        await asyncio.sleep(3600)
        assert made.dropped > 0
        assert set(told) == {False}
        task.cancel()

    play()


@simulated
async def test_a_change_of_state_takes_the_place_of_chatter_when_too_much_waits() -> None:
    cluster = SimulatedCluster(virtual_time.clock())
    made, lost = recorder(cluster), list[bool]()
    for number in range(events.WAITING_MAX):
        about = events.Regarding(resource=kinds.CONFIG_MAPS, key=objects.Key("default", f"p{number}"), uid=f"u{number}")
        made.record(event(regarding=about), ended=lost.append)
    made.record(event("chatter"))
    assert (made.dropped, lost) == (1, [])
    made.record(event("paused", is_change=True))
    assert (made.dropped, lost) == (2, [False])
    await made.flush()
    assert "paused" in {each["message"] for each in await stored(cluster)}


@simulated
async def test_events_about_objects_of_the_whole_cluster_are_kept_in_the_default_namespace() -> None:
    cluster = SimulatedCluster(virtual_time.clock())
    made = recorder(cluster)
    node = events.Regarding(resource=kinds.NODES, key=objects.Key("", "node-1"), uid="u-3")
    made.record(event("x" * 5000, regarding=node))
    await made.flush()
    (only,) = await stored(cluster)
    assert len(str(only["message"])) == events.MESSAGE_MAX
