"""`status` reads a cluster as it is: leaders, pools, who waits, and what one may not read. In virtual time."""

import asyncio
import json
from dataclasses import replace

from autoscaler.kube import port
from autoscaler.runtime.commands import status, status_tables, usage
from autoscaler.simulation import virtual_time
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_world import World, runtime


@simulated
async def test_the_state_of_a_cluster_is_read_at_once() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxActiveInstances=5)
    async with runtime(world):
        world.add_pod("runs", cpu="3")
        world.add_pod("waits", cpu="900")
        await asyncio.sleep(120)
        seen = await status.read(world.cluster.client(), now=virtual_time.clock().now())
    assert seen.leaders == ("a",)
    assert [pod.meta.key.name for pod in seen.waiting] == ["waits"]
    (pool,) = [section for section in status_tables.sections(seen) if section.name == "instancePools"]
    assert pool.rows[0][:3] == ("workers", 1, 5)
    assert "Nothing is wrong" in status_tables.text(seen)


@simulated
async def test_what_was_used_is_what_the_instances_say() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=60)
    world.run_seconds = 1800
    async with runtime(world):
        world.add_pod("works", cpu="3")
        await asyncio.sleep(7200)
        found = await usage.of_cluster(world.cluster.client(), None, now=virtual_time.clock().now())
    (*_, whole) = found.rows
    (life,) = world.instances()
    assert (whole.pool, whole.scope) == ("workers", "(all)")
    assert whole.seconds == life["status"]["months"]["2026-01"]["seconds"] > 1800


@simulated
async def test_what_may_not_be_read_is_named_and_the_rest_is_shown() -> None:
    world = World()
    world.add_pool(zones=("a",))
    handle = world.cluster.server.handle

    def refuse(request: port.Request, user: str) -> port.Response:
        if request.path.endswith("/pods"):
            return port.Response(status=403, body=b'{"reason": "Forbidden", "message": "no", "code": 403}')
        return handle(request, user)

    world.cluster.server.handle = refuse  # type: ignore[method-assign]
    seen = await status.read(world.cluster.client(), now=virtual_time.clock().now())
    assert [pool.meta.key.name for pool in seen.pools] == ["workers"]
    (unread,) = seen.unread
    assert unread.startswith("pods: ")


@simulated
async def test_an_object_that_makes_no_sense_is_named_and_the_rest_is_shown() -> None:
    world = World()
    world.add_pool(zones=("a",))
    handle = world.cluster.server.handle

    def older(request: port.Request, user: str) -> port.Response:
        answer = handle(request, user)
        if not request.path.endswith("/instancepools"):
            return answer
        listed = json.loads(answer.body)
        (pool,) = listed["items"]
        odd = {**pool, "metadata": {**pool["metadata"], "name": "old"}, "spec": {"limits": {"maxActiveInstances": -1}}}
        return replace(answer, body=json.dumps({**listed, "items": [odd, pool]}).encode())

    world.cluster.server.handle = older  # type: ignore[method-assign]
    seen = await status.read(world.cluster.client(), now=virtual_time.clock().now())
    assert [pool.meta.key.name for pool in seen.pools] == ["workers"]
    (unread,) = seen.unread
    assert unread.startswith("instancepools old: ")
    assert "maxActiveInstances" in unread
    assert "\n" not in unread
    assert "Nothing is wrong with what could be read, as far as statuses say." in status_tables.text(seen)
