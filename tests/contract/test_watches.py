"""Watches: every change once and in order, from where one was, for what one selects."""

import contextlib
from typing import Any

import pytest

from autoscaler.kube import kinds, port
from tests.contract.customs import WIDGETS, WORKER_POOLS, worker_pool
from tests.contract.watching import Watching, version, watching
from tests.contract.worlds import Body, World


async def make(world: World, name: str, **labels: str) -> Body:
    return await world.create(kinds.CONFIG_MAPS, {"metadata": {"name": name, "labels": {"ours": "yes", **labels}}})


async def test_changes_after_a_list_are_seen_once_and_in_order(world: World) -> None:
    await make(world, "before")
    since = await version(world)
    await make(world, "a")
    async with watching(world, resourceVersion=since) as watch:
        await world.merge(kinds.CONFIG_MAPS, "a", {"data": {"k": "v"}})
        await world.delete(kinds.CONFIG_MAPS, "a")
        await make(world, "b")
        assert await watch.take(4) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "b")]


async def test_an_accepted_watch_says_so_at_once(world: World) -> None:
    since = await version(world)
    query = {"resourceVersion": since, "timeoutSeconds": "30"}
    async with contextlib.aclosing(world.api.watch(kinds.CONFIG_MAPS.collection(world.namespace), query)) as stream:
        assert list(await anext(stream)) == []


async def test_versions_of_events_grow_and_one_can_go_on_from_each(world: World) -> None:
    since = await version(world)
    for name in "abc":
        await make(world, name)
    await world.delete(kinds.CONFIG_MAPS, "b")
    async with watching(world, resourceVersion=since) as watch:
        versions = [int((await watch.next())[1]["metadata"]["resourceVersion"]) for _ in range(4)]
    assert versions == sorted(set(versions))
    async with watching(world, resourceVersion=str(versions[1])) as watch:
        assert await watch.take(2) == [("ADDED", "c"), ("DELETED", "b")]


async def test_a_deleted_object_is_shown_as_it_was_last(world: World) -> None:
    made = await world.create(kinds.CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}})
    async with watching(world, resourceVersion=made["metadata"]["resourceVersion"]) as watch:
        await world.delete(kinds.CONFIG_MAPS, "a")
        kind, body = await watch.next()
    assert (kind, body["kind"], body["data"]) == ("DELETED", "ConfigMap", {"k": "v"})
    assert body["metadata"]["uid"] == made["metadata"]["uid"]
    assert int(body["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    assert "deletionTimestamp" not in body["metadata"]


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}], ids=["unset", "zero"])
async def test_without_a_version_one_sees_first_what_is_there(world: World, query: dict[str, str]) -> None:
    for name in "ab":
        await make(world, name)
    watch = Watching(world, world.collection(kinds.CONFIG_MAPS), {"labelSelector": "ours", **query})
    async with contextlib.aclosing(watch):
        assert sorted(await watch.take(2)) == [("ADDED", "a"), ("ADDED", "b")]
        await world.delete(kinds.CONFIG_MAPS, "a")
        assert await watch.take(1) == [("DELETED", "a")]


async def test_an_object_that_enters_or_leaves_the_selection_is_added_or_deleted(world: World) -> None:
    since = await version(world)
    async with watching(world, resourceVersion=since, labelSelector="pool=x") as watch:
        await make(world, "a", pool="y")
        await world.merge(kinds.CONFIG_MAPS, "a", {"metadata": {"labels": {"pool": "x"}}})
        await world.merge(kinds.CONFIG_MAPS, "a", {"data": {"k": "v"}})
        await world.merge(kinds.CONFIG_MAPS, "a", {"metadata": {"labels": {"pool": "y"}}})
        await world.delete(kinds.CONFIG_MAPS, "a")
        await make(world, "b", pool="x")
        want = [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "b")]
        assert await watch.take(4) == want


async def test_one_object_is_watched_by_its_name(world: World) -> None:
    since = await version(world)
    async with watching(world, resourceVersion=since, fieldSelector="metadata.name=b") as watch:
        for name in "ab":
            await make(world, name)
        assert await watch.take(1) == [("ADDED", "b")]


async def test_a_namespace_is_watched_apart_from_others(world: World) -> None:
    since = await version(world)
    other = world.unique("other")
    await world.create(kinds.NAMESPACES, {"metadata": {"name": other}})
    async with watching(world, resourceVersion=since) as watch:
        body = {"metadata": {"name": "there"}}
        (await world.send("POST", kinds.CONFIG_MAPS.collection(other), body)).required()
        await make(world, "here")
        assert await watch.take(1) == [("ADDED", "here")]


async def test_a_write_that_changes_nothing_is_not_seen(world: World) -> None:
    made = await make(world, "a")
    async with watching(world, resourceVersion=made["metadata"]["resourceVersion"]) as watch:
        await world.merge(kinds.CONFIG_MAPS, "a", {"metadata": {"labels": {"ours": "yes"}}})
        await make(world, "b")
        assert await watch.take(1) == [("ADDED", "b")]


async def test_finalizers_show_in_two_steps(world: World) -> None:
    body = {"metadata": {"name": "a", "finalizers": ["sluice.dev/contract"]}}
    made = await world.create(kinds.CONFIG_MAPS, body)
    async with watching(world, resourceVersion=made["metadata"]["resourceVersion"]) as watch:
        await world.delete(kinds.CONFIG_MAPS, "a")
        await world.merge(kinds.CONFIG_MAPS, "a", {"metadata": {"finalizers": None}})
        kind, marked = await watch.next()
        assert (kind, "deletionTimestamp" in marked["metadata"]) == ("MODIFIED", True)
        kind, gone = await watch.next()
        assert (kind, gone["metadata"]["finalizers"]) == ("DELETED", ["sluice.dev/contract"])


async def test_the_server_ends_a_watch_when_asked_to(world: World) -> None:
    await make(world, "a")
    async with watching(world, labelSelector="ours", timeoutSeconds="1") as watch:
        assert await watch.until_end() == ["ADDED"]


async def test_a_bookmark_tells_how_far_one_has_seen(world: World) -> None:
    since = await version(world)
    await make(world, "a")
    seen = None
    for _ in range(3):  # a busy server may be too late with it
        seen = seen or await bookmark(world, since)
    assert seen is not None
    assert (seen["kind"], seen["apiVersion"]) == ("ConfigMap", "v1")
    assert int(seen["metadata"]["resourceVersion"]) > int(since)
    async with watching(world, resourceVersion=seen["metadata"]["resourceVersion"]) as watch:
        await make(world, "b")
        assert await watch.take(1) == [("ADDED", "b")]


async def bookmark(world: World, since: str) -> Body | None:
    """Watch for a short while and return the bookmark that comes before the end.

    The real server sends none that says nothing new, so something is made that the watch does not select.
    """
    path, query = world.collection(kinds.CONFIG_MAPS), {"timeoutSeconds": "5", "allowWatchBookmarks": "true"}
    watch = Watching(world, path, {**query, "labelSelector": "ours", "resourceVersion": since})
    try:
        assert await watch.take(1) == [("ADDED", "a")]
        await world.create(kinds.CONFIG_MAPS, {"metadata": {"name": world.unique("unseen")}})
        kind, body = await watch.next()
    except StopAsyncIteration:
        return None
    finally:
        await watch.aclose()
    assert kind == "BOOKMARK"
    return body


async def test_a_version_too_old_is_an_error_within_the_stream(world: World) -> None:
    """The kind itself is younger than this version, so its history cannot reach back that far."""
    async with watching(world, WORKER_POOLS, resourceVersion="1") as watch:
        kind, status = await watch.next()
        assert (kind, status["kind"], status["status"]) == ("ERROR", "Status", "Failure")
        assert (status["code"], status["reason"]) == (410, "Expired")
        assert status["message"].startswith("too old resource version: 1 (")
        assert await watch.until_end() == []


async def test_a_kind_that_is_not_there_cannot_be_watched(world: World) -> None:
    async with watching(world, WIDGETS) as watch:
        with pytest.raises(port.NotFoundError):
            await watch.next()


async def test_a_selector_that_cannot_be_read_is_refused(world: World) -> None:
    async with watching(world, labelSelector="a in (") as watch:
        with pytest.raises(port.ApiError) as refused:
            await watch.next()
    assert refused.value.status == 400


async def test_custom_objects_are_watched_alike(world: World) -> None:
    since = await version(world, WORKER_POOLS)
    async with watching(world, WORKER_POOLS, resourceVersion=since) as watch:
        await world.create(WORKER_POOLS, worker_pool())
        await world.merge(WORKER_POOLS, "pool", {"status": {"workers": 1}}, "status")
        await world.delete(WORKER_POOLS, "pool")
        seen: list[Any] = [await watch.next() for _ in range(3)]
    assert [kind for kind, _ in seen] == ["ADDED", "MODIFIED", "DELETED"]
    assert seen[2][1]["status"] == {"workers": 1}
