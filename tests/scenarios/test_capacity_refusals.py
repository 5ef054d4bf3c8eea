"""Whatever the API server refuses capacity, for ever and in whatever way, in a busy cluster: it is asked seldom.

Every call that capacity makes is refused for minutes while pods come and go, so that a plan is made every second. What
is counted is what the API server would see: how often one object is asked for in a minute, once pauses have grown.
"""

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from typing import Final

import pytest

from autoscaler.api import keys, resources
from autoscaler.kube import kinds, port
from autoscaler.simulation import virtual_time
from tests import builders
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios import capacity_world, running
from tests.scenarios.capacity_services import Service
from tests.scenarios.capacity_world import NAMESPACE, World
from tests.scenarios.test_colocation import add_job, add_members
from tests.scenarios.test_ephemeral_pools import FREE
from tests.scenarios.test_worker_pool_refusals import Refusing

pytestmark = pytest.mark.simulated
A_MINUTE: Final = 6
"""So often is one path asked for in any minute but the first: for three nodes, twice each."""
FIRST_MINUTE: Final = 15
MINUTES: Final = 5
REFUSALS: Final = (409, 422, 429, 500, None)
"""Answers; None is silence."""
Act = Callable[[World], None]


def working(world: World) -> None:
    """Three instances with a pod each, in a scope."""
    scope = builders.resource("Scope", name="research", pools=[{"name": "workers"}])
    world.cluster.create(kinds.custom(resources.Scope), scope)
    world.patch(kinds.NAMESPACES, NAMESPACE, {"metadata": {"labels": {keys.SCOPE: "research"}}})
    world.add_pool(limits__maxIdleSeconds=60)
    for number in range(3):
        world.add_pod(f"works-{number}", cpu="3")


def idle(world: World) -> None:
    for number in range(3):
        world.delete_pod(f"works-{number}")


def more(world: World) -> None:
    world.add_pod("more", cpu="3")


def another_pool(world: World) -> None:
    world.add_pool("another")


def service_leaves(world: World) -> None:
    """Delete the pool under a Deployment's pod."""
    Service(world, "web", cpu="100m").start()
    asyncio.get_running_loop().call_later(30, pool_deleted, world)


def pool_deleted(world: World) -> None:
    path = kinds.custom(resources.InstancePool).path("workers")
    port.required(world.cluster.server.handle(port.Request(method="DELETE", path=path), "admin"))


def idle_pool_deleted(world: World) -> None:
    idle(world)
    pool_deleted(world)


def gang(world: World) -> None:
    add_members(world, add_job(world), 0, 1)


def ephemeral(world: World) -> None:
    world.add_pool("once", ephemeral=True, taints=(FREE,), zones=("a",))
    world.add_pod("only", nodeSelector={keys.INSTANCE_POOL: "once"})


STORIES: Final[dict[str, tuple[str, Act]]] = {
    "marking idle nodes": (r"PATCH .*/nodes/[^/]+", idle),
    "reading the pods of idle nodes": (r"GET .*/pods", idle),
    "reading attached volumes": (r"GET .*/volumeattachments", idle),
    "writing pools' statuses": (r"PATCH .*/instancepools/[^/]+/status", more),
    "writing scopes' statuses": (r"PATCH .*/scopes/[^/]+/status", more),
    "holding pools": (r"PATCH .*/instancepools/[^/]+", another_pool),
    "making records": (r"POST .*/instances", more),
    "writing records": (r"PATCH .*/instances/[^/]+/status", more),
    "evicting": (r"POST .*/eviction", service_leaves),
    "letting a pool go": (r"PATCH .*/instancepools/[^/]+", idle_pool_deleted),
    "opening pods": (r"PATCH .*/pods/[^/]+", gang),
    "keeping an instance for a pod": (r"PATCH .*/nodes/[^/]+", ephemeral),
    "letting a pod onto its instance": (r"PATCH .*/pods/[^/]+", ephemeral),
    "reading a pod before it is let on": (r"GET .*/pods", ephemeral),
    "looking for other autoscalers": (r"GET .*/leases", more),
}


@pytest.mark.parametrize(
    ("story", "status"),
    [
        *((story, 403) for story in STORIES),
        *(("marking idle nodes", status) for status in REFUSALS),
        *(("reading the pods of idle nodes", status) for status in REFUSALS),
    ],
)
def test_what_is_refused_for_ever_is_asked_for_seldom_however_busy_the_cluster_is(
    story: str, status: int | None
) -> None:
    refusing = virtual_time.run(_story(story, status))
    assert refusing.asked, "the story never came to this call"
    most = by_minute(refusing)
    assert most[0] <= FIRST_MINUTE, most
    assert max(most[1:], default=0) <= A_MINUTE, most


def by_minute(refusing: Refusing) -> list[int]:
    """Return in each minute how often one object was asked for at most, counted from the first time."""
    times = [at for _, at in refusing.refused]
    counted = Counter((int((at - times[0]) // 60), call) for call, at in zip(refusing.asked, times, strict=True))
    return [max((n for (m, _), n in counted.items() if m == minute), default=0) for minute in range(MINUTES)]


async def _story(story: str, status: int | None) -> Refusing:
    call, act = STORIES[story]
    world, made = World(), list[Refusing]()

    def wrap(api: port.Api) -> port.Api:
        made.append(Refusing(api, call, status))
        return made[-1]

    registrations = capacity_world.registrations(world, partial(capacity_world._open, world))
    async with running.replica(world.cluster, registrations, wrap=wrap):
        await asyncio.sleep(5)
        working(world)
        await asyncio.sleep(90)
        assert len(world.bound()) == 3
        made[0].is_on = True
        act(world)
        churning = asyncio.create_task(churn(world))
        await asyncio.sleep(60 * MINUTES)
        churning.cancel()
        made[0].is_on = False
    return made[0]


async def churn(world: World) -> None:
    """Let pods come and go that no instance would help."""
    for number in itertools.count():
        world.add_pod(f"churn-{number}", nodeSelector={"no": "node"})
        await asyncio.sleep(1)
        world.delete_pod(f"churn-{number}")


class NoHistory(Refusing):
    """A connection on which nobody tells what became of single pods."""

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Sequence[bytes], None]:
        if self.is_on and path == kinds.PODS.collection(NAMESPACE):
            self.asked.append(path)
            self.refused.append(("WATCH", asyncio.get_running_loop().time()))
            raise port.ApiError(500, "InternalError", "no")
        async with contextlib.aclosing(super().watch(path, query)) as batches:
            async for batch in batches:
                yield batch


@simulated
async def test_what_became_of_a_pod_is_asked_seldom_of_who_does_not_tell() -> None:
    world, made = World(schedules=False), list[NoHistory]()

    def wrap(api: port.Api) -> port.Api:
        made.append(NoHistory(api, "nothing", 403))
        return made[-1]

    registrations = capacity_world.registrations(world, partial(capacity_world._open, world))
    async with running.replica(world.cluster, registrations, wrap=wrap):
        await asyncio.sleep(5)
        ephemeral(world)
        await asyncio.sleep(180)
        made[0].is_on = True
        world.delete_pod("only")  # it had an instance, and may have run there
        churning = asyncio.create_task(churn(world))
        await asyncio.sleep(60 * MINUTES)
        churning.cancel()
    most = by_minute(made[0])
    assert 1 <= most[0] <= FIRST_MINUTE, most
    assert 1 <= max(most[1:]) <= A_MINUTE, most
