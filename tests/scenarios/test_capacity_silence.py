"""Clouds that hang and capacity that never comes, in virtual time: nobody waits for them who need not."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import pytest

from autoscaler import control
from autoscaler.api import keys, resources
from autoscaler.api.settings.scaling import Scaling
from autoscaler.cloud import port as cloud
from autoscaler.kube import kinds, port
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cloud import faults
from autoscaler.simulation.cloud.client import SimulatedClient
from autoscaler.simulation.cloud.model import Obstacle
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios import capacity_world, running
from tests.scenarios.capacity_replicas import add_account
from tests.scenarios.capacity_world import World, runtime

A, B = (f"workers-{zone}-m5.xlarge" for zone in "ab")
POOLS = kinds.custom(resources.InstancePool)
ACCOUNTS = kinds.custom(resources.ProviderAccount)


def ended(world: World) -> int:
    """Count the instances that were ended."""
    return sum(not one.counts for one in world.cloud.instances.values())


def ready(world: World, kind: kinds.ResourceType) -> tuple[str, str]:
    """Return what the one object of a kind says of itself."""
    (found,) = world.all(kind)
    condition = next(each for each in found["status"]["conditions"] if each["type"] == "Ready")
    return condition["status"], condition["message"]


async def bound_within(world: World, pods: set[str], seconds: float) -> float:
    """Return after how many seconds all these pods had nodes; it is an error if they have none in time."""
    for tenths in range(int(seconds * 10)):
        if pods <= world.bound().keys():
            return tenths / 10
        await asyncio.sleep(0.1)
    missing = sorted(pods - world.bound().keys())
    raise AssertionError(f"{len(missing)} of {len(pods)} have no node after {seconds} s: {missing}")


# Cloud calls run beside the cycle (Capacity 16)


class Hanging:
    """A client some of whose calls get no answer for a while, or a late one; counts those in flight for each group."""

    def __init__(self, client: SimulatedClient, call: str, *, seconds: float, is_answered: bool = False) -> None:
        self.is_on = is_answered
        self.is_answered = is_answered
        self.seconds = seconds
        self.in_flight: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self._plain = getattr(client, call)
        setattr(client, call, self._ask)

    async def _ask(self, *arguments: Any, **options: Any) -> Any:
        first = arguments[0] if arguments else None
        if not self.is_on or first is None:  # a whole list is read beside the cycle anyway
            return await self._plain(*arguments, **options)
        names = [first.name] if isinstance(first, cloud.NodeGroup) else sorted(first)
        for name in names:
            self.in_flight[name] += 1
            self.most[name] = max(self.most[name], self.in_flight[name])
        try:
            await asyncio.sleep(self.seconds)
        finally:
            for name in names:
                self.in_flight[name] -= 1
        if self.is_answered:
            return await self._plain(*arguments, **options)
        raise cloud.CloudError(cloud.Reason.UNREACHABLE, "no answer", may_have_landed=True)


async def seven_marked(world: World) -> Hanging:
    """Let seven nodes fall idle and be marked, and hang the call that would end them."""
    for number in range(7):
        world.add_pod(f"p-{number}", cpu="3")
    await asyncio.sleep(90)
    hanging = Hanging(world.clients["aws"], "terminate", seconds=15.0)
    hanging.is_on = True
    for number in range(7):
        world.delete_pod(f"p-{number}")
    for _ in range(900):
        await asyncio.sleep(0.1)
        if hanging.in_flight:
            return hanging
    raise AssertionError("nothing was ended")


@simulated
async def test_while_the_end_of_one_instance_hangs_pods_use_the_other_idle_nodes_at_once() -> None:
    """Seven are marked, and at most one call is in flight for their group: the other six are free."""
    world = World()
    world.add_pool(zones=("a",), maximum=20, limits__maxIdleSeconds=60)
    async with runtime(world):
        await asyncio.sleep(5)
        hanging = await seven_marked(world)
        assert max(hanging.most.values()) == 1
        wanted = {f"new-{number}" for number in range(6)}
        for name in wanted:
            world.add_pod(name, cpu="3")
        await bound_within(world, wanted, 5)
        assert len(world.cloud.instances) == 7


class SlowNodes:
    """The API server as a process sees it whose changes of nodes take a while."""

    def __init__(self, api: port.Api) -> None:
        self._api = api
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:  # all that is watched passes
        return getattr(self._api, name)

    async def send(self, request: port.Request) -> port.Response:
        if request.method == "PATCH" and "/nodes/" in request.path:
            await asyncio.sleep(self.seconds)
        return await self._api.send(request)


@simulated
async def test_an_instance_whose_mark_is_just_coming_off_is_not_ended() -> None:
    world, slow = World(), []

    def wrap(api: port.Api) -> port.Api:
        slow.append(SlowNodes(api))
        return cast("port.Api", slow[0])

    async def open_cloud(context: control.ControllerContext, name: str, spec: object) -> cloud.Cloud:
        del context, spec
        world.clients[name] = world.cloud.client()
        return world.clients[name]

    world.add_pool(zones=("a",), maximum=20, limits__maxIdleSeconds=60)
    async with running.replica(world.cluster, capacity_world.registrations(world, open_cloud), wrap=wrap):
        await asyncio.sleep(5)
        hanging = await seven_marked(world)
        hanging.is_answered, slow[0].seconds = True, 20.0  # the first ends, and the marks come off later
        wanted = {f"new-{number}" for number in range(6)}
        for name in wanted:
            world.add_pod(name, cpu="3")
        await bound_within(world, wanted, 45)
        assert (len(world.cloud.instances), ended(world)) == (7, 1)


@simulated
async def test_while_the_end_of_lost_instances_hangs_launches_and_words_go_on() -> None:
    """Three never became nodes: their ends hang, one after the other."""
    world = World()
    world.add_pool(zones=("a", "b"), registrationTimeoutSeconds=60)
    world.silent = {"a"}
    async with runtime(world):
        await asyncio.sleep(5)
        for number in range(3):
            world.add_pod(f"lost-{number}", cpu="3", nodeSelector={keys.ZONE: "a"})
        hanging = Hanging(world.clients["aws"], "terminate", seconds=15.0)
        hanging.is_on = True
        for _ in range(900):
            await asyncio.sleep(0.1)
            if hanging.in_flight:
                break
        world.add_pod("one", cpu="3", nodeSelector={keys.ZONE: "b"})
        world.add_pod("huge", cpu="640")
        await asyncio.sleep(2)
        assert world.desired().get(B) == 1
        told = {event["involvedObject"]["name"] for event in world.events("NotTriggerScaleUp")}
        assert "huge" in told


@simulated
async def test_while_one_account_hangs_another_is_asked_at_once_and_free_nodes_are_used() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=60)
    far = add_account(world, "far", pool="far")
    clients: dict[str, SimulatedClient] = {}

    async def open_cloud(context: control.ControllerContext, name: str, spec: object) -> cloud.Cloud:
        del context, spec
        clients[name] = {"far": far}.get(name, world.cloud).client()
        return clients[name]

    async with running.replica(world.cluster, capacity_world.registrations(world, open_cloud)):
        await asyncio.sleep(5)
        hanging = Hanging(clients["far"], "groups", seconds=56.0)
        hanging.is_on = True
        world.add_pod("hangs", cpu="3", nodeSelector={keys.INSTANCE_POOL: "far"})
        await asyncio.sleep(1)
        world.add_pod("one", cpu="3", nodeSelector={keys.INSTANCE_POOL: "workers"})
        await asyncio.sleep(1)
        assert world.desired() == {A: 1}
        await asyncio.sleep(9)
        (account,) = [each for each in world.all(ACCOUNTS) if each["metadata"]["name"] == "far"]
        assert account["status"]["conditions"][0]["status"] == "False", "no answer for 10 s, and nobody was told"


@simulated
async def test_a_launch_that_is_under_way_counts_and_nobody_else_is_asked_for_it() -> None:
    world = World()
    world.add_pool(zones=("a", "b"))
    async with runtime(world):
        await asyncio.sleep(5)
        slow = Hanging(world.clients["aws"], "set_desired", seconds=8.0, is_answered=True)
        world.add_pod("one", cpu="3")
        await asyncio.sleep(1)
        world.add_pod("two", cpu="3")  # a larger plan, which may choose another group
        await asyncio.sleep(4)
        assert (slow.in_flight[A], slow.in_flight[B]) in {(1, 0), (1, 1)}
        assert world.desired() == {}
        await bound_within(world, {"one", "two"}, 90)
        assert (len(world.cloud.instances), max(slow.most.values())) == (2, 1)
        told = sorted(event["involvedObject"]["name"] for event in world.events("TriggeredScaleUp"))
        assert told == ["one", "two"]


@simulated
async def test_a_launch_need_not_wait_until_all_used_instances_of_its_group_have_ended() -> None:
    world = World()
    free = {"key": keys.RESERVED_FOR, "value": keys.RESERVED_FOR_NONE, "effect": "NoSchedule"}
    world.add_pool(zones=("a",), ephemeral=True, taints=(free,))
    world.run_seconds = 60.0
    async with runtime(world):
        await asyncio.sleep(5)
        slow = Hanging(world.clients["aws"], "terminate", seconds=4.0, is_answered=True)
        for number in range(5):
            world.add_pod(f"p-{number}", cpu="3")
        for _ in range(2000):
            await asyncio.sleep(0.1)
            if slow.in_flight[A]:
                break
        world.add_pod("next", cpu="3")
        await asyncio.sleep(8)
        assert len(world.cloud.instances) == 6, "it waits for all ends, one after the other"
        await asyncio.sleep(120)
        assert ended(world) == 6


@simulated
async def test_who_is_paused_while_a_group_is_read_again_sends_nothing() -> None:
    world = World()
    world.add_pool(zones=("a",))
    async with runtime(world):
        await asyncio.sleep(5)
        Hanging(world.clients["aws"], "groups", seconds=4.0, is_answered=True)
        world.add_pod("one", cpu="3")
        await asyncio.sleep(2)
        world.patch(kinds.NAMESPACES, running.NAMESPACE, {"metadata": {"annotations": {keys.PAUSED: "true"}}})
        await asyncio.sleep(10)
        assert world.desired() == {}
        world.patch(kinds.NAMESPACES, running.NAMESPACE, {"metadata": {"annotations": {keys.PAUSED: None}}})
        await asyncio.sleep(10)
        assert world.desired() == {A: 1}


@simulated
async def test_an_account_whose_reading_hangs_says_so_and_no_longer_once_it_answers() -> None:
    world = World()
    world.add_pool(zones=("a",))
    async with runtime(world):
        await asyncio.sleep(5)
        client, plain = world.clients["aws"], world.clients["aws"].groups

        async def late(*arguments: Any) -> Any:
            await asyncio.sleep(30)
            return await plain(*arguments)

        client.groups = late  # type: ignore[assignment, method-assign]  # as a network does that hangs
        await asyncio.sleep(60 + 12)
        assert ready(world, ACCOUNTS) == ("False", "no answer to a reading of its node groups yet")
        client.groups = plain  # type: ignore[method-assign]
        await asyncio.sleep(25)
        assert ready(world, ACCOUNTS)[0] == "True"


# What was asked for and never comes (Capacity 2)


@pytest.mark.accept("G27", part="simulated")
@pytest.mark.parametrize("why", ["suspended", "denied"])
def test_capacity_that_never_comes_is_given_up_taken_back_and_looked_for_elsewhere(why: str) -> None:
    async def scenario() -> None:
        world = World()
        world.add_pool(zones=("a", "b"), registrationTimeoutSeconds=120)
        if why == "denied":
            world.cloud.hinder(Obstacle(failure=cloud.LaunchFailure.INSUFFICIENT_CAPACITY, zone="a"))
            for call in (faults.Call.ACTIVITIES, faults.Call.NEWS):
                world.cloud.faults.add(faults.Effect.DENY, call, times=None)
        async with runtime(world):
            await asyncio.sleep(5)
            if why == "suspended":
                world.cloud.groups[cloud.GroupName(A)].suspended.add("Launch")  # it was read a moment before
            world.add_pod("one", cpu="3")
            await asyncio.sleep(2)
            assert world.desired() == {A: 1}
            await asyncio.sleep(120 - 2 - 1)
            assert world.desired() == {A: 1}
            assert ("DescribeScalingActivities" in ready(world, POOLS)[1]) is (why == "denied"), "told while it waits"
            await asyncio.sleep(1 + 2)  # and one cycle
            assert world.desired() == {B: 1}
            await bound_within(world, {"one"}, 60)
            assert world.clients["aws"].calls[faults.Call.SET_DESIRED] == 3
            assert len(world.cloud.instances) == 1
            if why == "denied":
                (pool,) = world.all(POOLS)
                assert "DescribeScalingActivities" in str(pool["status"]["conditions"])
            await asyncio.sleep(600)
            assert world.desired() == {B: 1}, "what was given up stays so"

    virtual_time.run(scenario())


# Auxiliary reads stop only what depends on them (Capacity 16)


@pytest.mark.accept("G27", part="simulated")
@pytest.mark.parametrize("call", [faults.Call.TEMPLATES, faults.Call.LIVES])
def test_a_read_that_no_launch_depends_on_holds_up_no_launch(call: faults.Call) -> None:
    async def scenario() -> None:
        world = World()
        world.add_pool(zones=("a", "b"), limits__maxIdleSeconds=36_000)
        async with runtime(world):
            await asyncio.sleep(5)
            world.add_pod("old", cpu="3", nodeSelector={keys.ZONE: "a"})
            await asyncio.sleep(60)
            world.cloud.faults.add(faults.Effect.THROTTLE, call, times=None)
            for name in world.cloud.groups:
                world.cloud.retemplate(name, cloud.Template(image_id="ami-2", user_data_sha256="1" * 64))
            world.add_pod("first", cpu="3", nodeSelector={keys.ZONE: "b"})
            await asyncio.sleep(300)
            world.add_pod("one", cpu="3", nodeSelector={keys.ZONE: "b"})
            await asyncio.sleep(1)
            assert world.desired().get(B) == 2
            await asyncio.sleep(60)
            assert str(call) in ready(world, POOLS)[1]
            assert ready(world, POOLS)[0] == "True"
            world.cloud.faults.clear()
            await asyncio.sleep(120)
            assert str(call) not in ready(world, POOLS)[1]

    virtual_time.run(scenario())


# Groups that somebody else changes


@simulated
async def test_a_launch_in_a_group_that_was_changed_meanwhile_is_planned_again_at_once() -> None:
    world = World()
    world.add_pool()
    async with runtime(world):
        await asyncio.sleep(5)
        world.cloud.set_desired(world.cloud.groups[cloud.GroupName(A)], 1)
        for name in ("one", "two"):
            world.add_pod(name, cpu="3", nodeSelector={keys.ZONE: "a"})
        await asyncio.sleep(3)
        assert world.desired() == {A: 2}


class Rereadings:
    """Counts how often groups are read again before they are set, and does something each time."""

    def __init__(self, client: SimulatedClient, do: Callable[[int], None]) -> None:
        self.count = 0
        self._do = do
        self._plain = client.groups
        client.groups = self._read  # type: ignore[method-assign]

    async def _read(self, names: Any = None) -> Any:
        if names is not None:
            self.count += 1
            self._do(self.count)
        return await self._plain(names)


@simulated
async def test_a_group_that_is_changed_before_each_launch_is_not_asked_about_without_pause() -> None:
    world = World()
    world.add_pool()
    async with runtime(world):
        await asyncio.sleep(5)
        group = world.cloud.groups[cloud.GroupName(A)]
        rereadings = Rereadings(world.clients["aws"], lambda count: world.cloud.set_desired(group, 1 + count % 2))
        for number in range(8):
            world.add_pod(f"pod-{number}", cpu="3", nodeSelector={keys.ZONE: "a"})
        await asyncio.sleep(60)
        assert 2 <= rereadings.count <= 20


@simulated
async def test_groups_that_cannot_be_read_again_are_asked_about_ever_more_seldom() -> None:
    def refuse(_: int) -> None:
        raise cloud.CloudError(cloud.Reason.THROTTLED, "slow down")

    world = World()
    world.add_pool()
    async with runtime(world):
        await asyncio.sleep(5)
        rereadings = Rereadings(world.clients["aws"], refuse)
        world.add_pod("pod", cpu="3", nodeSelector={keys.ZONE: "a"})
        await asyncio.sleep(60)
        first_minute = rereadings.count
        assert 2 <= first_minute <= 20
        await asyncio.sleep(600)
        assert rereadings.count - first_minute <= 20


@pytest.mark.accept("G24")
@simulated
async def test_a_launch_in_flight_counts_among_those_of_the_minute() -> None:
    world = World()
    world.add_pool()
    async with runtime(world, scaling=Scaling(launches_per_minute=1)):
        await asyncio.sleep(5)
        hanging = Hanging(world.clients["aws"], "set_desired", seconds=8.0, is_answered=True)
        world.add_pod("one", cpu="3", nodeSelector={keys.ZONE: "a"})
        await asyncio.sleep(3)
        assert hanging.in_flight[A]
        world.add_pod("two", cpu="3", nodeSelector={keys.ZONE: "b"})
        await asyncio.sleep(20)
        assert world.desired() == {A: 1}
