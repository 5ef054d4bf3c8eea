"""Everything that can go wrong between a client and the simulated API server, when asked for."""

import asyncio
import json

import pytest

from autoscaler.kube import kinds, port
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import SimulatedCluster, faults

PATH = kinds.CONFIG_MAPS.collection("default")


def cluster() -> SimulatedCluster:
    return SimulatedCluster(virtual_time.clock())


def creation(name: str = "a", **options: float) -> port.Request:
    body = json.dumps({"metadata": {"name": name}}).encode()
    return port.Request(method="POST", path=PATH, body=body, **options)  # type: ignore[arg-type]


def is_there(world: SimulatedCluster, name: str = "a") -> bool:
    response = world.server.handle(port.Request(method="GET", path=f"{PATH}/{name}"), "admin")
    return response.status == 200


async def test_a_refused_request_does_nothing() -> None:
    world = cluster()
    world.faults.add(faults.Refuse())
    with pytest.raises(port.UnreachableError):
        await world.client().send(creation())
    assert not is_there(world)
    assert (await world.client().send(creation())).status == 201


async def test_a_lost_answer_leaves_the_write() -> None:
    world = cluster()
    world.faults.add(faults.LoseAnswer())
    with pytest.raises(port.UnreachableError):
        await world.client().send(creation())
    assert is_there(world)


@pytest.mark.parametrize(
    ("code", "error"), [(429, port.TooManyRequestsError), (500, port.ApiError), (503, port.ApiError)]
)
async def test_the_next_requests_are_answered_with_an_error(code: int, error: type[port.ApiError]) -> None:
    world = cluster()
    world.faults.add(faults.Answer(code=code, retry_after_seconds=3), times=2)
    client = world.client()
    for _ in range(2):
        response = await client.send(creation())
        assert (response.status, response.retry_after_seconds) == (code, 3)
        with pytest.raises(error):
            port.required(response)
    assert not is_there(world)
    assert (await client.send(creation())).status == 201


async def test_a_fault_meets_only_what_it_is_about() -> None:
    world = cluster()
    matching = faults.Matching(method="POST", path="/configmaps", username="alice")
    world.faults.add(faults.Answer(code=503), matching, times=None)
    assert (await world.client("bob").send(creation("a"))).status == 201
    assert (await world.client("alice").send(port.Request(method="GET", path=PATH))).status == 200
    secret = port.Request(method="POST", path=kinds.SECRETS.collection("default"), body=creation().body)
    assert (await world.client("alice").send(secret)).status == 201
    assert (await world.client("alice").send(creation("b"))).status == 503
    world.faults.clear()
    assert (await world.client("alice").send(creation("b"))).status == 201


async def test_a_delay_takes_its_time() -> None:
    world = cluster()
    world.faults.add(faults.Delay(seconds=4))
    assert (await world.client().send(creation())).status == 201
    assert asyncio.get_running_loop().time() == 4


async def test_a_request_that_takes_too_long_is_given_up_and_done_all_the_same() -> None:
    world = cluster()
    world.faults.add(faults.Delay(seconds=12))
    with pytest.raises(port.UnreachableError, match="no answer in 5 s"):
        await world.client().send(creation(timeout_seconds=5))
    assert asyncio.get_running_loop().time() == 5
    assert not is_there(world)
    await asyncio.sleep(8)
    assert is_there(world)


async def collect(client: port.Api, into: list[str]) -> None:
    try:
        async for batch in client.watch(PATH, {}):
            into.extend(json.loads(raw)["type"] for raw in batch)
        into.append("end")
    except port.UnreachableError:
        into.append("broken")


async def test_watches_are_cut() -> None:
    world = cluster()
    seen: dict[str, list[str]] = {"alice": [], "bob": []}
    tasks = [asyncio.create_task(collect(world.client(name), into)) for name, into in seen.items()]
    await asyncio.sleep(1)
    assert world.faults.cut_watches("alice") == 1
    await world.client().send(creation())
    await asyncio.sleep(1)
    assert seen == {"alice": ["broken"], "bob": ["ADDED"]}
    assert world.faults.cut_watches() == 1
    await asyncio.gather(*tasks)
    assert seen["bob"] == ["ADDED", "broken"]


async def test_a_watch_is_refused() -> None:
    world = cluster()
    world.faults.add(faults.Refuse(), faults.Matching(method=faults.WATCH))
    seen: list[str] = []
    await collect(world.client(), seen)
    assert seen == ["broken"]
    world.faults.add(faults.Answer(code=429), faults.Matching(method=faults.WATCH))
    with pytest.raises(port.TooManyRequestsError):
        await collect(world.client(), seen)


async def test_a_partitioned_client_reaches_nobody() -> None:
    world = cluster()
    seen: list[str] = []
    task = asyncio.create_task(collect(world.client("alice"), seen))
    await asyncio.sleep(1)
    world.faults.partition("alice")
    await task
    assert seen == ["broken"]
    with pytest.raises(port.UnreachableError):
        await world.client("alice").send(creation())
    assert (await world.client("bob").send(creation())).status == 201


async def test_a_frozen_client_goes_on_where_it_was() -> None:
    world = cluster()
    seen: list[str] = []
    watching = asyncio.create_task(collect(world.client("alice"), seen))
    await asyncio.sleep(1)
    world.faults.freeze("alice")
    writing = asyncio.create_task(world.client("alice").send(creation("late")))
    await world.client("bob").send(creation("a"))
    await asyncio.sleep(600)
    assert (seen, writing.done(), is_there(world, "late")) == ([], False, False)
    world.faults.thaw("alice")
    assert (await writing).status == 201
    await asyncio.sleep(1)
    assert seen == ["ADDED", "ADDED"]
    watching.cancel()


async def test_events_may_lag() -> None:
    world = cluster()
    world.faults.watch_lag_seconds = 7
    seen: list[str] = []
    watching = asyncio.create_task(collect(world.client(), seen))
    await asyncio.sleep(1)
    await world.client().send(creation())
    await asyncio.sleep(6)
    assert seen == []
    await asyncio.sleep(2)
    assert seen == ["ADDED"]
    watching.cancel()


async def test_a_compacted_history_makes_watches_and_pages_begin_anew() -> None:
    world = cluster()
    client = world.client()
    for name in "abc":
        await client.send(creation(name))
    page = json.loads((await client.send(port.Request(method="GET", path=PATH, query={"limit": "1"}))).body)
    world.compact()
    query = {"continue": page["metadata"]["continue"], "limit": "1"}
    response = await client.send(port.Request(method="GET", path=PATH, query=query))
    with pytest.raises(port.ExpiredError):
        port.required(response)
    query = {"resourceVersion": "1001", "timeoutSeconds": "5"}
    [raw] = [raw async for batch in client.watch(PATH, query) for raw in batch]
    assert json.loads(raw)["object"]["code"] == 410


async def test_a_history_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autoscaler.simulation.cluster.store.HISTORY", 5)
    world = cluster()
    client = world.client()
    versions = [
        json.loads((await client.send(creation(f"a{number}"))).body)["metadata"]["resourceVersion"]
        for number in range(10)
    ]
    for version, want in ((versions[4], ["ADDED"] * 5), (versions[3], ["ERROR"])):
        query = {"resourceVersion": version, "timeoutSeconds": "5"}
        seen = [json.loads(raw)["type"] async for batch in client.watch(PATH, query) for raw in batch]
        assert seen == want


async def test_every_request_takes_the_clusters_latency() -> None:
    world = SimulatedCluster(virtual_time.clock(), latency_seconds=0.25)
    for name in "ab":
        await world.client().send(creation(name))
    assert asyncio.get_running_loop().time() == 0.5
