"""A paused runtime in virtual time: nothing is written but that it is paused, and the numbers go on."""

import asyncio
from typing import Any

import pytest
from prometheus_client import parser

from autoscaler import control
from autoscaler.api import keys, names, resources
from autoscaler.kube import kinds, objects, port
from autoscaler.runtime import process
from autoscaler.simulation.cluster import faults
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios import capacity_world, running, worker_world
from tests.scenarios.test_worker_pool_hostility import Between, Next

OWN = worker_world.NAMESPACE
INSTANCE_POOLS = kinds.custom(resources.InstancePool)


def pause(world: worker_world.World | capacity_world.World, value: str | None = "true") -> None:
    world.patch(kinds.NAMESPACES, OWN, {"metadata": {"annotations": {keys.PAUSED: value}}})


def paused(status: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in status.get("conditions", ()) if each["type"] == "RuntimePaused"]


def measured(replica: process.Process, name: str) -> dict[str, float]:
    """Return the samples of a metric by their only label, or under nothing."""
    families = parser.text_string_to_metric_families(replica.metrics.render().decode())
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return {next(iter(sample.labels.values()), ""): sample.value for sample in samples}


@pytest.mark.accept("R9")
@simulated
async def test_worker_pools_say_that_they_are_paused_and_nothing_else_is_written() -> None:
    world = worker_world.World()
    world.add()
    world.add("other", workerPoolClassName="other")
    async with worker_world.runtime(world) as replica:
        await asyncio.sleep(30)
        before = world.status()
        pause(world)
        await asyncio.sleep(2)
        (condition,) = paused(world.status())
        assert (condition["status"], condition["reason"]) == ("True", "PausedByAnnotation")
        assert keys.PAUSED in condition["message"]
        assert OWN in condition["message"]
        assert world.status() == {**before, "conditions": [*before["conditions"], condition]}
        assert not paused(world.status("other"))  # that one is another operator's to speak for
        assert measured(replica, "sluice_paused") == {"": 1.0}
        assert replica.unready() == []  # it is not broken
        world.line.length = 5
        world.add("new")
        versions = {each["metadata"]["uid"]: each["metadata"]["resourceVersion"] for each in world.everything()}
        await asyncio.sleep(600)
        assert paused(world.status("new"))  # one that nobody has looked at yet says so too
        new = world.pool("new")["metadata"]["uid"]
        after = {each["metadata"]["uid"]: each["metadata"]["resourceVersion"] for each in world.everything()}
        assert {**after, new: ""} == {**versions, new: ""}
        assert world.pods() == []
        pause(world, None)
        await asyncio.sleep(30)
        assert not paused(world.status())
        assert not paused(world.status("new"))
        assert len(world.pods()) == 5
        assert measured(replica, "sluice_paused") == {"": 0.0}


@simulated
async def test_who_does_not_lead_or_only_observes_says_nothing() -> None:
    world = worker_world.World()
    world.add()
    pause(world)
    async with worker_world.runtime(world, observe=True) as replica:
        await asyncio.sleep(60)
        assert world.status() == {}
        assert measured(replica, "sluice_observing") == {"": 1.0}
    async with worker_world.runtime(world, pod="a"):
        await asyncio.sleep(60)
        assert paused(world.status())
        async with worker_world.runtime(world, pod="b") as standby:
            world.add("new")
            await asyncio.sleep(60)
            assert paused(world.status("new"))
            assert "sluice_writes_total{" not in standby.metrics.render().decode()


@simulated
async def test_a_condition_that_a_crash_left_behind_goes_with_the_next_leader() -> None:
    world = worker_world.World()
    world.add()
    async with worker_world.runtime(world):
        await asyncio.sleep(30)
        pause(world)
        await asyncio.sleep(2)
    assert paused(world.status())
    pause(world, None)
    async with worker_world.runtime(world):
        await asyncio.sleep(30)
        assert not paused(world.status())


@simulated
async def test_instance_pools_say_it_too_and_waiting_pods_are_still_counted() -> None:
    world = capacity_world.World()
    world.add_pool()

    def status() -> dict[str, Any]:
        (pool,) = world.all(INSTANCE_POOLS)
        told: dict[str, Any] = pool.get("status", {})
        return told

    async with capacity_world.runtime(world) as replica:
        await asyncio.sleep(30)
        pause(world)
        await asyncio.sleep(2)
        (condition,) = paused(status())
        assert condition["reason"] == "PausedByAnnotation"
        world.add_pod("one")
        world.add_pod("two")
        await asyncio.sleep(120)
        assert world.desired() == {}
        assert measured(replica, "sluice_waiting_pods") == {"": 2.0}
        (waited,) = measured(replica, "sluice_oldest_waiting_pod_seconds").values()
        assert 110 < waited < 121
        assert measured(replica, "sluice_pool_instances") == {"workers": 0.0}
        world.delete_pod("two")
        await asyncio.sleep(2)
        assert measured(replica, "sluice_waiting_pods") == {"": 1.0}
        pause(world, None)
        await asyncio.sleep(60)
        assert not paused(status())
        assert set(world.bound()) == {"one"}


class Idle:
    """A controller that watches worker pools and never writes to them."""

    def __init__(self, context: control.ControllerContext) -> None:
        context.watch(kinds.custom(resources.WorkerPool), objects.custom(resources.WorkerPool))

    async def reconcile(self, dirty: control.Dirty) -> float | None:
        del dirty
        return None


@simulated
async def test_the_condition_goes_although_nobody_else_writes_the_status_and_trouble_only_puts_it_off() -> None:
    world = worker_world.World()
    world.add()
    made = {"idle": process.Registration(lease=names.worker_lease(None), build=Idle)}
    async with running.replica(world.cluster, made) as replica:
        await asyncio.sleep(5)
        world.cluster.faults.add(faults.Answer(code=403), faults.Matching(method="PATCH", path="/status"), times=2)
        pause(world)
        await asyncio.sleep(2)
        assert not paused(world.status())
        await asyncio.sleep(10)
        assert paused(world.status())
        pause(world, None)
        await asyncio.sleep(2)
        assert world.status()["conditions"] == []
        told = 'sluice_writes_total{kind="WorkerPool",lease="sluice-workers",outcome="done",verb="patch_status"} 2.0'
        assert told in replica.metrics.render().decode()


@simulated
async def test_a_condition_that_is_refused_for_ever_is_tried_less_and_less_often_and_only_that_one() -> None:
    world, sent = worker_world.World(), list[str]()
    world.add()

    async def refuse(request: port.Request, send: Next) -> port.Response:
        if request.method == "PATCH" and request.path.endswith("/workerpools/pool/status"):
            sent.append(request.path)
            return port.Response(status=403, body=b'{"reason":"Forbidden","message":"no right"}')
        return await send(request)

    async with worker_world.runtime(world, wrap=lambda api: Between(api, refuse)):
        await asyncio.sleep(5)
        pause(world)
        await asyncio.sleep(2)
        sent.clear()
        await asyncio.sleep(3600)
        assert 10 <= len(sent) <= 25
        world.add("new")
        await asyncio.sleep(5)
        assert paused(world.status("new"))
