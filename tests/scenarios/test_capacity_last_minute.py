"""What is seen to before an instance ends: load balancers and volumes, in virtual time."""

import asyncio

import pytest

from autoscaler.api import keys
from autoscaler.cloud import port as cloud
from autoscaler.kube import kinds, port
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster.faults import Answer, Matching
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_services import Service
from tests.scenarios.capacity_world import World, runtime

NEW = cloud.Template(image_id="ami-2", user_data_sha256="1" * 64)
LABEL = keys.EXCLUDED_FROM_LOAD_BALANCERS


def attach(world: World, node: str, volume: str = "pv-1") -> None:
    spec = {"attacher": "ebs.csi.aws.com", "nodeName": node, "source": {"persistentVolumeName": volume}}
    world.cluster.create(kinds.VOLUME_ATTACHMENTS, {"metadata": {"name": f"csi-{volume}"}, "spec": spec})


def detach(world: World, volume: str = "pv-1") -> None:
    path = kinds.VOLUME_ATTACHMENTS.path(f"csi-{volume}")
    port.required(world.cluster.server.handle(port.Request(method="DELETE", path=path), "admin"))


def labels(world: World) -> dict[str, str | None]:
    return {node["metadata"]["name"]: node["metadata"]["labels"].get(LABEL) for node in world.nodes()}


async def ended_after(world: World, instance: str, seconds: int) -> int:
    """Return after how many seconds an instance was ended."""
    for second in range(seconds):
        if not world.cloud.instances[cloud.InstanceId(instance)].counts:
            return second
        await asyncio.sleep(1)
    raise AssertionError(f"{instance} is still there after {seconds} s")


@simulated
async def test_load_balancers_are_kept_off_a_node_before_its_instance_ends_and_let_on_again_if_it_stays() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=60)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one", cpu="3")
        await asyncio.sleep(60)
        (node,) = labels(world)
        assert labels(world) == {node: None}
        world.delete_pod("one")
        await asyncio.sleep(62)
        assert labels(world) == {node: "sluice"}
        assert world.cloud.instances[cloud.InstanceId(node.removeprefix("ip-"))].counts
        world.add_pod("two", cpu="3")
        await asyncio.sleep(10)
        assert world.bound() == {"two": node}
        assert labels(world) == {node: None}


@simulated
async def test_a_label_that_somebody_else_put_there_stays() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=60)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one", cpu="3")
        await asyncio.sleep(60)
        (node,) = labels(world)
        world.patch(kinds.NODES, node, {"metadata": {"labels": {LABEL: "theirs"}}})
        world.delete_pod("one")
        await asyncio.sleep(62)
        world.add_pod("two", cpu="3")
        await asyncio.sleep(10)
        assert labels(world) == {node: "theirs"}


@simulated
async def test_load_balancers_are_let_on_again_after_somebody_took_our_mark_off() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=60)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one", cpu="3")
        await asyncio.sleep(60)
        (node,) = labels(world)
        world.delete_pod("one")
        await asyncio.sleep(62)
        assert labels(world) == {node: "sluice"}
        world.patch(kinds.NODES, node, {"spec": {"taints": []}})
        world.add_pod("two", cpu="3")
        await asyncio.sleep(10)
        assert world.bound() == {"two": node}
        assert labels(world) == {node: None}


@simulated
async def test_a_drained_node_goes_once_its_volumes_are_detached() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=36_000)
    service = Service(world, "web")
    async with runtime(world):
        await asyncio.sleep(5)
        service.start()
        await asyncio.sleep(60)
        (instance,) = world.cloud.instances
        attach(world, f"ip-{instance}")
        world.cloud.retemplate(world.cloud.instances[instance].group, NEW)
        for _ in range(300):
            if f"ip-{instance}" not in service.running().values():
                break
            await asyncio.sleep(1)
        await asyncio.sleep(30)
        assert world.cloud.instances[instance].counts
        assert labels(world)[f"ip-{instance}"] == "sluice"
        detach(world)
        assert await ended_after(world, instance, 30) <= 10
        assert not world.events("VolumesAttached")


@simulated
async def test_volumes_that_stay_are_waited_for_for_a_minute_and_told() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=60)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one", cpu="3")
        await asyncio.sleep(60)
        (instance,) = world.cloud.instances
        attach(world, f"ip-{instance}")
        world.delete_pod("one")
        assert 120 <= await ended_after(world, instance, 200) <= 135
        await asyncio.sleep(10)
        (told,) = world.events("VolumesAttached")
        assert f"ip-{instance} was ended with volumes attached: pv-1" in told["message"]
        assert told["involvedObject"]["kind"] == "InstancePool"


@simulated
async def test_an_instance_that_the_provider_takes_does_not_wait_for_its_volumes() -> None:
    world = World()
    world.add_pool(zones=("a", "b"))
    service = Service(world, "web")
    async with runtime(world):
        await asyncio.sleep(5)
        service.start()
        await asyncio.sleep(60)
        (instance,) = world.cloud.instances
        attach(world, f"ip-{instance}")
        world.cloud.interrupt(instance)
        await asyncio.sleep(2)
        assert labels(world)[f"ip-{instance}"] == "sluice"
        assert await ended_after(world, instance, 60) <= 30


def test_who_may_not_see_volume_attachments_ends_what_is_idle() -> None:
    async def scenario() -> None:
        world = World()
        world.add_pool(zones=("a",), limits__maxIdleSeconds=60)
        refused = Matching(method="GET", path="/apis/storage.k8s.io/v1/volumeattachments")
        world.cluster.faults.add(Answer(code=403), refused, times=None)
        async with runtime(world):
            await asyncio.sleep(5)
            world.add_pod("one", cpu="3")
            await asyncio.sleep(60)
            (instance,) = world.cloud.instances
            world.delete_pod("one")
            assert await ended_after(world, instance, 100) <= 75

    virtual_time.run(scenario())


def test_volumes_that_nobody_can_tell_of_just_now_are_waited_for_for_a_minute() -> None:
    async def scenario() -> None:
        world = World()
        world.add_pool(zones=("a",), limits__maxIdleSeconds=60)
        failing = Matching(method="GET", path="/apis/storage.k8s.io/v1/volumeattachments")
        world.cluster.faults.add(Answer(code=500), failing, times=None)
        async with runtime(world):
            await asyncio.sleep(5)
            world.add_pod("one", cpu="3")
            await asyncio.sleep(60)
            (instance,) = world.cloud.instances
            world.delete_pod("one")
            assert 120 <= await ended_after(world, instance, 200) <= 140  # what fails is not asked all the time

    virtual_time.run(scenario())


@pytest.mark.parametrize("zones", ["a", "abcdefghij"])
def test_ten_nodes_that_go_at_once_are_looked_up_in_one_list(zones: str) -> None:
    async def scenario() -> None:
        world = World()
        world.add_pool(zones=tuple(zones), maximum=10 // len(zones), limits__maxIdleSeconds=60)
        async with runtime(world):
            await asyncio.sleep(5)
            for number in range(10):
                world.add_pod(f"p-{number}", cpu="3")
            await asyncio.sleep(60)
            assert len(world.nodes()) == 10
            seen: list[str] = []
            handle = world.cluster.server.handle

            def counted(request: port.Request, user: str) -> port.Response:
                seen.append(request.path)
                return handle(request, user)

            world.cluster.server.handle = counted  # type: ignore[method-assign]
            for number in range(10):
                world.delete_pod(f"p-{number}")
            await asyncio.sleep(100)
            assert not [one for one in world.cloud.instances.values() if one.counts]
            assert sum("volumeattachments" in path for path in seen) <= 3

    virtual_time.run(scenario())
