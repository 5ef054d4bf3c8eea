"""Whatever is written in whatever order: versions grow, watches and pages tell what lists tell, no orphan stays."""

import asyncio
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.kube import kinds, port
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import SimulatedCluster
from autoscaler.simulation.cluster.store import Change
from tests.contract.worlds import Body, World

NAMES = ("a", "b", "c", "d", "e")
name = st.sampled_from(NAMES)
label = st.sampled_from(("x", "y"))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), name, st.none() | name, st.booleans()),
        st.tuples(st.just("label"), name, label),
        st.tuples(st.just("finalize"), name),
        st.tuples(st.just("delete"), name, st.sampled_from(("Background", "Foreground", "Orphan"))),
        st.tuples(st.just("wait"), st.sampled_from((0.01, 1.0))),
    ),
    max_size=40,
)
FINALIZER = "sluice.dev/property"


async def take(world: World, step: tuple[Any, ...]) -> None:
    """Do one thing; the server may refuse it."""
    match step:
        case "create", str(own), owner, bool(is_held):
            metadata: Body = {"name": own, "labels": {"l": "x"}}
            found = await world.find(kinds.CONFIG_MAPS, owner) if owner and owner != own else None
            if found:
                uid = found["metadata"]["uid"]
                reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid}
                metadata["ownerReferences"] = [{**reference, "blockOwnerDeletion": True}]
            if is_held:
                metadata["finalizers"] = [FINALIZER]
            await world.send("POST", world.collection(kinds.CONFIG_MAPS), {"metadata": metadata})
        case "label", str(own), value:
            patch = {"metadata": {"labels": {"l": value}}}
            await world.send("PATCH", world.path(kinds.CONFIG_MAPS, own), patch)
        case "finalize", str(own):
            await release(world, own)
        case "delete", str(own), policy:
            await world.send("DELETE", world.path(kinds.CONFIG_MAPS, own), {"propagationPolicy": policy})
        case _:
            await asyncio.sleep(step[1])


async def release(world: World, own: str) -> None:
    found = await world.find(kinds.CONFIG_MAPS, own)
    finalizers = (found or {"metadata": {}})["metadata"].get("finalizers", [])
    if FINALIZER in finalizers:
        kept = [finalizer for finalizer in finalizers if finalizer != FINALIZER]
        await world.send("PATCH", world.path(kinds.CONFIG_MAPS, own), {"metadata": {"finalizers": kept}})


async def replay(api: port.Api, path: str, query: dict[str, str], into: dict[str, str]) -> None:
    """Follow a watch from its beginning, and hold what it says is there."""
    async for batch in api.watch(path, query):
        for raw in batch:
            event = json.loads(raw)
            metadata = event["object"]["metadata"]
            if event["type"] == "DELETED":
                del into[metadata["name"]]
            else:
                assert (event["type"] == "MODIFIED") == (metadata["name"] in into)
                into[metadata["name"]] = metadata["resourceVersion"]


async def pages(world: World, limit: int) -> dict[str, str]:
    seen: dict[str, str] = {}
    query = {"limit": str(limit)}
    while True:
        page = await world.listed(kinds.CONFIG_MAPS, **query)
        seen |= versions(page)
        if not page["metadata"].get("continue"):
            return seen
        query["continue"] = page["metadata"]["continue"]


def versions(listed: Body) -> dict[str, str]:
    return {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in listed["items"]}


async def play(steps: list[tuple[Any, ...]]) -> bytes:
    """Take the steps, check all that must hold, and return the end as the server shows it."""
    cluster = SimulatedCluster(virtual_time.clock())
    world = World(api=cluster.client(), namespace="default")
    told: list[int] = []
    cluster.server.store.listeners.append(lambda change: told.append(_version(change)))
    queries: list[dict[str, str]] = [{}, {"labelSelector": "l=x"}]
    held: list[dict[str, str]] = [{} for _ in queries]
    path = world.collection(kinds.CONFIG_MAPS)
    watching = [
        asyncio.create_task(replay(world.api, path, query, into)) for query, into in zip(queries, held, strict=True)
    ]
    await asyncio.sleep(0.001)
    for step in steps:
        await take(world, step)
    for own in NAMES:
        await release(world, own)
    await cluster.settle(10)

    assert told == sorted(set(told))
    for query, into in zip(queries, held, strict=True):
        assert into == versions(await world.listed(kinds.CONFIG_MAPS, **query))
    listed = await world.listed(kinds.CONFIG_MAPS)
    for limit in (1, 2, 3):
        assert await pages(world, limit) == versions(listed)
    uids = {item["metadata"]["uid"] for item in listed["items"]}
    for item in listed["items"]:
        owners = item["metadata"].get("ownerReferences", [])
        assert not owners or {owner["uid"] for owner in owners} & uids, item
        assert "deletionTimestamp" not in item["metadata"]
    for task in watching:
        assert not task.done()
        task.cancel()
    response = await world.api.send(port.Request(method="GET", path=path))
    return response.body


def _version(change: Change) -> int:
    return change.shown.version


@given(steps=STEPS)
def test_invariants_hold_whatever_is_written(steps: list[tuple[Any, ...]]) -> None:
    assert virtual_time.run(play(steps)) == virtual_time.run(play(steps))
